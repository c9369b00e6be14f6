package mysql

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"steward/internal/engine"
)

func (mariaDB) position(ctx context.Context, s *session) (position, error) {
	rows, err := s.rows(ctx, "SELECT @@GLOBAL.gtid_slave_pos, @@GLOBAL.gtid_binlog_pos")
	if err != nil {
		return nil, err
	}
	_, number, err := furthest(rows[0]...)
	return new(numbered(number)), err
}

func (mariaDB) startNewArchive(ctx context.Context, n engine.Node, dir string, run engine.Piper) error {
	return forkMariaDB(ctx, n, dir, 0, run)
}

// archiveIDTable names the history of the data; a cluster that was never restored
// hasn't got it. It is part of every copy.
const archiveIDTable = "steward.lineage"

// firstArchiveID is that of data which was never restored.
const firstArchiveID = "origin"

const errNoSuchTable = 1146

func (mariaDB) archiveID(ctx context.Context, s *session) (string, error) {
	name, err := s.text(ctx, "SELECT name FROM "+archiveIDTable)
	if is(err, errNoSuchTable) {
		return firstArchiveID, nil
	}
	return name, err
}

var gtidInfo = regexp.MustCompile(`GTID 0-\d+-(\d+)`)

// begins: what the log itself says came before it is empty on a node that
// was copied from another. So its first transaction tells, which is mostly the
// fourth event; those after it may be large.
func (mariaDB) begins(ctx context.Context, s *session, log string, next uint64) (uint64, error) {
	for most := 4; ; most *= 2 {
		rows, err := s.rows(ctx, "SHOW BINLOG EVENTS IN "+quote(log)+" LIMIT "+strconv.Itoa(most))
		if err != nil {
			return 0, err
		}
		for _, r := range rows {
			if r[2] != "Gtid" {
				continue
			}
			m := gtidInfo.FindStringSubmatch(r[5])
			if m == nil {
				return 0, fmt.Errorf("%s begins with %q", log, r[5])
			}
			first, err := strconv.ParseUint(m[1], 10, 64)
			return first - 1, err
		}
		if len(rows) < most {
			return next, nil
		}
	}
}

// unpackToRecover notes in the tables how far the copy got: so a replica's
// server knows it, and it is kept up to date by what it does.
func (mariaDB) unpackToRecover(ctx context.Context, n engine.Node, archive *engine.ArchiveReader, dir string, run engine.Piper) error {
	if err := extractMariaDB(ctx, n, archive, dir, run); err != nil {
		return err
	}
	last, err := notedSequence(dir)
	if err != nil {
		return err
	}
	if err := bootstrapMariaDB(ctx, n, dir, goOnAfter(n, last, 0), run); err != nil {
		return fmt.Errorf("note the position: %w", err)
	}
	return discardNotes(dir)
}
