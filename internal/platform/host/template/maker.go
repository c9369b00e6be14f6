package template

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// maker names the running program by its content, so that another steward
// makes its templates anew. It is found out when first needed.
var maker = sync.OnceValues(func() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the running program: %w", err)
	}
	return nameOf(path)
})

// nameOf is another one for each content of a program: the name that Go's linker gave it, or else a digest, which takes as long as
// half a dozen creates.
func nameOf(path string) (string, error) {
	if id, ok := buildID(path); ok {
		return id, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the running program: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read the running program: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// buildID is what the go command noted in a program. Its last part is a digest of all that was linked; what was built
// by other means has fewer parts, which need not be another's for another program.
func buildID(path string) (string, bool) {
	f, err := elf.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	section := f.Section(".note.go.buildid")
	if section == nil {
		return "", false
	}
	note, err := section.Data()
	const header = 16 // lengths of name and value, type, and the name Go
	if err != nil || len(note) < header {
		return "", false
	}
	const parts = 4
	id := string(bytes.TrimRight(note[header:], "\x00"))
	return id, strings.Count(id, "/") == parts-1 && !strings.HasSuffix(id, "/")
}
