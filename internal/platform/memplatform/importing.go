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
func (d *Driver) Examine(ctx context.Context, id cluster.ID, from platform.ImportSource, _ migration.Mode, databases []migration.Database) (r migration.Report, err error) {
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

// KeepUp implements platform.Importer: a source writes nothing, and is as far as it was until it is cut over.
func (d *Driver) KeepUp(ctx context.Context, id cluster.ID, _ platform.ImportSource, _ migration.Database, asked <-chan struct{}, report func(platform.ImportProgress)) error {
	return d.faults.around(ctx, StepFollow, id, func() error {
		report(platform.ImportProgress{Phase: migration.Following})
		report(platform.ImportProgress{Lag: &migration.Lag{}})
		select {
		case <-asked:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// Complete implements platform.Importer.
func (d *Driver) Complete(ctx context.Context, id cluster.ID, _ migration.Database, report func(platform.ImportProgress)) error {
	return d.faults.around(ctx, StepFollow, id, func() error {
		report(platform.ImportProgress{Phase: migration.Validating})
		return nil
	})
}

// Release implements platform.Importer.
func (d *Driver) Release(ctx context.Context, c cluster.Cluster, _ platform.ImportSource, _ migration.Database) error {
	return d.faults.around(ctx, StepRelease, c.ID, func() error { return nil })
}

// Leftovers implements platform.Importer.
func (*Driver) Leftovers(_ cluster.Cluster, database migration.Database) string {
	return "forget " + database.Slot + ";"
}
