package mysql

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// Numbers that a source gives don't all stand in its log: not those of rows that were never committed, nor how far a sequence is that has given some and kept others. The
// cutover takes both from the source itself, so that none is given again.

const (
	// nextNumbers are those of a database's tables that number their rows.
	nextNumbers = "SELECT TABLE_NAME, AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_TYPE = 'BASE TABLE' AND AUTO_INCREMENT IS NOT NULL"
	// sequences are a database's.
	sequences = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_TYPE = 'SEQUENCE'"
)

// errUnknownVariable is how a server says that it is older, or newer, than a setting.
const errUnknownVariable = 1193

// wholeNumber is one that a sequence can have, of whichever type it is.
var wholeNumber = regexp.MustCompile(`^-?[0-9]{1,20}$`)

// numbers has tables and sequences here go on where the source's are. It may be repeated.
func (f *keepingUp) numbers(ctx context.Context) error {
	if err := f.counters(ctx); err != nil {
		return err
	}
	return f.sequences(ctx)
}

func (f *keepingUp) counters(ctx context.Context) error {
	theirs, err := askCounters(ctx, f.source, f.importing.d.From)
	if err != nil {
		return sourceFailed(f.s, err)
	}
	ours, err := askCounters(ctx, f.own, f.importing.d.To)
	if err != nil {
		return fmt.Errorf("read the next numbers of tables: %w", err)
	}
	for table, next := range ours {
		if theirs[table] <= next {
			continue
		}
		if err := f.own.exec(ctx, fmt.Sprintf("ALTER TABLE %s AUTO_INCREMENT = %d", identifier(table), theirs[table])); err != nil {
			return openFailed(err)
		}
	}
	return nil
}

// askCounters reads the next numbers as they are now: newer versions of MySQL remember them for a day.
func askCounters(ctx context.Context, s *session, database string) (map[string]uint64, error) {
	if err := s.exec(ctx, "SET SESSION information_schema_stats_expiry = 0"); err != nil && !is(err, errUnknownVariable) {
		return nil, err
	}
	rows, err := s.rows(ctx, nextNumbers, database)
	if err != nil {
		return nil, err
	}
	next := map[string]uint64{}
	for _, r := range rows {
		if next[r[0]], err = strconv.ParseUint(r[1], 10, 64); err != nil {
			return nil, errNotMySQL
		}
	}
	return next, nil
}

// sequences has those of MariaDB go on: what a source has kept to give it later, and what it noted, lies before.
func (f *keepingUp) sequences(ctx context.Context) error {
	theirs, err := f.source.rows(ctx, sequences, f.importing.d.From)
	if err != nil {
		return sourceFailed(f.s, err)
	}
	ours, err := f.own.rows(ctx, sequences, f.importing.d.To)
	if err != nil {
		return fmt.Errorf("list sequences: %w", err)
	}
	for _, r := range theirs {
		name := identifier(r[0])
		if !slices.ContainsFunc(ours, func(our []string) bool { return our[0] == r[0] }) {
			continue
		}
		at, err := f.source.rows(ctx, "SELECT next_not_cached_value, cycle_count FROM "+identifier(f.importing.d.From)+"."+name)
		if err != nil {
			return sourceFailed(f.s, err)
		}
		if len(at) != 1 || len(at[0]) != 2 {
			return errNotMySQL
		}
		if !wholeNumber.MatchString(at[0][0]) {
			return errNotMySQL
		}
		round, err := strconv.ParseUint(at[0][1], 10, 64)
		if err != nil {
			return errNotMySQL
		}
		// It goes nowhere back. DO would keep an error to itself.
		if _, err := f.own.rows(ctx, fmt.Sprintf("SELECT SETVAL(%s, %s, 0, %d) IS NULL", name, at[0][0], round)); err != nil {
			return openFailed(err)
		}
	}
	return nil
}
