package control

import (
	"context"
	"errors"
	"slices"
	"time"

	"steward/internal/account"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/logical"
	"steward/internal/migration"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/seal"
	"steward/internal/store"
)

// Migrations are the use cases of bringing databases over from servers elsewhere.
type Migrations struct{ clusterChanges }

// checkTime bounds a look at a source that somebody waits for.
const checkTime = 25 * time.Second

// List is a page of a database's migrations, newest first.
func (s *Migrations) List(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, q store.ListQuery) ([]migration.Migration, int, error) {
	if _, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id); err != nil {
		return nil, 0, err
	}
	return s.Store.Migrations(ctx, id, q)
}

// View is one of them.
func (s *Migrations) View(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, m migration.ID) (migration.Migration, error) {
	if _, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id); err != nil {
		return migration.Migration{}, err
	}
	return s.Store.Migration(ctx, id, m)
}

// asked is a request that could be carried out, as far as is known without asking a server.
func (s *Migrations) asked(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, m migration.Migration, password seal.Secret, faults fault.Faults) (c cluster.Cluster, source platform.ImportSource, err error) {
	c, err = s.Store.Cluster(ctx, store.ViewerOf(p), engine, id)
	if err != nil {
		return c, source, err
	}
	if err := s.mayWrite(ctx, p, id); err != nil {
		return c, source, err
	}
	found := migration.Validate(engine, m, password.Reveal())
	if !found.Name("source.host") && !found.Name("source.port") {
		if why := s.Sources.Barrier(m.Source.Host, m.Source.Port); why != "" {
			found.Add("source.host", "%s", why)
		}
	}
	source, err = platform.NewImportSource(m.Source, password.Reveal(), s.disk(c), s.Sources)
	found = append(found, faultsIn(err)...)
	able := s.region(c, func(can catalog.Abilities) bool { return can.Imports }, "filled from other servers")
	if c.AutoSuspend > 0 {
		able = append(able, fault.NewPrecondition("A database that falls asleep can't be filled from other servers; set auto_suspend.idle_minutes to 0 first."))
	}
	able = append(able, faultsIn(cluster.Require(c.Status, cluster.RequestShape))...)
	if faults = combine(faults, append(found, able...)); len(faults) > 0 {
		return c, source, faults
	}
	return c, source, nil
}

func (s *Migrations) disk(c cluster.Cluster) int64 {
	plan, _ := s.Catalog.Plan(c.Type)
	return int64(plan.DiskMB) << 20
}

// Check says whether a source's databases could be brought over now. It keeps nothing.
func (s *Migrations) Check(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, m migration.Migration, password seal.Secret, faults fault.Faults) (r migration.Report, err error) {
	c, source, err := s.asked(ctx, p, engine, id, m, password, faults)
	if err != nil {
		return r, err
	}
	short, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	if r, err = s.Platform.Examine(short, id, source, m.Mode, m.Databases); err != nil {
		return r, s.checkFailed(ctx, short, err, id)
	}
	var used int64
	if c.UsedBytes != nil {
		used = *c.UsedBytes
	}
	r.Problems = append(r.Problems, migration.Room(r.Bytes, s.disk(c), used)...)
	taken, err := s.taken(short, id, m.Databases)
	r.Problems = append(r.Problems, taken...)
	return r, err
}

// checkFailed is what a caller is told of a source that couldn't be looked at.
func (s *Migrations) checkFailed(ctx, short context.Context, err error, id cluster.ID) error {
	if theirs, ok := errors.AsType[*platform.CustomerError](err); ok {
		return fault.NewInvalid("source", "%s", theirs.Reason)
	}
	if _, isFault := fault.All(err); isFault {
		return err
	}
	if short.Err() != nil && ctx.Err() == nil {
		return fault.NewInvalid("source", "The source doesn't answer.")
	}
	return s.lookFailed(ctx, err, "look at a source", id)
}

// taken are the targets that are there already.
func (s *Migrations) taken(ctx context.Context, id cluster.ID, all []migration.Database) (problems []migration.Problem, err error) {
	err = s.Platform.Inside(ctx, id, func(ctx context.Context, l platform.Logical) error {
		there, err := l.Databases(ctx)
		for _, d := range all {
			if slices.ContainsFunc(there, func(other logical.Database) bool { return other.Name == d.To }) {
				problems = append(problems, migration.Problem{Database: d.From, Blocking: true, Message: "There is a database " + d.To + " here already, and none that is there is written over"})
			}
		}
		return err
	})
	if _, isFault := fault.All(err); err == nil || isFault {
		return problems, err
	}
	return problems, s.lookFailed(ctx, err, "look for logical databases", id)
}

// Create begins to bring databases over.
func (s *Migrations) Create(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, m migration.Migration, password seal.Secret, faults fault.Faults) (migration.Migration, error) {
	c, _, err := s.asked(ctx, p, engine, id, m, password, faults)
	if err != nil {
		return m, err
	}
	key, err := s.Store.DataKey(ctx, c.Account)
	if err != nil {
		return m, err
	}
	m.Account, m.Cluster = c.Account, c.ID
	err = s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if m, err = tx.CreateMigration(ctx, m, key, password); err != nil {
			return err
		}
		return s.begin(ctx, tx, p, c, operation.Migration, operation.Params{Migration: m.ID})
	})
	return m, err
}

// CutOver asks for the end of following a source: what it has by now comes over, and the databases here take its place.
func (s *Migrations) CutOver(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, which migration.ID) (m migration.Migration, err error) {
	if _, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id); err != nil {
		return m, err
	}
	if err := s.mayWrite(ctx, p, id); err != nil {
		return m, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		err := tx.CutOverMigration(ctx, id, which)
		if !fault.IsKind(err, fault.NotFound) {
			return err
		}
		if m, err = tx.Migration(ctx, id, which); err != nil {
			return err
		}
		if m.Mode != migration.Replicate {
			return fault.NewPrecondition("A migration of mode dump has no cutover.")
		}
		return fault.NewPrecondition("The migration doesn't follow its source; only one in the phase following can be cut over.")
	})
	if err != nil {
		return m, err
	}
	return s.Store.Migration(ctx, id, which)
}

// Delete ends a migration that goes on, which takes away what isn't complete; it forgets one that has ended.
func (s *Migrations) Delete(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, which migration.ID) error {
	if _, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id); err != nil {
		return err
	}
	if err := s.mayWrite(ctx, p, id); err != nil {
		return err
	}
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		m, err := tx.Migration(ctx, id, which)
		if err != nil {
			return err
		}
		if !m.Status.Ended() && m.Progress.Phase == migration.Validating {
			return fault.NewPrecondition("The migration was cut over, and what is left of it goes on.")
		}
		err = tx.CancelMigration(ctx, id, which)
		if fault.IsKind(err, fault.NotFound) { // it has ended, or never was
			return tx.DeleteMigration(ctx, id, which)
		}
		return err
	})
}
