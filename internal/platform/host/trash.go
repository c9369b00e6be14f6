package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"steward/internal/process"
)

// trash is where what isn't wanted any more goes at once, by a rename, and is
// deleted later, in a quiet moment: file systems such as ext4 don't hand out
// freed inodes for minutes and create slowly meanwhile.
type trash struct {
	d    *Driver
	wake chan struct{}
}

func newTrash(d *Driver) *trash { return &trash{d: d, wake: make(chan struct{}, 1)} }

// put moves a file or folder away; nothing happens when there is none.
func (t *trash) put(path string) error {
	name := strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + filepath.Base(path)
	err := os.Rename(path, filepath.Join(t.d.layout.trash(), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("throw away %s: %w", path, err)
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
	return nil
}

// settle is how long trash lies before it is deleted: a burst of creates and
// deletes shouldn't be disturbed.
const settle = 10 * time.Second

// keepEmpty deletes what is in the trash while nothing else is going on.
func (t *trash) keepEmpty() {
	process.LowPriority()
	for {
		if err := t.empty(t.d.quit); err != nil && t.d.quit.Err() == nil {
			t.d.log.Warn("empty trash", "error", err)
		}
		select {
		case <-t.d.quit.Done():
			return
		case <-t.wake:
		}
		select {
		case <-t.d.quit.Done():
			return
		case <-time.After(settle):
		}
	}
}

func (t *trash) empty(ctx context.Context) error {
	entries, err := os.ReadDir(t.d.layout.trash())
	if err != nil {
		return fmt.Errorf("look into trash: %w", err)
	}
	for _, e := range entries {
		if !t.d.activity.quiet(ctx) {
			return ctx.Err()
		}
		if err := os.RemoveAll(filepath.Join(t.d.layout.trash(), e.Name())); err != nil {
			return fmt.Errorf("empty trash: %w", err)
		}
	}
	return nil
}
