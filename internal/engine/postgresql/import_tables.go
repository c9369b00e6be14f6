package postgresql

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
	"steward/internal/migration"
)

// sourceTable is a table that has rows of its own.
type sourceTable struct {
	schema, name string
	// columns are those that aren't computed, as SQL.
	columns string
	bytes   int64
}

func (t sourceTable) sql() string { return quoteName(t.schema) + "." + quoteName(t.name) }

// sourceTables are a source's tables with rows of their own, largest first. Tables of extensions are theirs to fill.
const sourceTables = `SELECT s.nspname, c.relname, pg_table_size(c.oid),
	(SELECT json_agg(a.attname ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND %s)
	FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
	WHERE c.relkind = 'r' AND c.relpersistence IN ('p', 'u') AND s.nspname !~ '^pg_' AND s.nspname <> 'information_schema'
	AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
	ORDER BY 3 DESC, 1, 2`

// firstGenerated is the version since which a source's columns can be computed.
const firstGenerated = 12

func (i *importing) tables(ctx context.Context) ([]sourceTable, error) {
	stored := "a.attgenerated = ''"
	if major, _ := strconv.Atoi(strings.SplitN(i.source.ParameterStatus("server_version"), ".", 2)[0]); major < firstGenerated {
		stored = "true"
	}
	rows, err := askSource(ctx, i.s, i.source, fmt.Sprintf(sourceTables, stored))
	if err != nil {
		return nil, err
	}
	var all []sourceTable
	for _, r := range rows {
		const columns = 4
		if len(r) != columns {
			return nil, errNotPostgreSQL
		}
		size, err := strconv.ParseInt(r[2], 10, 64)
		if err != nil {
			return nil, errNotPostgreSQL
		}
		var names []string
		if r[3] != "" {
			if err := json.Unmarshal([]byte(r[3]), &names); err != nil {
				return nil, errNotPostgreSQL
			}
		}
		for n := range names {
			names[n] = quoteName(names[n])
		}
		all = append(all, sourceTable{schema: r[0], name: r[1], bytes: max(size, 0), columns: strings.Join(names, ", ")})
	}
	return all, nil
}

// copiers is how many tables are copied at once: the largest mustn't be all that is copied at the end.
const copiers = 4

// copyTables copies the rows of all tables, several at once, all as of the snapshot.
func (i *importing) copyTables(ctx context.Context) error {
	all, err := i.tables(ctx)
	if err != nil {
		return err
	}
	told := &tables{report: i.report}
	for _, t := range all {
		told.set(t, 0, false)
	}
	next := make(chan sourceTable)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var work sync.WaitGroup
	for range min(copiers, len(all)) {
		work.Go(func() {
			if err := i.copier(ctx, next, told); err != nil {
				cancel(err)
			}
		})
	}
feed:
	for _, t := range all {
		select {
		case next <- t:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	work.Wait()
	return context.Cause(ctx)
}

// tables tells how far tables are, one at a time.
type tables struct {
	mu     sync.Mutex
	report func(engine.ImportProgress)
}

func (t *tables) set(of sourceTable, bytes int64, done bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report(engine.ImportProgress{Table: &migration.Table{Name: shownText(of.schema + "." + of.name), Bytes: bytes, TotalBytes: of.bytes, Done: done}})
}

// copier copies tables with connections of its own.
func (i *importing) copier(ctx context.Context, next <-chan sourceTable, told *tables) error {
	from, err := atSource(ctx, i.s, i.d.From)
	if err != nil {
		return err
	}
	defer closeSoon(ctx, from)
	if _, err := askSource(ctx, i.s, from, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '"+i.snapshot+"'"); err != nil {
		return err
	}
	to, err := atTarget(ctx, i.n, i.d.To)
	if err != nil {
		return targetFailed("let steward in", err)
	}
	defer closeSoon(ctx, to)
	for t := range next {
		if err := copyTable(ctx, i.s, from, to, t, told); err != nil {
			return err
		}
	}
	return nil
}

// copyBuffer is how much of a table is passed on at once.
const copyBuffer = 256 << 10

// tellEvery is after how many bytes it is told how far a table is.
const tellEvery = 4 << 20

// copyTable passes a table's rows on as they come; nothing of them is kept in between.
func copyTable(ctx context.Context, s engine.Source, from, to *pgconn.PgConn, t sourceTable, told *tables) error {
	if t.columns == "" {
		told.set(t, 0, true)
		return nil
	}
	r, w := io.Pipe()
	var bytes atomic.Int64
	read := make(chan error, 1)
	go func() {
		// The source sends each row by itself: without the buffer each would be a message, and a switch of goroutines, here, too.
		buffer := bufio.NewWriterSize(&counting{w, &bytes, func(n int64) { told.set(t, n, false) }}, copyBuffer)
		_, err := from.CopyTo(ctx, buffer, "COPY "+t.sql()+" ("+t.columns+") TO STDOUT")
		if err == nil {
			err = buffer.Flush()
		}
		if err != nil {
			err = sourceFailed(s, err)
		}
		_ = w.CloseWithError(err) // never fails
		read <- err
	}()
	_, err := to.CopyFrom(ctx, r, "COPY "+t.sql()+" ("+t.columns+") FROM STDIN")
	_ = r.CloseWithError(errors.New("the target takes no more"))
	failed := <-read
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code != "57014": // what the target says, unless it is that we gave up because of the source
		return targetFailed("take the rows of "+shownText(t.name), err)
	case failed != nil:
		return failed
	case err != nil:
		return targetFailed("take the rows of "+shownText(t.name), err)
	}
	told.set(t, bytes.Load(), true)
	return nil
}

// counting counts what is written, and tells of it now and then.
type counting struct {
	io.Writer
	bytes *atomic.Int64
	tell  func(n int64)
}

// Write implements io.Writer.
func (c *counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	if now := c.bytes.Add(int64(n)); now/tellEvery != (now-int64(n))/tellEvery {
		c.tell(now)
	}
	return n, err
}

// sourceSequences are a source's sequences.
const sourceSequences = `SELECT s.nspname, c.relname FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
	WHERE c.relkind = 'S' AND c.relpersistence IN ('p', 'u') AND s.nspname !~ '^pg_' AND s.nspname <> 'information_schema'
	AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')`

// setSequences has sequences go on where the source's are.
func (i *importing) setSequences(ctx context.Context) error {
	found, err := askSource(ctx, i.s, i.source, sourceSequences)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(found, 200) {
		var ask, set strings.Builder
		for n, r := range batch {
			if len(r) != 2 {
				return errNotPostgreSQL
			}
			if n > 0 {
				ask.WriteString(" UNION ALL ")
			}
			fmt.Fprintf(&ask, "SELECT %d, last_value, is_called FROM %s.%s", n, quoteName(r[0]), quoteName(r[1]))
		}
		rows, err := askSource(ctx, i.s, i.source, ask.String())
		if err != nil {
			return err
		}
		for _, r := range rows {
			n, value, err := sequenceValue(r)
			if err != nil || n < 0 || n >= len(batch) {
				return errNotPostgreSQL
			}
			fmt.Fprintf(&set, "SELECT setval(%s, %d, %t);", quoteText(quoteName(batch[n][0])+"."+quoteName(batch[n][1])), value, r[2] == "t")
		}
		if _, err := query(ctx, i.target, set.String()); err != nil {
			return targetFailed("set its sequences", err)
		}
	}
	return nil
}

func sequenceValue(row []string) (n int, value int64, err error) {
	const columns = 3
	if len(row) != columns {
		return 0, 0, errors.New("another number of columns")
	}
	if n, err = strconv.Atoi(row[0]); err != nil {
		return 0, 0, err
	}
	value, err = strconv.ParseInt(row[1], 10, 64)
	return n, value, err
}

// fillViews fills materialized views, those first that need no other.
func (i *importing) fillViews(ctx context.Context) error {
	for {
		empty, err := query(ctx, i.target, `SELECT quote_ident(s.nspname) || '.' || quote_ident(c.relname) FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
			WHERE c.relkind = 'm' AND NOT c.relispopulated ORDER BY c.oid`)
		if err != nil {
			return targetFailed("fill its materialized views", err)
		}
		filled := 0
		var last error
		for _, view := range empty {
			if _, last = query(ctx, i.target, "REFRESH MATERIALIZED VIEW "+view[0]); last == nil {
				filled++
			} else if codeOf(last) != "55000" { // it needs another one, which is empty still
				return targetFailed("fill its materialized views", last)
			}
		}
		switch {
		case filled == len(empty):
			return nil
		case filled == 0:
			return targetFailed("fill its materialized views", last)
		}
	}
}
