// Package docs proves that what documents and comments refer to is there.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// files are all of the repository with one of the extensions, from its root.
func files(t *testing.T, extensions ...string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != root && (strings.HasPrefix(name, ".") && name != ".ci" || name == "data" || name == "node_modules") {
			return filepath.SkipDir
		}
		for _, extension := range extensions {
			if !entry.IsDir() && filepath.Ext(name) == extension {
				found = append(found, path)
			}
		}
		return nil
	})
	if err != nil || len(found) == 0 {
		t.Fatalf("files %v: %d found, %v", extensions, len(found), err)
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	link    = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	// symbol is a link's text that names something of the Go file it leads to.
	symbol = regexp.MustCompile("^`(?:[a-z]+\\.)*([A-Za-z]+)`$")
	mark   = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// anchors are the headings of a document as links name them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		all[strings.ReplaceAll(mark.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return all
}

// TestLinks follows every relative link of every document: to files, to headings,
// and where its text is a name, to a Go file that declares it.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, path := range files(t, ".md") {
		for _, l := range link.FindAllStringSubmatch(read(t, path), -1) {
			target, anchor, _ := strings.Cut(l[2], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: [%s] leads to %s, which isn't there", path, l[1], l[2])
				continue
			}
			if anchor != "" && !anchors(read(t, to))[anchor] {
				t.Errorf("%s: [%s] leads to #%s, which %s doesn't have", path, l[1], anchor, to)
			}
			if name := symbol.FindStringSubmatch(l[1]); name != nil && filepath.Ext(to) == ".go" && !declares(read(t, to), name[1]) {
				t.Errorf("%s: %s doesn't declare %s", path, to, name[1])
			}
		}
	}
}

func declares(source, name string) bool {
	return regexp.MustCompile(`(?m)^(func( \([^)]*\))?|type|var|const|\t) ?` + name + `\b`).MatchString(source)
}

var citation = regexp.MustCompile(`[A-Za-z0-9_./-]+\.md\b`)

// TestCitations: a document that code names is there.
func TestCitations(t *testing.T) {
	t.Parallel()
	for _, path := range files(t, ".go", ".sql", ".sh", ".yaml") {
		for _, name := range citation.FindAllString(read(t, path), -1) {
			if strings.HasSuffix(path, filepath.Join("docs", "docs_test.go")) {
				continue
			}
			_, fromRoot := os.Stat(filepath.Join(root, name))
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), name)); err != nil && fromRoot != nil {
				t.Errorf("%s names %s, which isn't there", path, name)
			}
		}
	}
}
