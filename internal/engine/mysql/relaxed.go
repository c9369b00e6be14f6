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

// A replica that doesn't sync its logs is all right when its server is killed,
// but not when the machine goes down: its log and its tables may then each hold
// what the other hasn't. So a replica that is relaxed has a file with the id of
// the machine's boot. In another boot its data is trusted only if the server has
// stopped cleanly: then it has written poolFile, which is removed here before.

const (
	bootIDFile  = "/proc/sys/kernel/random/boot_id"
	relaxedFile = "steward.relaxed"
	poolFile    = "ib_buffer_pool"
)

// trusted is engine.ErrDiverged when the machine went down under a relaxed replica.
func trusted(n engine.Node) error {
	then, err := os.ReadFile(filepath.Join(n.Data, relaxedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read since when the replica is relaxed: %w", err)
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

// relax is done before the first commit that isn't synced.
func relax(n engine.Node) error {
	now, err := os.ReadFile(bootIDFile)
	if err != nil {
		return fmt.Errorf("read the machine's boot id: %w", err)
	}
	if err := os.WriteFile(filepath.Join(n.Data, relaxedFile), now, 0o644); err != nil {
		return fmt.Errorf("note that the replica is relaxed: %w", err)
	}
	if err := os.Remove(filepath.Join(n.Data, poolFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("note that the replica is relaxed: %w", err)
	}
	return nil
}

// strict ends it on a server that syncs again: what it did before is written
// out, as a primary that nobody writes to wouldn't do.
func (s *session) strict(ctx context.Context, n engine.Node) error {
	note := filepath.Join(n.Data, relaxedFile)
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
