package main

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Server is a database server to fill and to write to.
type Server interface {
	// engine is "postgresql" or "mysql".
	engine() string
	open() (*sql.DB, error)
	// quiet brings what is in memory to the disk, so that a backup finds the same
	// each time.
	quiet(ctx context.Context) error
	size(ctx context.Context) (int64, error)
}

const (
	tables = 4
	// doublings of what was generated: copies are further apart than any
	// compressor looks back.
	doublings = 3
	rowBytes  = 470 // with its share of indexes and of the page
	perInsert = 400
)

// fill makes tables as sysbench has them, with some incompressible bytes and
// some blanks in each row.
func fill(ctx context.Context, s Server, gigabytes float64) error {
	db, err := s.open()
	if err != nil {
		return err
	}
	defer db.Close()
	rows := int(gigabytes*1e9/rowBytes) / tables >> doublings
	var wg sync.WaitGroup
	errs := make([]error, tables)
	for _, pair := range [][]int{{0, 1}, {2, 3}} {
		wg.Go(func() {
			for _, n := range pair {
				errs[n] = fillTable(ctx, db, s.engine(), n, max(rows, hot))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return s.quiet(ctx)
}

func tableName(n int) string { return fmt.Sprintf("bench%d", n) }

func fillTable(ctx context.Context, db *sql.DB, engine string, n, rows int) error {
	binary, prefix := "varbinary(64)", "X'"
	if engine == "postgresql" {
		binary, prefix = "bytea", `'\x`
	}
	name := tableName(n)
	create := fmt.Sprintf("CREATE TABLE %s (id int PRIMARY KEY, k int, c char(120), pad char(60), r %s, filler char(84))", name, binary)
	if _, err := db.ExecContext(ctx, create); err != nil {
		return fmt.Errorf("make a table: %w", err)
	}
	random := rand.New(rand.NewPCG(uint64(n), 1))
	for first := 0; first < rows; first += perInsert {
		if _, err := db.ExecContext(ctx, insert(random, name, prefix, first, min(perInsert, rows-first))); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
	}
	for range doublings {
		double := fmt.Sprintf("INSERT INTO %[1]s SELECT id + %[2]d, k, c, pad, r, filler FROM %[1]s", name, rows)
		if _, err := db.ExecContext(ctx, double); err != nil {
			return fmt.Errorf("double: %w", err)
		}
		rows *= 2
	}
	if _, err := db.ExecContext(ctx, fmt.Sprintf("CREATE INDEX %[1]s_k ON %[1]s (k)", name)); err != nil {
		return fmt.Errorf("make an index: %w", err)
	}
	tidy := "ANALYZE TABLE " + name
	if engine == "postgresql" { // autovacuum would write all of it again in the middle of a backup
		tidy = "VACUUM (FREEZE, ANALYZE) " + name
	}
	if _, err := db.ExecContext(ctx, tidy); err != nil {
		return fmt.Errorf("tidy up: %w", err)
	}
	return nil
}

func insert(random *rand.Rand, name, prefix string, first, rows int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "INSERT INTO %s VALUES ", name)
	noise := make([]byte, 64)
	for i := range rows {
		if i > 0 {
			text.WriteByte(',')
		}
		for j := range noise {
			noise[j] = byte(random.Uint32())
		}
		fmt.Fprintf(&text, "(%d,%d,'%s','%s',%s%s','')", first+i, random.IntN(1_000_000), groups(random, 10), groups(random, 5), prefix, hex.EncodeToString(noise))
	}
	return text.String()
}

// groups of eleven digits, as sysbench writes them.
func groups(random *rand.Rand, n int) string {
	var text strings.Builder
	for i := range n {
		if i > 0 {
			text.WriteByte('-')
		}
		fmt.Fprintf(&text, "%011d", random.Int64N(100_000_000_000))
	}
	return text.String()
}

// hot is how many rows of each table writers write to: few, so that what a
// checkpoint makes every first write of a page cost is soon paid. A backup begins
// with one, as the time before it doesn't.
const hot = 5000

// writers update single rows, each on a connection of its own, as fast as they
// are answered.
type writers struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	done   atomic.Int64
	failed atomic.Pointer[error]
	db     *sql.DB
}

func startWriters(ctx context.Context, s Server, n int) (*writers, error) {
	db, err := s.open()
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(n)
	mark := "?"
	if s.engine() == "postgresql" {
		mark = "$1"
	}
	w := &writers{db: db}
	ctx, w.cancel = context.WithCancel(ctx)
	for i := range n {
		statement := fmt.Sprintf("UPDATE %s SET k = k + 1 WHERE id = %s", tableName(i%tables), mark)
		w.wg.Go(func() {
			if err := w.run(ctx, statement); err != nil && ctx.Err() == nil {
				w.failed.Store(&err)
			}
		})
	}
	return w, nil
}

func (w *writers) run(ctx context.Context, statement string) error {
	prepared, err := w.db.PrepareContext(ctx, statement)
	if err != nil {
		return err
	}
	defer prepared.Close()
	for ctx.Err() == nil {
		if _, err := prepared.ExecContext(ctx, rand.IntN(hot)); err != nil {
			return err
		}
		w.done.Add(1)
	}
	return nil
}

// during is how many writes a second there are while do runs.
func (w *writers) during(do func()) float64 {
	before, begun := w.done.Load(), time.Now()
	do()
	return float64(w.done.Load()-before) / time.Since(begun).Seconds()
}

// stop may be called again; it tells why a writer ended before.
func (w *writers) stop() error {
	w.cancel()
	w.wg.Wait()
	if err := w.failed.Load(); err != nil {
		return fmt.Errorf("a writer: %w", *err)
	}
	return w.db.Close()
}
