package postgresql

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
	"steward/internal/failpoint"
)

const (
	// mostRows and mostBytes bound what is sent to the target at once; transactions beyond them are sent piece by piece.
	mostRows, mostBytes = 2000, 1 << 20
	// mostPrepared is how many statements are kept prepared.
	mostPrepared = 500
	// mostFollowed is how many of a source's tables are known at once.
	mostFollowed = 20000
)

// applier writes a source's transactions into the target, several in one of its own. How far that is, is written in the same one: what was written is
// neither lost nor written twice, whenever we end.
type applier struct {
	target *pgconn.PgConn
	slot   string
	tables map[uint32]*followed
	// prepared are statements' names by their text.
	prepared map[string]string
	batch    *pgconn.Batch
	// expected is what each statement of the batch must do; rows and size are about what batch and inserts take.
	expected   []expected
	rows, size int
	// inserts are rows of tables that come after the batch's. Nothing acts on rows before the cutover: what else changes is another table's, and may come first.
	inserts map[*followed][][]field
	// open reports whether the target is within a transaction of ours, within whether we are within one of the source's.
	open, within bool
	// upTo is the place up to which all that the source has committed is in what we write; from the one that it began with.
	upTo, from lsn
	// skip reports whether the source's transaction was written before.
	skip bool
	// excuses has the source not be taken for silent while the target is waited for, until what it returns is called.
	excuses func() (end func())
}

// expected is what a statement of a batch must do: change so many rows of a table, or any number of them.
type expected struct {
	rows  int64
	table string
}

const anyRows = -1

// mangled is the end of following a source that doesn't send what it should.
func mangled(err error) error {
	return &engine.SourceError{Reason: "It was given up: " + err.Error() + "."}
}

func newApplier(target *pgconn.PgConn, slot string, upTo lsn) applier {
	return applier{target: target, slot: slot, tables: map[uint32]*followed{}, prepared: map[string]string{}, batch: &pgconn.Batch{}, inserts: map[*followed][][]field{}, upTo: upTo, from: upTo, excuses: func() func() { return func() {} }}
}

// whole reports whether nothing is written that isn't committed.
func (a *applier) whole() bool {
	return !a.within && !a.open && len(a.expected) == 0 && len(a.inserts) == 0
}

// take writes what came. more reports whether the next is there already: then they share a transaction.
func (a *applier) take(ctx context.Context, s streamed, more bool) error {
	if s.message == nil {
		if !a.within {
			a.upTo = max(a.upTo, s.upTo)
		}
	} else if err := a.change(ctx, s.message); err != nil {
		return err
	}
	full := a.rows >= mostRows || a.size >= mostBytes
	switch {
	case !a.within && !a.whole() && (full || !more):
		return a.commit(ctx)
	case full:
		return a.flush(ctx)
	}
	return nil
}

func (a *applier) change(ctx context.Context, message []byte) error {
	c, ok, err := parseChange(message)
	if err != nil {
		return mangled(err)
	}
	if !ok {
		return nil
	}
	switch c.kind {
	case changeBegin:
		if a.within {
			return mangled(errMangled)
		}
		a.within, a.skip = true, c.end < a.from
		return nil
	case changeCommit:
		if !a.within {
			return mangled(errMangled)
		}
		a.within, a.upTo = false, max(a.upTo, c.end)
		return nil
	case changeRelation:
		return a.relation(ctx, c)
	}
	if !a.within {
		return mangled(errMangled)
	}
	if a.skip {
		return nil
	}
	if c.kind == changeTruncate {
		return a.truncate(ctx, c)
	}
	table := a.tables[c.relation]
	if table == nil {
		return mangled(errMangled)
	}
	if c.kind == changeInsert && len(c.row) > 0 {
		return a.insert(ctx, table, c.row)
	}
	if err := a.sendInserts(ctx, table); err != nil {
		return err
	}
	st, err := table.statement(c)
	if err != nil {
		return mangled(err)
	}
	return a.add(ctx, st, table.name())
}

// insert has a row be inserted together with others of its table.
func (a *applier) insert(ctx context.Context, table *followed, row []field) error {
	if !table.insertable(row) {
		return mangled(errMangled)
	}
	a.inserts[table] = append(a.inserts[table], row)
	a.rows++
	for _, value := range row {
		a.size += len(value.value)
	}
	if len(a.inserts[table]) >= table.together(mostTogether) {
		return a.sendInserts(ctx, table)
	}
	return nil
}

// sendInserts puts a table's rows that wait into the batch.
func (a *applier) sendInserts(ctx context.Context, table *followed) error {
	rows := a.inserts[table]
	delete(a.inserts, table)
	for len(rows) > 0 {
		n := table.together(len(rows))
		if err := a.put(ctx, table.insert(rows[:n]), table.name()); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (a *applier) truncate(ctx context.Context, c change) error {
	var names []string
	for _, id := range c.relations {
		table := a.tables[id]
		if table == nil {
			return mangled(errMangled)
		}
		names = append(names, "ONLY "+table.sql())
		if err := a.sendInserts(ctx, table); err != nil {
			return err
		}
	}
	if len(names) == 0 {
		return nil
	}
	return a.add(ctx, rowChange{sql: "TRUNCATE " + strings.Join(names, ", "), rows: anyRows}, names[0])
}

// add puts a statement into the batch, and counts it.
func (a *applier) add(ctx context.Context, st rowChange, table string) error {
	a.rows++
	for _, value := range st.values {
		a.size += len(value)
	}
	return a.put(ctx, st, table)
}

// put puts a statement into the batch.
func (a *applier) put(ctx context.Context, st rowChange, table string) error {
	name, known := a.prepared[st.sql]
	if !known {
		if len(a.prepared) >= mostPrepared {
			if err := a.forget(ctx); err != nil {
				return err
			}
		}
		name = fmt.Sprintf("s%d", len(a.prepared))
		if _, err := a.target.Prepare(ctx, name, st.sql, nil); err != nil {
			return targetFailed("take a row of "+shownText(table), err)
		}
		a.prepared[st.sql] = name
	}
	if !a.open && len(a.expected) == 0 {
		a.batch.ExecParams("BEGIN", nil, nil, nil, nil)
		a.expected = append(a.expected, expected{rows: anyRows})
	}
	a.batch.ExecPrepared(name, st.values, nil, nil)
	a.expected = append(a.expected, expected{st.rows, table})
	return nil
}

// forget sends the batch and forgets all prepared statements.
func (a *applier) forget(ctx context.Context) error {
	if err := a.send(ctx); err != nil {
		return err
	}
	if _, err := query(ctx, a.target, "DEALLOCATE ALL"); err != nil {
		return targetFailed("take the source's rows", err)
	}
	a.prepared = map[string]string{}
	return nil
}

// flush sends all that waits.
func (a *applier) flush(ctx context.Context) error {
	for table := range a.inserts {
		if err := a.sendInserts(ctx, table); err != nil {
			return err
		}
	}
	a.rows, a.size = 0, 0
	return a.send(ctx)
}

// send sends the batch and sees that each statement has changed what it must.
func (a *applier) send(ctx context.Context) error {
	if len(a.expected) == 0 {
		return nil
	}
	defer a.excuses()()
	all := a.expected
	results := a.target.ExecBatch(ctx, a.batch)
	a.batch, a.expected, a.open = &pgconn.Batch{}, nil, true
	var failed error
	n := 0
	for ; n < len(all) && results.NextResult(); n++ {
		tag, err := results.ResultReader().Close()
		if err != nil {
			break
		}
		if want := all[n].rows; want != anyRows && tag.RowsAffected() != want && failed == nil {
			failed = &engine.SourceError{Reason: "A row that the source has changed isn't in " + shownText(all[n].table) + " here: it was changed here meanwhile. Begin again, and write nothing here before the cutover."}
		}
	}
	if err := results.Close(); err != nil {
		return targetFailed("take a row of "+shownText(all[min(n, len(all)-1)].table), err)
	}
	return failed
}

// commit makes what was sent the target's, with how far it is.
func (a *applier) commit(ctx context.Context) error {
	if err := a.flush(ctx); err != nil {
		return err
	}
	failpoint.Here("postgresql: rows sent")
	if err := a.note(ctx, a.upTo, ""); err != nil {
		return err
	}
	failpoint.Here("postgresql: rows written")
	return nil
}

// note writes how far it is and what else is set, and ends the transaction.
func (a *applier) note(ctx context.Context, upTo lsn, more string) error {
	defer a.excuses()()
	results, err := a.target.Exec(ctx, fmt.Sprintf("UPDATE %s.state SET lsn = '%s', at = now()%s WHERE slot = %s; COMMIT", followSchema, upTo, more, quoteText(a.slot))).ReadAll()
	if err != nil {
		return targetFailed("note how far it is", err)
	}
	if len(results) != 2 || results[0].CommandTag.RowsAffected() != 1 || results[1].CommandTag.String() != "COMMIT" {
		return engine.ErrUnnoted
	}
	a.open = false
	return nil
}

// durable has the target keep all that was written, whatever happens to it.
func (a *applier) durable(ctx context.Context) error {
	if _, err := query(ctx, a.target, "BEGIN; SET LOCAL synchronous_commit = on"); err != nil {
		return targetFailed("note how far it is", err)
	}
	return a.note(ctx, a.upTo, "")
}

// shapes is what a table is here: its columns that aren't computed, its primary key, and the operators that unique indexes compare columns by.
const shapes = `SELECT a.attname, coalesce((SELECT bool_or(a.attnum = ANY (i.indkey)) FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary), false),
	coalesce((SELECT 'OPERATOR(' || quote_ident(on_.nspname) || '.' || o.oprname || ')' FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indclass::oid[]) AS k (attnum, class)
		JOIN pg_opclass oc ON oc.oid = k.class JOIN pg_am m ON m.oid = oc.opcmethod AND m.amname = 'btree'
		JOIN pg_amop ao ON ao.amopfamily = oc.opcfamily AND ao.amoplefttype = oc.opcintype AND ao.amoprighttype = oc.opcintype AND ao.amopstrategy = 3
		JOIN pg_operator o ON o.oid = ao.amopopr JOIN pg_namespace on_ ON on_.oid = o.oprnamespace
		WHERE i.indrelid = c.oid AND i.indisunique AND k.attnum = a.attnum ORDER BY i.indisprimary DESC, i.indisreplident DESC LIMIT 1), '')
	FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
	WHERE c.relkind = 'r' AND s.nspname = %s AND c.relname = %s AND s.nspname !~ '^pg_' AND s.nspname NOT IN ('information_schema', 'steward', '` + followSchema + `')`

// relation learns of a table before its rows come.
func (a *applier) relation(ctx context.Context, c change) error {
	if len(a.tables) >= mostFollowed && a.tables[c.relation] == nil {
		return &engine.SourceError{Reason: "It was given up: the source tells of more tables than are followed."}
	}
	rows, err := query(ctx, a.target, fmt.Sprintf(shapes, quoteText(c.shape.schema), quoteText(c.shape.name)))
	if err != nil {
		return targetFailed("take the rows of "+shownText(c.shape.name), err)
	}
	if before := a.tables[c.relation]; before != nil {
		if err := a.sendInserts(ctx, before); err != nil {
			return err
		}
	}
	f := &followed{shape: *c.shape, equals: map[string]string{}}
	for _, r := range rows {
		f.columns = append(f.columns, r[0])
		if r[1] == "t" {
			f.primary = append(f.primary, r[0])
		}
		if r[2] != "" {
			f.equals[r[0]] = r[2]
		}
	}
	if err := f.check(); err != nil {
		return err
	}
	a.tables[c.relation] = f
	return nil
}
