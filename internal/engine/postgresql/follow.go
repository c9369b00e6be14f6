package postgresql

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
	"steward/internal/migration"
	"steward/internal/wait"
)

// atOnce are the parts of a schema's end that rows are found by; others would act on rows as they come, and wait for the cutover.
var atOnce = regexp.MustCompile(`^[0-9]+; [0-9]+ [0-9]+ (CONSTRAINT|INDEX|INDEX ATTACH) `)

// references are foreign keys, which are made without looking at rows first: those that are in the target by their definitions.
var references = regexp.MustCompile(`^[0-9]+; [0-9]+ [0-9]+ FK CONSTRAINT `)

// foreignKeys are a source's foreign keys but those that partitions have of their parents.
const foreignKeys = `SELECT quote_ident(s.nspname) || '.' || quote_ident(c.relname), quote_ident(k.conname), pg_get_constraintdef(k.oid), c.relkind = 'p', k.convalidated
	FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace s ON s.oid = c.relnamespace
	WHERE k.contype = 'f' AND k.conparentid = 0 AND s.nspname !~ '^pg_' AND s.nspname <> 'information_schema'
	AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e') ORDER BY c.oid, k.oid`

// identities are our columns that only the server numbers: while a source is followed, their numbers are the source's.
const identities = `SELECT 'ALTER TABLE ' || quote_ident(s.nspname) || '.' || quote_ident(c.relname) || ' ALTER COLUMN ' || quote_ident(a.attname) || ' SET GENERATED '
	FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace s ON s.oid = c.relnamespace
	WHERE a.attidentity = 'a' AND NOT a.attisdropped AND NOT c.relispartition AND s.nspname !~ '^pg_' AND s.nspname NOT IN ('information_schema', 'steward')`

// cutover is what makes a database that has followed a source one that can be written to, and what can be done then.
type cutover struct {
	opening    strings.Builder
	afterwards []string
}

// leaveToFollow makes what rows are found by, and notes from where on the source is to be followed, and what is to be done at the cutover.
func (i *importing) leaveToFollow(ctx context.Context, schema []byte, from lsn) error {
	now, err := i.script(ctx, schema, "post-data", atOnce.Match)
	if err != nil {
		return err
	}
	if _, err := query(ctx, i.target, now); err != nil {
		return targetFailed("take the source's schema", err)
	}
	var c cutover
	if err := i.numbers(ctx, &c); err != nil {
		return err
	}
	if err := i.references(ctx, &c); err != nil {
		return err
	}
	late, err := i.script(ctx, schema, "post-data", func(line []byte) bool { return !atOnce.Match(line) && !references.Match(line) })
	if err != nil {
		return err
	}
	c.opening.WriteString(late)
	// What can't be done at the cutover is better known now.
	if _, err := query(ctx, i.target, "BEGIN;"+c.opening.String()+"; ROLLBACK"); err != nil {
		return targetFailed("take the source's schema", err)
	}
	i.report(engine.ImportProgress{Phase: migration.Analyzing})
	if _, err := query(ctx, i.target, "ANALYZE"); err != nil {
		return targetFailed("analyze the tables", err)
	}
	return i.note(ctx, c, from)
}

// numbers lets columns be written that only the server numbers, until the cutover.
func (i *importing) numbers(ctx context.Context, c *cutover) error {
	rows, err := query(ctx, i.target, identities)
	if err != nil {
		return targetFailed("take the source's schema", err)
	}
	for _, r := range rows {
		if _, err := query(ctx, i.target, r[0]+"BY DEFAULT"); err != nil {
			return targetFailed("take the source's schema", err)
		}
		c.opening.WriteString(r[0] + "ALWAYS;\n")
	}
	return nil
}

// references has foreign keys hold for new rows from the cutover on, and be looked at for all rows after it.
func (i *importing) references(ctx context.Context, c *cutover) error {
	rows, err := askSource(ctx, i.s, i.source, foreignKeys)
	if err != nil {
		return err
	}
	for _, r := range rows {
		const columns = 5
		if len(r) != columns {
			return errNotPostgreSQL
		}
		table, name, definition, partitioned, valid := r[0], r[1], r[2], r[3] == "t", r[4] == "t"
		switch {
		case partitioned: // whose keys can't be looked at later
			fmt.Fprintf(&c.opening, "ALTER TABLE %s ADD CONSTRAINT %s %s;\n", table, name, definition)
		case valid:
			fmt.Fprintf(&c.opening, "ALTER TABLE ONLY %s ADD CONSTRAINT %s %s NOT VALID;\n", table, name, definition)
			c.afterwards = append(c.afterwards, fmt.Sprintf("ALTER TABLE ONLY %s VALIDATE CONSTRAINT %s", table, name))
		default: // it says NOT VALID itself
			fmt.Fprintf(&c.opening, "ALTER TABLE ONLY %s ADD CONSTRAINT %s %s;\n", table, name, definition)
		}
	}
	return nil
}

// note writes down, in the target, from where on the source is to be followed.
func (i *importing) note(ctx context.Context, c cutover, from lsn) error {
	print, err := askFingerprint(ctx, i.s, i.source)
	if err != nil {
		return err
	}
	afterwards, err := json.Marshal(c.afterwards)
	if err != nil {
		return fmt.Errorf("note what is to be done afterwards: %w", err)
	}
	_, err = query(ctx, i.target, fmt.Sprintf(`BEGIN; SET LOCAL synchronous_commit = on; CREATE SCHEMA %[1]s;
		CREATE TABLE %[1]s.state (slot text PRIMARY KEY, lsn pg_lsn NOT NULL, at timestamptz NOT NULL, fingerprint text NOT NULL, opened boolean NOT NULL, opening text NOT NULL, afterwards text NOT NULL);
		INSERT INTO %[1]s.state VALUES (%[2]s, '%[3]s', now() - interval '%[7]d seconds', %[4]s, false, %[5]s, %[6]s); COMMIT`,
		followSchema, quoteText(i.d.Slot), from, quoteText(print), quoteText(c.opening.String()), quoteText(string(afterwards)), int(time.Since(i.began).Seconds())))
	if err != nil {
		return targetFailed("note how far it is", err)
	}
	return nil
}

// followState is what note has written, as it is now.
type followState struct {
	upTo lsn
	// ago is how long ago it was that far.
	ago                  time.Duration
	fingerprint, opening string
	opened               bool
	afterwards           []string
}

func readState(ctx context.Context, target *pgconn.PgConn, slot string) (f followState, err error) {
	rows, err := query(ctx, target, "SELECT lsn, fingerprint, opened, opening, afterwards, greatest(extract(epoch FROM now() - at), 0)::bigint FROM "+followSchema+".state WHERE slot = "+quoteText(slot))
	if codeOf(err) == "42P01" || codeOf(err) == "3F000" || err == nil && len(rows) != 1 {
		return f, engine.ErrUnnoted
	}
	if err != nil {
		return f, targetFailed("say how far it is", err)
	}
	r := rows[0]
	if f.upTo, err = parseLSN(r[0]); err != nil {
		return f, err
	}
	f.fingerprint, f.opened, f.opening = r[1], r[2] == "t", r[3]
	const seconds = 5
	ago, err := strconv.ParseInt(r[seconds], 10, 64)
	if err != nil {
		return f, fmt.Errorf("how long ago it was that far: %w", err)
	}
	f.ago = time.Duration(ago) * time.Second
	return f, json.Unmarshal([]byte(r[4]), &f.afterwards)
}

// following is a database that keeps up with its source.
type following struct {
	importing
	state  followState
	stream *stream
	apply  applier
	late   migration.Late[lsn]
	// goal is what must be here at the cutover; 0 before it was asked for.
	goal lsn
	// durable is when the source was told last what it needs to keep no longer.
	durable time.Time
}

// KeepUp implements engine.Importer.
func (Driver) KeepUp(ctx context.Context, n engine.Node, s engine.Source, d migration.Database, asked <-chan struct{}, report func(engine.ImportProgress)) error {
	s.Received = &engine.Received{} // what ended an earlier connection says nothing of this one
	f := &following{importing: importing{n: n, s: s, d: d, report: report}, durable: time.Now()}
	var err error
	if f.target, err = atTarget(ctx, n, d.To); err != nil {
		return targetFailed("let steward in", err)
	}
	defer closeSoon(ctx, f.target)
	if err := endWriters(ctx, f.target); err != nil {
		return err
	}
	if f.state, err = readState(ctx, f.target, d.Slot); err != nil || f.state.opened {
		return err
	}
	if f.source, err = atSource(ctx, s, d.From); err != nil {
		return err
	}
	defer closeSoon(ctx, f.source)
	if err := f.begin(ctx); err != nil {
		return err
	}
	defer f.stream.guard.give()
	defer closeSoon(ctx, f.stream.conn)
	return engine.Follow(ctx, f, asked, report)
}

// endWriters ends sessions of a steward that was killed, of which the server may still carry out the last statement: how far it is can be read when they
// are gone.
func endWriters(ctx context.Context, target *pgconn.PgConn) error {
	for {
		left, err := query(ctx, target, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user AND application_name = '"+
			importerName+"' AND pid <> pg_backend_pid()")
		if err != nil {
			return targetFailed("end who wrote before", err)
		}
		if len(left) == 0 {
			return nil
		}
		if err := wait.Sleep(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("end who wrote before: %w", err)
		}
	}
}

// begin looks whether the source still has what is to follow, and is what it was, and begins to receive.
func (f *following) begin(ctx context.Context) error {
	if err := free(ctx, f.s, f.source, f.d.Slot); err != nil {
		return err
	}
	rows, err := askSource(ctx, f.s, f.source, "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = "+quoteText(f.d.Slot))
	if err != nil {
		return err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return &engine.SourceError{Reason: "The source has nothing kept for us any more: its replication slot was dropped. Begin again."}
	}
	kept, err := parseLSN(rows[0][0])
	if err != nil {
		return errNotPostgreSQL
	}
	if kept > f.state.upTo {
		return &engine.SourceError{Reason: "The database here is as it was some time ago, by a restore or a failover, and the source doesn't keep that long what it has written. Begin again."}
	}
	if err := f.Unchanged(ctx); err != nil {
		return err
	}
	f.apply = newApplier(f.target, f.d.Slot, f.state.upTo)
	f.apply.excuses = f.s.Excused
	f.late = migration.Late[lsn]{Before: func(a, b lsn) bool { return a < b }, Whole: time.Now().Add(-f.state.ago)}
	if err := f.apply.durable(ctx); err != nil { // before the source is told of it
		return err
	}
	f.stream, err = startStream(ctx, f.s, f.d.From, f.d.Slot, f.state.upTo)
	return err
}

// Unchanged implements engine.Following.
func (f *following) Unchanged(ctx context.Context) error {
	print, err := askFingerprint(ctx, f.s, f.source)
	if err == nil && print != f.state.fingerprint {
		return &engine.SourceError{Reason: "The source's tables, functions, triggers or extensions aren't those any more that were copied: only rows are followed. Begin again."}
	}
	return err
}

// durableEvery is how often what was written is made sure of, after which the source keeps it no longer.
const durableEvery = 3 * time.Second

// Receive implements engine.Following.
func (f *following) Receive(ctx context.Context) error { return f.stream.run(ctx) }

// Received implements engine.Following.
func (f *following) Received() <-chan streamed { return f.stream.out }

// Take implements engine.Following.
func (f *following) Take(ctx context.Context, s streamed, more bool) error {
	f.stream.taken(s)
	if err := f.apply.take(ctx, s, more); err != nil {
		return err
	}
	if s.large { // and written, or sent
		f.stream.guard.give()
	}
	return nil
}

// Look implements engine.Following: it also tells the source now and then what it may forget.
func (f *following) Look(ctx context.Context) error {
	f.tellLag(time.Now())
	if !f.apply.whole() {
		return nil
	}
	if time.Since(f.durable) > durableEvery && uint64(f.apply.upTo) > f.stream.confirmed.Load() {
		if err := f.apply.durable(ctx); err != nil {
			return err
		}
		f.stream.confirmed.Store(uint64(f.apply.upTo))
		f.durable = time.Now()
	}
	return nil
}

func (f *following) tellLag(now time.Time) {
	end := lsn(f.stream.end.Load())
	lag := migration.Lag{Seconds: int64(f.late.Seen(now, end, f.apply.upTo).Seconds())}
	if end > f.apply.upTo {
		lag.Bytes = int64(min(end-f.apply.upTo, 1<<62))
	}
	f.report(engine.ImportProgress{Lag: &lag})
}

// CutOver implements engine.Following.
func (f *following) CutOver(ctx context.Context) (err error) {
	if f.goal, err = askHere(ctx, f.s, f.source); err != nil {
		return err
	}
	f.stream.urgent.Store(true)
	return nil
}

// Reached implements engine.Following.
func (f *following) Reached() bool { return f.goal > 0 && f.apply.whole() && f.apply.upTo >= f.goal }

// openingLocks is how long the cutover waits for somebody who uses a table here.
const openingLocks = "10s"

// Open implements engine.Following: it is done at once or not at all.
func (f *following) Open(ctx context.Context) error {
	if _, err := query(ctx, f.target, "BEGIN; SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = '"+openingLocks+"'"); err != nil {
		return targetFailed("be cut over", err)
	}
	if err := f.setSequences(ctx); err != nil {
		return err
	}
	if _, err := query(ctx, f.target, f.state.opening); err != nil {
		return targetFailed("be cut over", err)
	}
	if err := f.apply.note(ctx, f.apply.upTo, ", opened = true"); err != nil {
		return err
	}
	return nil
}

// Complete implements engine.Importer.
func (Driver) Complete(ctx context.Context, n engine.Node, d migration.Database, report func(engine.ImportProgress)) error {
	target, err := atTarget(ctx, n, d.To)
	if err != nil {
		return targetFailed("let steward in", err)
	}
	defer closeSoon(ctx, target)
	there, err := query(ctx, target, "SELECT to_regclass('"+followSchema+".state')")
	if err != nil {
		return targetFailed("be completed", err)
	}
	if there[0][0] == "" {
		return nil
	}
	state, err := readState(ctx, target, d.Slot)
	if err != nil {
		return err
	}
	report(engine.ImportProgress{Phase: migration.Validating})
	for _, statement := range state.afterwards {
		if _, err := query(ctx, target, statement); err != nil {
			return targetFailed("find its foreign keys right", err)
		}
	}
	if err := (&importing{target: target}).fillViews(ctx); err != nil {
		return err
	}
	if _, err := query(ctx, target, "DROP SCHEMA "+followSchema+" CASCADE"); err != nil {
		return targetFailed("forget how far it was", err)
	}
	return nil
}
