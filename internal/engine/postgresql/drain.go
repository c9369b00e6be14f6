package postgresql

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
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
		begin, ok, err := segmentBegin(filepath.Join(from, name))
		if err != nil {
			return fmt.Errorf("drain: %w", err)
		}
		// Recycled segments, made ahead of use, begin with an older address.
		if !ok || begin.name(name) != nil || begin.end() <= received {
			continue
		}
		if err := copyWAL(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return fmt.Errorf("drain: %w", err)
		}
	}
	return nil
}

var segmentName = regexp.MustCompile(`^[0-9A-F]{24}$`)

// walFiles are the segments in a folder, in order.
func walFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list WAL: %w", err)
	}
	var names []string
	for _, e := range entries {
		if segmentName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// segment is what the header of a segment's first page tells: XLogLongPageHeaderData
// of PostgreSQL's xlog_internal.h.
type segment struct {
	timeline uint32
	begin    uint64
	size     uint32
}

func (s segment) end() uint64 { return s.begin + uint64(s.size) }

// name is an error when the file's name isn't that of the segment in it.
func (s segment) name(file string) error {
	perID := uint64(1<<32) / uint64(s.size)
	number := s.begin / uint64(s.size)
	if want := fmt.Sprintf("%08X%08X%08X", s.timeline, number/perID, number%perID); want != file {
		return fmt.Errorf("segment %s has the content of %s", file, want)
	}
	return nil
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
		timeline: binary.LittleEndian.Uint32(head[4:]), begin: binary.LittleEndian.Uint64(head[8:]),
		size: binary.LittleEndian.Uint32(head[32:]),
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
