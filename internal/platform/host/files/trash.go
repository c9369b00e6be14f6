package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"steward/internal/process"
	"steward/internal/wait"
)

// Trash is where what isn't wanted any more goes at once, by a rename, and is
// deleted later, in a quiet moment: file systems such as ext4 don't hand out
// freed inodes for minutes and create slowly meanwhile.
type Trash struct {
	dir   string
	quiet func(context.Context) bool
	log   *slog.Logger
	wake  chan struct{}
}

// NewTrash makes one of a folder that is there. quiet waits until nothing else is going on,
// and reports false when the context ended.
func NewTrash(dir string, quiet func(context.Context) bool, log *slog.Logger) *Trash {
	return &Trash{dir: dir, quiet: quiet, log: log, wake: make(chan struct{}, 1)}
}

// Put moves a file or folder away; nothing happens when there is none.
func (t *Trash) Put(path string) error {
	name := strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + filepath.Base(path)
	err := os.Rename(path, filepath.Join(t.dir, name))
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

// KeepEmpty deletes what is in the trash while nothing else is going on, until ctx ends.
func (t *Trash) KeepEmpty(ctx context.Context) {
	process.LowPriority()
	for {
		if err := t.Empty(ctx); err != nil && ctx.Err() == nil {
			t.log.WarnContext(ctx, "empty trash", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		}
		if wait.Sleep(ctx, settle) != nil {
			return
		}
	}
}

// Empty deletes what is in the trash now.
func (t *Trash) Empty(ctx context.Context) error {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return fmt.Errorf("look into trash: %w", err)
	}
	for _, e := range entries {
		if !t.quiet(ctx) {
			return ctx.Err()
		}
		if err := os.RemoveAll(filepath.Join(t.dir, e.Name())); err != nil {
			return fmt.Errorf("empty trash: %w", err)
		}
	}
	return nil
}
