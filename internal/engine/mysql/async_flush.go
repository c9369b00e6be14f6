package mysql

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"steward/internal/engine"
)

// A replica that flushes its logs asynchronously survives when its server is killed,
// but not when the machine goes down: its log and its tables may then each hold
// what the other lacks. So such a replica has a file with the id of the machine's
// boot. After another boot its data counts as crash safe only if the server has
// stopped cleanly: then it has written poolFile, which is removed here before.

const (
	bootIDFile = "/proc/sys/kernel/random/boot_id"
	// asyncFlushFile keeps the name that running installations have.
	asyncFlushFile = "steward.relaxed"
	poolFile       = "ib_buffer_pool"
)

// crashSafe returns engine.ErrDiverged when the machine went down while the replica
// flushed asynchronously.
func crashSafe(n engine.Node) error {
	then, err := os.ReadFile(filepath.Join(n.Data, asyncFlushFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read since when the replica flushes asynchronously: %w", err)
	}
	now, err := os.ReadFile(bootIDFile)
	if err != nil {
		return fmt.Errorf("read the machine's boot id: %w", err)
	}
	if strings.TrimSpace(string(then)) == strings.TrimSpace(string(now)) {
		return nil
	}
	if _, err := os.Stat(filepath.Join(n.Data, poolFile)); err == nil {
		return nil
	}
	return fmt.Errorf("%w: the machine went down while its commits weren't synced", engine.ErrDiverged)
}

// noteAsyncFlush is called before the first commit that isn't synced.
func noteAsyncFlush(n engine.Node) error {
	now, err := os.ReadFile(bootIDFile)
	if err != nil {
		return fmt.Errorf("read the machine's boot id: %w", err)
	}
	if err := os.WriteFile(filepath.Join(n.Data, asyncFlushFile), now, 0o644); err != nil {
		return fmt.Errorf("note that the replica flushes asynchronously: %w", err)
	}
	if err := os.Remove(filepath.Join(n.Data, poolFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("note that the replica flushes asynchronously: %w", err)
	}
	return nil
}

// endAsyncFlush is called on a server that syncs again. It flushes what was written
// before, as a primary that nobody writes to wouldn't do.
func (s *session) endAsyncFlush(ctx context.Context, n engine.Node) error {
	note := filepath.Join(n.Data, asyncFlushFile)
	if _, err := os.Stat(note); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := s.exec(ctx, "FLUSH LOCAL BINARY LOGS", "FLUSH LOCAL ENGINE LOGS"); err != nil {
		return err
	}
	if err := os.Remove(note); err != nil {
		return fmt.Errorf("note that the server syncs again: %w", err)
	}
	return nil
}
