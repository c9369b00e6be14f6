package postgresql

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
)

// BaseBackup is a backup by the low-level functions ("Making a Base Backup Using the Low
// Level API" of PostgreSQL's manual): the files are copied within the kernel while
// the server writes to them, and the WAL from the start to the end of that makes
// them consistent. It costs the server's processes a checkpoint and nothing else,
// where BASE_BACKUP reads, checks and sends every page. Damaged pages are copied as
// they are: it's the daily backups that look for them.
func (Driver) BaseBackup(ctx context.Context, n engine.Node, dir string, _ engine.Runner) error {
	if err := baseBackup(ctx, n, dir); err != nil {
		return fmt.Errorf("base backup: %w", err)
	}
	return nil
}

func baseBackup(ctx context.Context, n engine.Node, dir string) error {
	major, err := majorOf(n.Installation)
	if err != nil {
		return err
	}
	conn, err := asAdmin(ctx, n, n.AdminPassword)
	if err != nil {
		return err
	}
	// Ending the session ends the backup, too, and the slot.
	defer conn.Close(context.WithoutCancel(ctx))
	needed, err := startBackup(ctx, conn, major)
	if err != nil {
		return fmt.Errorf("start a backup: %w", err)
	}
	if err := engine.CopyLiveTree(ctx, n.Data, dir, staysBehind); err != nil {
		return err
	}
	control, err := readLiveControl(ctx, n.Data)
	if err != nil {
		return err
	}
	label, err := stopBackup(ctx, conn, major, &needed)
	if err != nil {
		return fmt.Errorf("stop the backup: %w", err)
	}
	wal, err := needed.files(filepath.Join(n.Data, "pg_wal"))
	if err != nil {
		return err
	}
	if err := engine.CopyFiles(n.Data, dir, wal); err != nil {
		return err
	}
	return completeReplica(dir, wal, map[string][]byte{"backup_label": []byte(label), Driver{}.ControlFile(): control.content})
}

// walSpan are files of WAL, both included, by name.
type walSpan struct {
	first, last string
	// size is a file's, in bytes.
	size uint64
}

// startBackup begins a backup that ends with the session, as does the keeping of the
// WAL that it needs.
func startBackup(ctx context.Context, conn *pgconn.PgConn, major int) (needed walSpan, err error) {
	start := "pg_backup_start('steward', true)"
	if major < 15 {
		start = "pg_start_backup('steward', true, false)"
	}
	rows, err := query(ctx, conn, "SET statement_timeout = 0; SELECT count(*) FROM pg_tablespace WHERE spcname NOT IN ('pg_default', 'pg_global')")
	if err != nil {
		return needed, err
	}
	if rows[0][0] != "0" {
		return needed, errors.New("the server has tablespaces outside its data folder, which can't be copied")
	}
	slot := fmt.Sprintf("SELECT pg_create_physical_replication_slot('steward_basebackup_%d', true, true)", conn.PID())
	if _, err := query(ctx, conn, slot); err != nil {
		return needed, fmt.Errorf("keep WAL: %w", err)
	}
	rows, err = query(ctx, conn, "SELECT pg_walfile_name("+start+"), setting FROM pg_settings WHERE name = 'wal_segment_size'")
	if err != nil {
		return needed, err
	}
	needed.first = rows[0][0]
	needed.size, err = strconv.ParseUint(rows[0][1], 10, 64)
	return needed, err
}

// stopBackup ends the backup, and returns the text of backup_label.
func stopBackup(ctx context.Context, conn *pgconn.PgConn, major int, needed *walSpan) (label string, err error) {
	stop := "pg_backup_stop(false)"
	if major < 15 {
		stop = "pg_stop_backup(false, false)"
	}
	rows, err := query(ctx, conn, "SELECT labelfile, pg_walfile_name(lsn) FROM "+stop)
	if err != nil {
		return "", err
	}
	needed.last = rows[0][1]
	return rows[0][0], nil
}

// What a copy of a running server leaves out, as the manual's "Backing Up the Data
// Directory" has it. pg_control and the WAL come last, and in one piece.
var (
	emptied   = []string{"pg_dynshmem", "pg_notify", "pg_replslot", "pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans", "pg_wal"}
	transient = regexp.MustCompile(`^(postmaster\.(pid|opts)|backup_label.*|tablespace_map.*|backup_manifest|.*\.signal|pg_internal\.init.*|pgsql_tmp.*|t\d+_\d+.*)$`)
)

func staysBehind(name string, d fs.DirEntry) bool {
	top, below, _ := strings.Cut(name, "/")
	return below != "" && slices.Contains(emptied, top) || name == Driver{}.ControlFile() || transient.MatchString(path.Base(name))
}

// files lists those of the span, none missing, and the histories of timelines.
func (w walSpan) files(dir string) ([]string, error) {
	want, err := w.length()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list WAL: %w", err)
	}
	var files []string
	segments := uint64(0)
	for _, e := range entries {
		name := e.Name()
		within := segmentName.MatchString(name) && name >= w.first && name <= w.last
		if within {
			segments++
		}
		if within || historyName.MatchString(name) {
			files = append(files, path.Join("pg_wal", name))
		}
	}
	if segments != want {
		return nil, fmt.Errorf("%d files of WAL from %s to %s, where there should be %d", segments, w.first, w.last, want)
	}
	return files, nil
}

// length is how many files there are; all must be of one timeline.
func (w walSpan) length() (uint64, error) {
	if !segmentName.MatchString(w.first) || !segmentName.MatchString(w.last) || w.first[:8] != w.last[:8] || w.last < w.first {
		return 0, fmt.Errorf("no WAL reaches from %q to %q", w.first, w.last)
	}
	from, err := parseSegment(w.first[8:], w.size)
	if err != nil {
		return 0, err
	}
	to, err := parseSegment(w.last[8:], w.size)
	return to - from + 1, err
}

// completeReplica adds the files that were not copied, and makes it a replica's, since
// started as a primary it would be a second one.
func completeReplica(dir string, wal []string, files map[string][]byte) error {
	files[standbySignal] = nil
	for _, name := range wal { // the primary archives what is its own
		files[path.Join("pg_wal/archive_status", path.Base(name)+".done")] = nil
	}
	return engine.WriteFiles(dir, files)
}
