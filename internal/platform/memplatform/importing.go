package memplatform

import (
	"context"
	"errors"
	"fmt"
	"io"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/migration"
	"steward/internal/platform"
)

// Examine implements platform.Importer: a source is whatever takes a connection, and reports what it says of itself.
func (d *Driver) Examine(ctx context.Context, id cluster.ID, from platform.ImportSource, databases []migration.Database) (r migration.Report, err error) {
	err = d.faults.around(ctx, StepImport, id, func() error {
		r, err = examine(ctx, from, databases)
		return err
	})
	return r, err
}

// examine reads the version that a source says it is, up to the end of a line; "old" is one that can't be brought over.
func examine(ctx context.Context, from platform.ImportSource, databases []migration.Database) (r migration.Report, err error) {
	conn, err := from.Dial(ctx)
	if theirs, ok := errors.AsType[*engine.SourceError](err); ok {
		return r, &platform.CustomerError{Reason: theirs.Reason}
	}
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return r, err
		}
	}
	if _, err := fmt.Fscanln(io.LimitReader(conn, 64), &r.Version); err != nil {
		return r, &platform.CustomerError{Reason: "The source doesn't say what it is."}
	}
	if r.Version == "old" {
		r.Problems = append(r.Problems, migration.Problem{Blocking: true, Message: "The source is too old"})
	}
	r.Bytes = int64(len(databases)) << 20
	return r, nil
}

// Import implements platform.Importer: a table of a megabyte is there at once.
func (d *Driver) Import(ctx context.Context, id cluster.ID, from platform.ImportSource, database migration.Database, report func(platform.ImportProgress)) error {
	return d.faults.around(ctx, StepImport, id, func() error {
		if _, err := examine(ctx, from, []migration.Database{database}); err != nil {
			return err
		}
		report(platform.ImportProgress{Phase: migration.Copying})
		report(platform.ImportProgress{Table: &migration.Table{Name: "public.orders", Bytes: 1 << 20, TotalBytes: 1 << 20, Done: true}})
		return nil
	})
}

// Empty implements platform.Importer: nothing is kept of what was brought over.
func (d *Driver) Empty(context.Context, cluster.ID, string) (bool, error) { return true, nil }
