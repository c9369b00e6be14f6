package template

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNameOf: a program has the name that the go command gave it; one without has a name by its content.
func TestNameOf(t *testing.T) {
	t.Parallel()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	id := nameOfFile(t, path)
	if strings.Count(id, "/") != 3 || !bytes.Contains(program, []byte(id)) {
		t.Fatalf("this program's name is %q, which isn't what go tool buildid shows", id)
	}
	redacted := bytes.ReplaceAll(program, []byte(id), append([]byte("redacted"), make([]byte, len(id)-len("redacted"))...))
	names := map[string]bool{id: true}
	for _, content := range [][]byte{redacted, append(redacted, 1), []byte("#!/bin/sh\n"), nil} {
		other := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(other, content, 0o600); err != nil {
			t.Fatal(err)
		}
		name := nameOfFile(t, other)
		if names[name] || strings.Contains(name, "redacted") {
			t.Errorf("another program of %d bytes has the name %q, too", len(content), name)
		}
		names[name] = true
	}
	if _, err := nameOf(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a program that isn't there has a name")
	}
}

func nameOfFile(t *testing.T, path string) string {
	t.Helper()
	name, err := nameOf(path)
	if err != nil {
		t.Fatal(err)
	}
	return name
}
