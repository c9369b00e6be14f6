//go:build ignore

// Command sizes prints how long functions and files are, per package: to be
// read now and then, not enforced.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type sizes struct{ functions, files []int }

func main() {
	packages := map[string]*sizes{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "dbsqlc" || entry.Name() == "data"):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		pkg := filepath.Dir(path)
		if packages[pkg] == nil {
			packages[pkg] = &sizes{}
		}
		return packages[pkg].add(path)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "sizes:", err)
		os.Exit(1)
	}
	fmt.Printf("%-38s %7s   %-22s %s\n", "package", "lines", "function p50 p95 max", "file p50 max")
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		s := packages[pkg]
		total := 0
		for _, n := range s.files {
			total += n
		}
		fmt.Printf("%-38s %7d   %8d %5d %5d   %8d %5d\n", pkg, total,
			quantile(s.functions, 0.5), quantile(s.functions, 0.95), quantile(s.functions, 1), quantile(s.files, 0.5), quantile(s.files, 1))
	}
}

func (s *sizes) add(path string) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	line := func(p token.Pos) int { return set.Position(p).Line }
	s.files = append(s.files, line(file.FileEnd))
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			s.functions = append(s.functions, line(f.End())-line(f.Pos())+1)
		}
	}
	return nil
}

// quantile by nearest rank; 0 of nothing.
func quantile(n []int, q float64) int {
	if len(n) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(n), cmp.Compare[int])
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
