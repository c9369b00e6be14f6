package mysql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"steward/internal/engine"
	"steward/internal/migration"
)

// noteEvery is how often the target notes how far the source's log was read where nothing in it was for it.
const noteEvery = 3 * time.Second

// keepingUp is a database that keeps up with its source.
type keepingUp struct {
	importing
	d *Driver
	// own is dbadmin's session in the database, source ours at the source.
	own, source *session
	state       followState
	log         *sourceLog
	writer      *writer
	late        migration.Late[binlogPosition]
	// goal is what must be here at the cutover; nowhere before it was asked for.
	goal binlogPosition
	// noted is when how far it is was noted last.
	noted time.Time
}

// KeepUp implements engine.Importer.
func (d *Driver) KeepUp(ctx context.Context, n engine.Node, s engine.Source, database migration.Database, asked <-chan struct{}, report func(engine.ImportProgress)) (err error) {
	s.Received = &engine.Received{} // it may be followed for days
	f := &keepingUp{importing: importing{n: n, s: s, d: database, report: report}, d: d, noted: time.Now()}
	if f.own, err = d.root(ctx, n); err != nil {
		return err
	}
	defer f.own.close()
	if err := d.endWriters(ctx, n, database.Slot); err != nil {
		return fmt.Errorf("end who wrote before: %w", err)
	}
	if f.state, err = readState(ctx, f.own, database); err != nil || f.state.opened {
		return err
	}
	if err := f.own.exec(ctx, "USE "+identifier(database.To)); err != nil {
		return err
	}
	if f.source, err = atSource(ctx, s); err != nil {
		return err
	}
	defer f.source.close()
	if err := f.Unchanged(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.dropWriter(ctx, n, database.Slot)) }()
	if f.writer, err = d.writer(ctx, n, database.To, database.Slot, f.state.upTo); err != nil {
		return err
	}
	defer f.writer.close()
	f.writer.excuses = s.Excused
	return f.follow(ctx, asked)
}

// follow has the log be read while what it has is written.
func (f *keepingUp) follow(ctx context.Context, asked <-chan struct{}) (err error) {
	if f.log, err = openLog(ctx, f.s, f.importing.d.From, f.state.upTo); err != nil {
		return err
	}
	defer f.log.close()
	f.late = migration.Late[binlogPosition]{Before: binlogPosition.before, Whole: time.Now().Add(-f.state.ago)}
	defer f.log.give() // whatever it was about
	return engine.Follow(ctx, f, asked, f.report)
}

// Receive implements engine.Following.
func (f *keepingUp) Receive(ctx context.Context) error { return f.log.run(ctx) }

// Received implements engine.Following.
func (f *keepingUp) Received() <-chan logged { return f.log.out }

// Take implements engine.Following.
func (f *keepingUp) Take(ctx context.Context, t logged, more bool) error {
	defer f.log.taken(t)
	if err := f.writer.take(ctx, t, more); err != nil {
		return err
	}
	if t.large {
		return f.writer.sendPart(ctx)
	}
	return nil
}

// Look implements engine.Following.
func (f *keepingUp) Look(ctx context.Context) error {
	end, err := f.end(ctx)
	if err != nil {
		return err
	}
	if err := f.tellLag(ctx, end); err != nil {
		return err
	}
	if time.Since(f.noted) > noteEvery && f.writer.whole() && f.writer.noted.before(f.writer.upTo) {
		if err := f.writer.note(ctx); err != nil {
			return err
		}
		f.noted = time.Now()
	}
	return nil
}

// end is where the source's log ends.
func (f *keepingUp) end(ctx context.Context) (binlogPosition, error) {
	status, err := logStatus(ctx, f.source)
	if err != nil {
		return binlogPosition{}, sourceFailed(f.s, err)
	}
	return parseBinlogPosition(status["File"], status["Position"])
}

func (f *keepingUp) tellLag(ctx context.Context, end binlogPosition) error {
	upTo := f.writer.noted
	if f.writer.whole() {
		upTo = f.writer.upTo
	}
	lag := migration.Lag{Seconds: int64(f.late.Seen(time.Now(), end, upTo).Seconds())}
	if upTo.before(end) {
		var err error
		if lag.Bytes, err = f.between(ctx, upTo, end); err != nil {
			return err
		}
	}
	f.report(engine.ImportProgress{Lag: &lag})
	return nil
}

// between is how much the source has logged from one position to another.
func (f *keepingUp) between(ctx context.Context, from, to binlogPosition) (int64, error) {
	if from.file == to.file {
		return int64(to.at - from.at), nil
	}
	logs, err := f.source.rows(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return 0, sourceFailed(f.s, err)
	}
	const mostBytes = 1 << 62
	bytes := int64(min(to.at, mostBytes)) - int64(from.at)
	for _, l := range logs {
		const columns = 2
		if len(l) < columns {
			return 0, errNotMySQL
		}
		p, err := parseBinlogPosition(l[0], l[1])
		if err != nil {
			return 0, err
		}
		if p.number() >= from.number() && p.number() < to.number() {
			bytes += int64(min(p.at, mostBytes>>20))
		}
	}
	return max(bytes, 0), nil
}

// CutOver implements engine.Following.
func (f *keepingUp) CutOver(ctx context.Context) (err error) {
	f.goal, err = f.end(ctx)
	return err
}

// Reached implements engine.Following.
func (f *keepingUp) Reached() bool {
	return f.goal.at > 0 && f.writer.whole() && !f.writer.upTo.before(f.goal)
}

// Open implements engine.Following. It may be repeated: until it is noted, nothing runs what was made.
func (f *keepingUp) Open(ctx context.Context) error {
	if err := f.writer.note(ctx); err != nil {
		return err
	}
	if err := f.numbers(ctx); err != nil {
		return err
	}
	for _, made := range f.state.opening {
		if err := made.make(ctx, f.own); err != nil {
			return openFailed(err)
		}
	}
	if err := f.own.exec(ctx, "UPDATE "+identifier(f.importing.d.To)+"."+followTable+" SET opened = 1 WHERE slot = "+literalText(f.importing.d.Slot)); err != nil {
		return openFailed(err)
	}
	return nil
}

// Complete implements engine.Importer.
func (d *Driver) Complete(ctx context.Context, n engine.Node, database migration.Database, report func(engine.ImportProgress)) error {
	report(engine.ImportProgress{Phase: migration.Validating})
	s, err := d.root(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.exec(ctx, "DROP TABLE IF EXISTS "+identifier(database.To)+"."+followTable); err != nil {
		return openFailed(err)
	}
	return d.dropWriter(ctx, n, database.Slot)
}

// Release implements engine.Importer: a source keeps its logs for as long as it is set to, whoever reads them.
func (d *Driver) Release(context.Context, engine.Source, migration.Database) error { return nil }

// Leftovers implements engine.Importer.
func (d *Driver) Leftovers(migration.Database) string { return "" }

// followTable is where it is noted, in a database that follows a source, how far it is.
const followTable = "steward_follow"

// followState is what is noted.
type followState struct {
	upTo binlogPosition
	// ago is how long ago it was that far.
	ago         time.Duration
	fingerprint string
	opened      bool
	opening     []definition
}

func readState(ctx context.Context, s *session, d migration.Database) (f followState, err error) {
	const query = "SELECT file, at, fingerprint, opened, opening, GREATEST(TIMESTAMPDIFF(SECOND, noted, UTC_TIMESTAMP(6)), 0) FROM %s.%s WHERE slot = ?"
	rows, err := s.rows(ctx, fmt.Sprintf(query, identifier(d.To), followTable), d.Slot)
	if is(err, errNoSuchTable, errUnknownDatabase) || err == nil && len(rows) != 1 {
		return f, engine.ErrUnnoted
	}
	if err != nil {
		return f, fmt.Errorf("read how far it is: %w", err)
	}
	r := rows[0]
	if f.upTo, err = parseBinlogPosition(r[0], r[1]); err != nil {
		return f, err
	}
	const seconds = 5
	ago, err := strconv.ParseInt(r[seconds], 10, 64)
	if err != nil {
		return f, fmt.Errorf("how long ago it was that far: %w", err)
	}
	f.fingerprint, f.opened, f.ago = r[2], r[3] == "1", time.Duration(ago)*time.Second
	f.opening, err = parseDefinitions(r[4])
	return f, err
}
