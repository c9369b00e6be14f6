package enginetest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFilesWith: a text is found wherever it is in a file.
func TestFilesWith(t *testing.T) {
	t.Parallel()
	const text, other = "what is looked for", "more"
	for _, before := range []int{0, 1, 64<<10 - len(text), 64<<10 - len(text)/2, 64<<10 - 1, 64 << 10, 200_000} {
		dir := t.TempDir()
		file := filepath.Join(dir, "data", "file")
		must(t, os.Mkdir(filepath.Dir(file), 0o700), "make a folder")
		must(t, os.WriteFile(file, []byte(strings.Repeat("x", before)+text+strings.Repeat("y", 100_000)), 0o600), "write a file")
		if got, want := FilesWith(t, dir, other, text), []string{`"` + text + `" is in /data/file`}; !slices.Equal(got, want) {
			t.Errorf("after %d bytes: %q, want %q", before, got, want)
		}
	}
}
