package enginetest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"steward/internal/testdir"
)

// FilesWith says which files below a folder hold which of the texts.
func FilesWith(t *testing.T, dir string, texts ...string) (found []string) {
	t.Helper()
	var search search
	must(t, testdir.Walk(dir, func(path string, d fs.DirEntry) error {
		if !d.Type().IsRegular() {
			return nil
		}
		held, err := search.file(path, texts...)
		for _, text := range held {
			found = append(found, strconv.Quote(text)+" is in "+strings.TrimPrefix(path, dir))
		}
		return err
	}), "search files")
	return found
}

// search reads files through one window, however large they are: the race detector keeps a record of each byte of a
// buffer that is read into.
type search struct{ window []byte }

// file are those of the texts that a file holds.
func (s *search) file(path string, texts ...string) (held []string, err error) {
	const windowBytes = 64 << 10
	if s.window == nil {
		s.window = make([]byte, windowBytes)
	}
	overlap := 0
	for _, text := range texts {
		overlap = max(overlap, len(text)-1)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for kept := 0; ; {
		n, err := f.Read(s.window[kept:])
		content := s.window[:kept+n]
		for _, text := range texts {
			if !slices.Contains(held, text) && bytes.Contains(content, []byte(text)) {
				held = append(held, text)
			}
		}
		if errors.Is(err, io.EOF) {
			return held, nil
		}
		if err != nil {
			return nil, err
		}
		kept = copy(s.window, content[max(0, len(content)-overlap):])
	}
}
