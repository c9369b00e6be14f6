package operator

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoStore: a command on a folder that nobody has served says so, and leaves nothing.
func TestNoStore(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "mistyped")
	if _, err := OpenAccess(t.Context(), data, ""); err == nil || !strings.Contains(err.Error(), "there is no store in the data folder "+data) {
		t.Errorf("opened: %v", err)
	}
	if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
}
