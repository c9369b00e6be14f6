//go:build ignore

// Command compare-definitions compares, by hand, the definitions of Kubernetes objects that tests use with those of the operator
// itself: go run scripts/compare-definitions.go FILE... With -facts first, it prints what the operator's say of the fields of ours, for
// internal/platform/kubernetes/simulator/testdata/definitions.txt.
package main

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"steward/internal/platform/kubernetes/simulator"
)

func main() {
	ours, err := simulator.Definitions()
	if err != nil {
		fail(err)
	}
	different, paths := false, os.Args[1:]
	facts := len(paths) > 0 && paths[0] == "-facts"
	if facts {
		paths = paths[1:]
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			fail(err)
		}
		real := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &real.Object); err != nil {
			fail(fmt.Errorf("%s: %w", path, err))
		}
		for _, d := range ours {
			if d.GetName() != real.GetName() {
				continue
			}
			if facts {
				for _, line := range simulator.Facts(d, real) {
					fmt.Println(line)
				}
				continue
			}
			for _, found := range simulator.Compare(d, real) {
				fmt.Println(found)
				different = true
			}
		}
	}
	if different {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}
