package postgresql

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"steward/internal/engine"
)

// Drain is part of engine.Replicator. What a dead server wrote to its WAL is in
// its files, acknowledged commits first of all: the heir is given the segments
// from the one on in which what it received ends. A recovering server reads what
// lies in its own pg_wal before it is promoted.
func (d Driver) Drain(ctx context.Context, dead, heir engine.Node) error {
	row, err := askOne(ctx, heir, `SELECT pg_catalog.pg_is_in_recovery(),
		greatest(pg_catalog.pg_last_wal_receive_lsn(), pg_catalog.pg_last_wal_replay_lsn())`)
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	if row[0] == "f" {
		return nil // promoted already, after an earlier drain
	}
	received, err := parseLSN(row[1])
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	from, to := filepath.Join(dead.Data, "pg_wal"), filepath.Join(heir.Data, "pg_wal")
	names, err := walFiles(from)
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("drain: %w", err)
		}
		needed, err := needsSegment(from, to, name, received)
		if err != nil {
			return fmt.Errorf("drain: %w", err)
		}
		if !needed {
			continue
		}
		if err := copyWAL(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return fmt.Errorf("drain: %w", err)
		}
	}
	return nil
}

// needsSegment tells whether a server that received so much lacks a file. Of a
// timeline's history it needs what it hasn't.
func needsSegment(from, to, name string, received uint64) (bool, error) {
	if filepath.Ext(name) == historySuffix {
		_, err := os.Stat(filepath.Join(to, name))
		return errors.Is(err, fs.ErrNotExist), nil
	}
	s, ok, err := segmentBegin(filepath.Join(from, name))
	// Recycled segments, made ahead of use, begin with another address.
	return ok && s.isNamed(name) && s.end() > received, err
}

const historySuffix = ".history"

var walName = regexp.MustCompile(`^([0-9A-F]{24}|[0-9A-F]{8}\.history)$`)

// walFiles are the segments and histories in a folder, in order.
func walFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list WAL: %w", err)
	}
	var names []string
	for _, e := range entries {
		if walName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// segment is what the header of a segment's first page tells: XLogLongPageHeaderData
// of PostgreSQL's xlog_internal.h. Its timeline says little: the first segment
// of a new one begins with what was written on the old.
type segment struct {
	begin uint64
	size  uint32
}

func (s segment) end() uint64 { return s.begin + uint64(s.size) }

// isNamed tells whether a file's name is that of the segment, on any timeline.
func (s segment) isNamed(file string) bool {
	perID := uint64(1<<32) / uint64(s.size)
	number := s.begin / uint64(s.size)
	const timeline = 8
	return file[timeline:] == fmt.Sprintf("%08X%08X", number/perID, number%perID)
}

// segmentBegin reads a segment's header; false when it has none.
func segmentBegin(path string) (segment, bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return segment{}, false, err
	}
	defer f.Close()
	var head [40]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return segment{}, false, fmt.Errorf("read segment %s: %w", filepath.Base(path), err)
	}
	const long = 2
	s := segment{
		begin: binary.LittleEndian.Uint64(head[8:]),
		size:  binary.LittleEndian.Uint32(head[32:]),
	}
	usable := binary.LittleEndian.Uint16(head[2:])&long != 0 && s.size >= 1<<20 && s.size&(s.size-1) == 0
	return s, usable, nil
}

// copyWAL replaces a segment by a copy, never by the same file: both servers go
// on writing theirs.
func copyWAL(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	fresh := to + ".steward"
	out, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("copy segment %s: %w", filepath.Base(from), err)
	}
	if err := out.Sync(); err != nil {
		return fmt.Errorf("copy segment %s: %w", filepath.Base(from), err)
	}
	if err := giveLike(filepath.Dir(to), fresh); err != nil {
		return err
	}
	return os.Rename(fresh, to)
}

// giveLike makes a file the user's whose folder it is in.
func giveLike(dir, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s has no owner", dir)
	}
	return os.Lchown(path, int(owner.Uid), int(owner.Gid))
}
