package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Template goes with a template and its clones until they are bootstrapped: the
// password that our own account still has in them.
type Template struct {
	Password string `json:"password"`
	// Maker is the program that made the template: another one may do it differently.
	Maker string `json:"maker"`
}

// TemplateFile is the file in a template's or a clone's folder.
func TemplateFile(dir string) string { return filepath.Join(dir, "template.json") }

// ReadTemplate returns the file in a template's or a clone's folder; empty when there is none.
func ReadTemplate(dir string) (Template, error) {
	t, _, err := Read[Template](TemplateFile(dir))
	return t, err
}

func templated(dir string) bool {
	_, err := os.Lstat(TemplateFile(dir))
	return err == nil
}

// Write replaces the file in a template's or a clone's folder.
func (t Template) Write(dir string) error { return WriteSoon(TemplateFile(dir), t) }

// RemoveTemplate removes the file from a node's folder, if it is there.
func RemoveTemplate(dir string) error {
	if err := os.Remove(TemplateFile(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove template file: %w", err)
	}
	return nil
}
