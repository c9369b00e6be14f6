package mysql

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"steward/internal/engine"
)

func (mySQL) position(ctx context.Context, s *session) (position, error) {
	text, err := s.text(ctx, "SELECT @@GLOBAL.gtid_executed")
	if err != nil {
		return nil, err
	}
	return parseGTIDs(text)
}

func (mySQL) unpackToRecover(_ context.Context, _ engine.Node, archive *engine.ArchiveReader, dir string, _ engine.Piper) error {
	return extractMySQL(archive, dir)
}

// archiveIDMark begins the UUIDs of the transactions by which firstSteps marks new
// histories; the rest of them is random.
const archiveIDMark = "steward1"

// archiveID follows from all marks in the data: every restore adds one.
func (mySQL) archiveID(ctx context.Context, s *session) (string, error) {
	text, err := s.text(ctx, "SELECT @@GLOBAL.gtid_executed")
	if err != nil {
		return "", err
	}
	executed, err := parseGTIDs(text)
	if err != nil {
		return "", err
	}
	marked := hex.EncodeToString([]byte(archiveIDMark))
	sum, marks := sha256.New(), 0
	for _, source := range slices.Sorted(maps.Keys(executed)) {
		if strings.HasPrefix(strings.ReplaceAll(source, "-", ""), marked) {
			sum.Write([]byte(source))
			marks++
		}
	}
	if marks == 0 {
		return firstArchiveID, nil
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// begins: before a log came what it says itself, and what never was in a log
// of this server's, since it came with a copy.
func (mySQL) begins(ctx context.Context, s *session, log string, _ uint64) (uint64, error) {
	rows, err := s.rows(ctx, "SHOW BINLOG EVENTS IN "+quote(log)+" LIMIT 2")
	if err != nil {
		return 0, err
	}
	if len(rows) != 2 || rows[1][2] != "Previous_gtids" {
		return 0, fmt.Errorf("%s doesn't say what came before it", log)
	}
	previous, err := parseGTIDs(rows[1][5])
	if err != nil {
		return 0, err
	}
	text, err := s.text(ctx, "SELECT @@GLOBAL.gtid_purged")
	if err != nil {
		return 0, err
	}
	purged, err := parseGTIDs(text)
	if err != nil {
		return 0, err
	}
	return union(previous, purged).count(), nil
}

// startNewArchive: forkMySQL brings the files itself that a server of encrypted data
// has in its folder.
func (f mySQL) startNewArchive(ctx context.Context, n engine.Node, dir string, run engine.Piper) error {
	_, files := f.encryption(n)
	for _, f := range files {
		if err := os.Remove(filepath.Join(dir, filepath.Base(f.Path))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return forkMySQL(ctx, n, dir, run)
}
