package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/logical"
	"steward/internal/migration"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/spell"
	"steward/internal/store"
	"steward/internal/wait"
)

// errCanceled ends a migration whose end was asked for.
var errCanceled = errors.New("the end of the migration was asked for")

// examineTime bounds the look at a source.
const examineTime = 2 * time.Minute

// migrate brings databases over from a server elsewhere, each from its beginning: what an earlier run has left of one is removed first.
func (w *work) migrate(ctx context.Context) error {
	m, err := w.Store.MigrationForWork(ctx, w.op.Params.Migration)
	if err != nil {
		return fmt.Errorf("read migration %d: %w", w.op.Params.Migration, err)
	}
	begun, err := w.Store.BeginMigration(ctx, m.ID)
	if err != nil {
		return err
	}
	if !begun {
		return w.cancelMigration(ctx, m)
	}
	source, err := w.importSource(ctx, m)
	if err != nil {
		return err
	}
	t := w.tellMigration(ctx, m)
	err = w.bringAll(t.ctx, &m, source, t)
	if err == nil && m.Mode == migration.Replicate {
		err = w.followAll(t.ctx, &m, source, t)
	}
	m.Progress = t.end()
	if errors.Is(context.Cause(t.ctx), errCanceled) {
		return w.cancelMigration(ctx, m)
	}
	if err != nil {
		return err
	}
	return w.endMigration(ctx, m, migration.Finished, w.release(ctx, m))
}

func (w *work) importSource(ctx context.Context, m migration.Migration) (platform.ImportSource, error) {
	password, err := w.Store.SourcePassword(ctx, m.Account, m.ID)
	if err != nil {
		return platform.ImportSource{}, err
	}
	return platform.NewImportSource(m.Source, password.Reveal(), w.disk(), w.Sources)
}

// disk is how many bytes the database may have.
func (w *work) disk() int64 {
	plan, _ := w.Catalog.Plan(w.c.Type)
	return int64(plan.DiskMB) << 20
}

// bringAll brings over those databases that aren't complete yet.
func (w *work) bringAll(ctx context.Context, m *migration.Migration, source platform.ImportSource, t *migrationTeller) error {
	if !slices.ContainsFunc(m.Databases, func(d migration.Database) bool { return !d.Done && !d.Followed }) {
		return nil
	}
	if err := w.examine(ctx, m, source, t); err != nil {
		return err
	}
	for i := range m.Databases {
		if m.Databases[i].Done || m.Databases[i].Followed {
			continue
		}
		if err := w.bringOne(ctx, m, i, source, t); err != nil {
			return err
		}
	}
	return nil
}

// examine looks at the source before anything is made.
func (w *work) examine(ctx context.Context, m *migration.Migration, source platform.ImportSource, t *migrationTeller) error {
	t.change(func(p *migration.Progress) { p.Phase = migration.Checking })
	short, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	report, err := w.Driver.Examine(short, w.c.ID, source, m.Mode, m.Databases)
	if err != nil {
		return err
	}
	report.Problems = append(report.Problems, migration.Room(report.Bytes, w.disk(), used(w.c))...)
	t.change(func(p *migration.Progress) { p.TotalBytes, p.Problems = report.Bytes, report.Problems })
	if i := slices.IndexFunc(report.Problems, func(p migration.Problem) bool { return p.Blocking }); i >= 0 {
		return &impossible{reason: report.Problems[i].String()}
	}
	return nil
}

// bringOne makes one database and fills it.
func (w *work) bringOne(ctx context.Context, m *migration.Migration, i int, source platform.ImportSource, t *migrationTeller) error {
	t.begin(m.Databases[i].From)
	if err := w.makeTarget(ctx, m, i); err != nil {
		return err
	}
	_, err := step("import", func() (struct{}, error) {
		return struct{}{}, w.Driver.Import(ctx, w.c.ID, source, m.Databases[i], t.told)
	})
	if err != nil {
		return fmt.Errorf("bring a database over: %w", err)
	}
	if m.Mode == migration.Replicate {
		m.Databases[i].Followed = true
	} else {
		m.Databases[i].Done = true
	}
	return w.Store.SaveMigrationDatabases(ctx, m.ID, m.Databases)
}

// makeTarget makes an empty logical database. Its name is noted before, and that it is ours after it was made: what is there by that name in
// between is ours only while it is empty.
func (w *work) makeTarget(ctx context.Context, m *migration.Migration, i int) error {
	if err := w.dropTarget(ctx, &m.Databases[i]); err != nil {
		return err
	}
	d := &m.Databases[i]
	there, err := w.targetThere(ctx, *d)
	if err != nil {
		return err
	}
	if there {
		return &impossible{reason: fmt.Sprintf("There is a database %s already; nothing is brought over into one that is there.", d.To)}
	}
	d.Making, d.Made = true, false
	if m.Mode == migration.Replicate && d.Slot == "" {
		d.Slot = newSlot()
	}
	if err := w.Store.SaveMigrationDatabases(ctx, m.ID, m.Databases); err != nil {
		return err
	}
	_, err = step("make import's database", func() (struct{}, error) {
		return struct{}{}, w.Driver.Inside(ctx, w.c.ID, func(ctx context.Context, l platform.Logical) error {
			return l.CreateDatabase(ctx, logical.Database{Name: d.To})
		})
	})
	if faults, ok := fault.All(err); ok {
		d.Making = false
		return errors.Join(&impossible{reason: faults[0].Reason}, w.Store.SaveMigrationDatabases(ctx, m.ID, m.Databases))
	}
	if err != nil {
		return fmt.Errorf("make the database: %w", err)
	}
	d.Made = true
	return w.Store.SaveMigrationDatabases(ctx, m.ID, m.Databases)
}

func (w *work) targetThere(ctx context.Context, d migration.Database) (there bool, err error) {
	err = w.Driver.Inside(ctx, w.c.ID, func(ctx context.Context, l platform.Logical) error {
		all, err := l.Databases(ctx)
		there = slices.ContainsFunc(all, func(other logical.Database) bool { return other.Name == d.To })
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look for the database: %w", err)
	}
	return there, nil
}

// dropTarget removes what an earlier run has left of a database that isn't complete.
func (w *work) dropTarget(ctx context.Context, d *migration.Database) error {
	if d.Done || d.Open || !d.Making {
		return nil
	}
	there, err := w.targetThere(ctx, *d)
	if err == nil && !there && !d.Made {
		there, err = true, w.awaitTarget(ctx, *d)
	}
	if err != nil || !there {
		return err
	}
	if !d.Made {
		if empty, err := w.Driver.Empty(ctx, w.c.ID, d.To); err != nil || !empty {
			return err
		}
	}
	_, err = step("remove import's database", func() (struct{}, error) {
		return struct{}{}, w.Driver.Inside(ctx, w.c.ID, func(ctx context.Context, l platform.Logical) error { return l.DropDatabase(ctx, d.To) })
	})
	if err != nil && !fault.IsKind(err, fault.NotFound) {
		return fmt.Errorf("remove what was brought over: %w", err)
	}
	return nil
}

// awaitTarget returns when the database is there that an earlier run may have been making: the server goes on with that after the session has
// ended, as when steward is killed, and shows the database only once it is made. Who makes one of the same name waits for it; where nobody
// does, that is it.
func (w *work) awaitTarget(ctx context.Context, d migration.Database) error {
	_, err := step("await import's database", func() (struct{}, error) {
		return struct{}{}, w.Driver.Inside(ctx, w.c.ID, func(ctx context.Context, l platform.Logical) error {
			return l.CreateDatabase(ctx, logical.Database{Name: d.To})
		})
	})
	if err != nil && !errors.Is(err, logical.Taken("name")) {
		return fmt.Errorf("await the database that was being made: %w", err)
	}
	return nil
}

// dropTargets removes all that isn't complete.
func (w *work) dropTargets(ctx context.Context, m migration.Migration) error {
	for i := range m.Databases {
		if err := w.dropTarget(ctx, &m.Databases[i]); err != nil {
			return err
		}
	}
	return nil
}

// cancelMigration ends one whose end was asked for.
func (w *work) cancelMigration(ctx context.Context, m migration.Migration) error {
	if err := w.dropTargets(ctx, m); err != nil {
		return err
	}
	return w.endMigration(ctx, m, migration.Canceled, join("It was canceled.", keptOpen(m), w.release(ctx, m)))
}

// giveMigrationUp ends one that can't be carried out. A database that can't be removed now is told of.
func (w *work) giveMigrationUp(ctx context.Context, reason string) error {
	m, err := w.Store.MigrationForWork(ctx, w.op.Params.Migration)
	if err != nil {
		return fmt.Errorf("read migration %d: %w", w.op.Params.Migration, err)
	}
	if c, err := w.Store.ClusterForWork(ctx, w.c.ID); err == nil && c.Deleted != nil {
		return w.gone(ctx)
	}
	short, cancel := context.WithTimeout(ctx, w.Limits.Pass)
	defer cancel()
	if err := w.dropTargets(short, m); err != nil {
		w.log.WarnContext(ctx, "remove what was brought over", "error", err)
		reason += " What was brought over so far couldn't be removed; delete the logical database."
	}
	return w.endMigration(ctx, m, migration.Failed, join(reason, keptOpen(m), w.release(ctx, m)))
}

func (w *work) endMigration(ctx context.Context, m migration.Migration, status migration.Status, problem string) error {
	m.Status, m.Problem = status, problem
	event := operation.Finished
	if status != migration.Finished {
		event = operation.FailedStatus
	}
	return w.end(ctx, func(tx *store.Tx) error {
		if err := tx.FinishMigration(ctx, m); err != nil {
			return err
		}
		return tx.FinishOperation(ctx, w.op.ID, event, problem)
	})
}

// migrationTeller keeps how far a migration is, and writes it down now and then. It ends ctx when the migration's end was asked for.
type migrationTeller struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	ended  sync.WaitGroup

	mu       sync.Mutex
	progress migration.Progress
	at       map[string]int
	all      map[string]migration.Table
}

// tellMigration begins to write down how far a migration is, until end.
func (w *work) tellMigration(ctx context.Context, m migration.Migration) *migrationTeller {
	id := m.ID
	t := &migrationTeller{all: map[string]migration.Table{}, at: map[string]int{}}
	if w.op.Params.Follows { // what was copied stays told
		t.progress = m.Progress
		t.progress.Lag, t.progress.Waiting = nil, ""
	}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.ended.Go(func() {
		wait.Every(t.ctx, w.Limits.Report, func() {
			if err := w.noteMigration(t, id); err != nil && t.ctx.Err() == nil {
				w.log.WarnContext(t.ctx, "report progress", "error", err)
			}
		})
	})
	return t
}

func (w *work) noteMigration(t *migrationTeller, id migration.ID) error {
	p := t.now()
	status, err := w.Store.ProgressMigration(t.ctx, id, p)
	if err != nil {
		return err
	}
	if status == migration.Canceling {
		t.cancel(errCanceled)
		return nil
	}
	if p.Lag != nil {
		message := fmt.Sprintf("It follows its source, %s behind.", spell.Duration(time.Duration(p.Lag.Seconds)*time.Second))
		return w.Store.ProgressOperation(t.ctx, w.op.ID, followingPercent, message, followsAlive)
	}
	message := fmt.Sprintf("%d MB of about %d MB are brought over.", p.Bytes>>20, p.TotalBytes>>20)
	return w.Store.ProgressOperation(t.ctx, w.op.ID, percent(p.Bytes, p.TotalBytes), message, aliveFor)
}

// end ends it and returns the last that is known.
func (t *migrationTeller) end() migration.Progress {
	t.cancel(nil)
	t.ended.Wait()
	return t.now()
}

func (t *migrationTeller) now() migration.Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.progress
	p.Tables = slices.Clone(p.Tables)
	return p
}

func (t *migrationTeller) change(f func(p *migration.Progress)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.progress)
}

func (t *migrationTeller) begin(database string) {
	t.change(func(p *migration.Progress) { p.Database = database })
}

// told takes what an import says of itself.
func (t *migrationTeller) told(told platform.ImportProgress) {
	t.change(func(p *migration.Progress) {
		if told.Phase != "" {
			p.Phase = told.Phase
		}
		if told.Table != nil {
			told.Table.Database = p.Database
			t.table(p, *told.Table)
		}
	})
}

// table notes how far one is.
func (t *migrationTeller) table(p *migration.Progress, now migration.Table) {
	key := now.Database + "\x00" + now.Name
	before, known := t.all[key]
	t.all[key] = now
	p.Bytes += now.Bytes - before.Bytes
	if !known {
		p.TablesAll++
	}
	if now.Done && !before.Done {
		p.TablesDone++
	}
	if i, shown := t.at[key]; shown {
		p.Tables[i] = now
	} else if len(p.Tables) < migration.MostTables {
		t.at[key] = len(p.Tables)
		p.Tables = append(p.Tables, now)
	}
}
