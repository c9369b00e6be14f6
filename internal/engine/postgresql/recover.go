package postgresql

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"steward/internal/engine"
)

var _ engine.Fetcher = Driver{}

// recoverySignal in Node.Data makes a server recover from an archive.
const recoverySignal = "recovery.signal"

// UnpackToRecover leaves the copy's system identifier as it is, since the server
// takes only WAL of the same. The identifier is the archive ID, too: a
// restore in place begins a new one, whose segments have the names of the old.
func (Driver) UnpackToRecover(_ context.Context, _ engine.Node, r io.Reader, dir string, _ engine.Piper) (archiveID, first string, err error) {
	if err := unpack(r, dir); err != nil {
		return "", "", fmt.Errorf("unpack backup: %w", err)
	}
	control, err := readControl(controlPath(dir))
	if err != nil {
		return "", "", fmt.Errorf("unpack backup: %w", err)
	}
	if first, err = lastSegment(filepath.Join(dir, "pg_wal")); err != nil {
		return "", "", fmt.Errorf("unpack backup: %w", err)
	}
	if err := engine.SyncTree(dir); err != nil {
		return "", "", fmt.Errorf("unpack backup: %w", err)
	}
	id := control.identity().id
	return archiveIDOf(id[:]), first, nil
}

func archiveIDOf(id []byte) string { return hex.EncodeToString(id) }

// lastSegment of a copy was being written when the copy ended.
func lastSegment(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	last := ""
	for _, e := range entries {
		if segmentName.MatchString(e.Name()) && (last == "" || (Driver{}).Beyond(e.Name(), last)) {
			last = e.Name()
		}
	}
	if last == "" {
		return "", fmt.Errorf("no WAL in %s", dir)
	}
	return last, nil
}

// Prunable is true for all but the histories of timelines.
func (Driver) Prunable(name string) bool { return !historyName.MatchString(name) }

// EndedEarly knows the server's own words.
func (Driver) EndedEarly(words string) bool {
	return strings.Contains(words, "recovery ended before configured recovery target was reached")
}

// LastChange is the last transaction that was replayed.
func (Driver) LastChange(ctx context.Context, n engine.Node) (time.Time, error) {
	row, err := askOne(ctx, n, "SELECT coalesce((extract(epoch FROM pg_last_xact_replay_timestamp()) * 1e6)::bigint::text, '')")
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for the last change: %w", err)
	}
	return parseTime(row[0])
}

// StartNewArchive gives the data another system identifier, as Unpack does.
func (Driver) StartNewArchive(_ context.Context, _ engine.Node, dir string, _ engine.Piper) error {
	if err := remove(dir, leftovers...); err != nil {
		return fmt.Errorf("start new archive: %w", err)
	}
	control, err := readPristine(dir)
	if err != nil {
		return fmt.Errorf("start new archive: %w", err)
	}
	if err := freshIdentity().put(dir, control); err != nil {
		return fmt.Errorf("start new archive: %w", err)
	}
	if err := engine.SyncTree(dir); err != nil {
		return fmt.Errorf("start new archive: %w", err)
	}
	return nil
}

// ArchiveIDOf reads a segment's archive ID from its own head, where byte 24 begins the
// identifier; a history has none in it and is of the data's.
func (Driver) ArchiveIDOf(ctx context.Context, name string, head []byte, data string) (archiveID string, keep bool, err error) {
	switch {
	case segmentName.MatchString(name):
		if len(head) < 32 || head[2]&2 == 0 {
			return "", false, fmt.Errorf("%s in the archive directory is no segment", name)
		}
		return archiveIDOf(head[24:32]), true, nil
	case historyName.MatchString(name):
		control, err := readLiveControl(ctx, data)
		if err != nil {
			return "", false, err
		}
		id := control.identity().id
		return archiveIDOf(id[:]), true, nil
	}
	return "", false, nil // notes on backups, and ends of segments that others go on with
}

// Beyond compares places in the WAL.
func (Driver) Beyond(a, b string) bool {
	first, isFirst := segmentNumber(a)
	second, isSecond := segmentNumber(b)
	return isFirst && (!isSecond || first > second)
}
