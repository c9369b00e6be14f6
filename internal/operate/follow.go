package operate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/engine"
	"steward/internal/migration"
	"steward/internal/platform"
	"steward/internal/spell"
	"steward/internal/wait"
)

// errFollows ends a pass over a migration that goes on following its source.
var errFollows = errors.New("it follows its source")

const (
	// followsAtOnce is how many migrations follow their sources at the same time.
	followsAtOnce = 16
	// followPass is how long one pass of it takes, goOnFollowing the pause after it.
	followPass    = 6 * time.Hour
	goOnFollowing = 10 * time.Millisecond
	// followsAlive is how long after its last report another steward looks after one: who waits for a cutover shouldn't wait for that.
	followsAlive = 10 * time.Second
	// longestFollowed is for how long a source is followed.
	longestFollowed = 14 * 24 * time.Hour
	// quietFor is how long a source that is followed may send nothing until that is told: it is asked how far it is each second or two.
	quietFor = 10 * time.Second
	// askedEvery is how often it is looked whether the cutover was asked for.
	askedEvery = 100 * time.Millisecond
	// followingPercent is how far an operation is that waits for the cutover.
	followingPercent = 90
	// releaseTime is for how long a source is tried that is to forget us.
	releaseTime = 30 * time.Second
)

// newSlot names what a source keeps for one database of one migration; another steward's doesn't have that name.
func newSlot() string {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	return "steward_" + hex.EncodeToString(random)
}

// join makes one text of those that aren't empty.
func join(texts ...string) string {
	var all []string
	for _, text := range texts {
		if text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, " ")
}

// keptOpen tells which databases stay, because they were cut over, though others weren't.
func keptOpen(m migration.Migration) string {
	var names []string
	for _, d := range m.Databases {
		if d.Open && !d.Done {
			names = append(names, d.To)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "Cut over already, and kept: " + strings.Join(names, ", ") + "."
}

// followAll keeps up with all databases until they are cut over, and completes them.
func (w *work) followAll(ctx context.Context, m *migration.Migration, source platform.ImportSource, t *migrationTeller) error {
	if !w.op.Params.Follows { // what copies has few places, and this may last for days
		w.op.Params.Follows = true
		if err := w.Store.SaveParams(ctx, w.op.ID, w.op.Params); err != nil {
			return err
		}
		if err := w.noteMigration(t, m.ID); err != nil { // who goes on tells what was copied
			return err
		}
		return errFollows
	}
	if slices.ContainsFunc(m.Databases, func(d migration.Database) bool { return !d.Open }) && w.op.Started != nil && w.Now().Sub(*w.op.Started) > longestFollowed {
		return &impossible{reason: fmt.Sprintf("It wasn't cut over within %s.", spell.Duration(longestFollowed))}
	}
	if err := w.keepUpAll(ctx, m, source, t); err != nil {
		return err
	}
	t.change(func(p *migration.Progress) { p.Phase, p.Lag, p.Waiting = migration.Validating, nil, "" })
	if err := w.noteMigration(t, m.ID); err != nil { // somebody waits to write here
		return err
	}
	for i := range m.Databases {
		if m.Databases[i].Done {
			continue
		}
		if err := w.complete(ctx, m, i, t); err != nil {
			return err
		}
	}
	return nil
}

// keepUpAll keeps up with all databases at once.
func (w *work) keepUpAll(ctx context.Context, m *migration.Migration, source platform.ImportSource, t *migrationTeller) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pass := time.AfterFunc(followPass, func() { cancel(errFollows) })
	defer pass.Stop()
	asked := make(chan struct{})
	f := w.follower(m, source, t, asked)
	var all sync.WaitGroup
	all.Go(func() { w.awaitCutover(ctx, m.ID, asked, cancel) })
	all.Go(func() { f.tellQuiet(ctx) })
	var following sync.WaitGroup
	for i := range m.Databases {
		if !m.Databases[i].Open && !m.Databases[i].Done {
			following.Go(func() {
				if err := f.keepUp(ctx, i); err != nil {
					cancel(err)
				}
			})
		}
	}
	following.Wait()
	failed := context.Cause(ctx)
	cancel(nil)
	all.Wait()
	return failed
}

// awaitCutover closes asked when the cutover of a migration is asked for.
func (w *work) awaitCutover(ctx context.Context, id migration.ID, asked chan struct{}, cancel context.CancelCauseFunc) {
	for {
		status, cutover, err := w.Store.MigrationAsked(ctx, id)
		switch {
		case err == nil && status == migration.Canceling:
			cancel(errCanceled)
			return
		case err == nil && cutover:
			close(asked)
			return
		}
		if wait.Sleep(ctx, askedEvery) != nil {
			return
		}
	}
}

// follower keeps up with the databases of one migration.
type follower struct {
	*work
	m      *migration.Migration
	source platform.ImportSource
	t      *migrationTeller
	asked  <-chan struct{}

	mu  sync.Mutex
	all []followed
}

// followed is how far one of its databases is.
type followed struct {
	lag migration.Lag
	// known reports whether lag is.
	known bool
	// began is when it was begun with last, since when its source was heard of last; failing is since when that hasn't gone well, zero for never, and why its last failure.
	began, since, failing time.Time
	why                   string
	open                  bool
}

// trouble is since when it can't be followed, if it can't: a source that was heard of for a while was well until then.
func (d *followed) trouble() time.Time {
	const well = time.Minute
	if d.failing.IsZero() || d.since.Sub(d.began) > well {
		return d.since
	}
	return d.failing
}

func (w *work) follower(m *migration.Migration, source platform.ImportSource, t *migrationTeller, asked <-chan struct{}) *follower {
	f := &follower{work: w, m: m, source: source, t: t, asked: asked, all: make([]followed, len(m.Databases))}
	for i, d := range m.Databases {
		f.all[i] = followed{began: w.Now(), since: w.Now(), open: d.Open || d.Done}
	}
	return f
}

// keepUp keeps up with one database until it is cut over, also when source or target are away for a while.
func (f *follower) keepUp(ctx context.Context, i int) error {
	source := f.source
	source.Heard = func() { f.heard(i) }
	for pause := time.Second; ; {
		f.begins(i)
		_, err := step("follow", func() (struct{}, error) {
			return struct{}{}, f.Driver.KeepUp(ctx, f.c.ID, source, f.m.Databases[i], f.asked, func(p platform.ImportProgress) { f.told(i, p) })
		})
		if err == nil {
			return f.opened(ctx, i)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if theirs, ok := errors.AsType[*platform.CustomerError](err); ok && !theirs.Passing {
			return err
		}
		failing, first := f.failed(i, err)
		if first {
			pause = time.Second
		}
		if f.Now().Sub(failing) > f.Limits.Following {
			return f.givenUp(err)
		}
		if c, err := f.Store.ClusterForWork(ctx, f.c.ID); err == nil && c.Deleted != nil {
			return &impossible{reason: "The database was deleted."}
		}
		f.log.WarnContext(ctx, "following a source will be tried again", "in", pause, "error", err)
		if err := wait.Sleep(ctx, pause); err != nil {
			return context.Cause(ctx)
		}
		const longest = 15 * time.Second
		pause = min(2*pause, longest)
	}
}

// begins notes that it is begun with anew.
func (f *follower) begins(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[i].began = f.Now()
}

// failed notes a failure, and returns since when there was nothing else; first reports whether it was well before.
func (f *follower) failed(i int, err error) (failing time.Time, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := &f.all[i]
	failing = d.trouble()
	first = !failing.Equal(d.failing)
	d.failing, d.why = failing, "Its source or the database here can't be reached."
	if theirs, ok := errors.AsType[*platform.CustomerError](err); ok {
		d.why = theirs.Reason
		if strings.Contains(d.why, engine.ErrSilent.Error()) { // for how long is told
			d.why = ""
		}
	}
	return failing, first
}

// givenUp is the end of following a source that couldn't be followed for too long.
func (f *follower) givenUp(err error) error {
	reason := fmt.Sprintf("Its source couldn't be followed for %s.", spell.Duration(f.Limits.Following))
	if theirs, ok := errors.AsType[*platform.CustomerError](err); ok {
		reason += " " + theirs.Reason
	}
	return &impossible{reason: reason, cause: err}
}

// told takes what a database says of itself.
func (f *follower) told(i int, p platform.ImportProgress) {
	if p.Lag == nil {
		f.t.told(p)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[i].lag, f.all[i].known, f.all[i].why = *p.Lag, true, ""
	f.tell()
}

// heard notes that something has come from the source.
func (f *follower) heard(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[i].since = f.Now()
}

// tellQuiet tells, now and then, what a source that sends nothing can't.
func (f *follower) tellQuiet(ctx context.Context) {
	for wait.Sleep(ctx, time.Second) == nil {
		f.mu.Lock()
		f.tell()
		f.mu.Unlock()
	}
}

// tell tells how far behind its source the migration is: as far as the last of its databases, and no less than for how long nothing is known of it.
func (f *follower) tell() {
	var worst migration.Lag
	var known bool
	var waiting string
	for _, d := range f.all {
		if d.open {
			continue
		}
		quiet := f.Now().Sub(d.since)
		if quiet < quietFor {
			quiet = 0
		}
		known = known || d.known || quiet > 0
		worst = migration.Lag{Bytes: max(worst.Bytes, d.lag.Bytes), Seconds: max(worst.Seconds, d.lag.Seconds, int64(quiet.Seconds()))}
		if waiting == "" && (quiet > 0 || d.why != "") {
			waiting = f.waiting(d, quiet)
		}
	}
	if known {
		f.t.change(func(p *migration.Progress) { p.Lag = &worst })
	}
	f.t.change(func(p *migration.Progress) { p.Waiting = waiting })
}

// waiting is what people are told of a database that can't be followed now.
func (f *follower) waiting(d followed, quiet time.Duration) string {
	said := d.why
	if said == "" {
		said = fmt.Sprintf("The source has sent nothing for %s.", spell.Duration(quiet))
	}
	return fmt.Sprintf("%s It goes on by itself once it can, and is given up where it can't until %s; cancel it to end it before.", said, d.trouble().Add(f.Limits.Following).UTC().Format(time.RFC3339))
}

// opened notes that a database was cut over.
func (f *follower) opened(ctx context.Context, i int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[i] = followed{open: true}
	f.m.Databases[i].Open = true
	return f.Store.SaveMigrationDatabases(ctx, f.m.ID, f.m.Databases)
}

// complete does what was left for after the cutover.
func (w *work) complete(ctx context.Context, m *migration.Migration, i int, t *migrationTeller) error {
	_, err := step("complete import", func() (struct{}, error) {
		return struct{}{}, w.Driver.Complete(ctx, w.c.ID, m.Databases[i], t.told)
	})
	if theirs, ok := errors.AsType[*platform.CustomerError](err); ok && theirs.Passing && m.Cutover != nil && w.Now().Sub(*m.Cutover) < w.Limits.Following {
		return fmt.Errorf("complete a database: %s", theirs.Reason) // which is worth another try
	}
	if err != nil {
		return fmt.Errorf("complete a database: %w", err)
	}
	m.Databases[i].Done = true
	return w.Store.SaveMigrationDatabases(ctx, m.ID, m.Databases)
}

// release has the source forget us, and returns what its owner is to do where it can't be told.
func (w *work) release(ctx context.Context, m migration.Migration) (left string) {
	var statements []string
	source, failed := w.importSource(ctx, m)
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	for _, d := range m.Databases {
		if d.Slot == "" {
			continue
		}
		err := failed
		if err == nil {
			err = w.releaseOne(ctx, source, d)
		}
		if err != nil {
			w.log.WarnContext(ctx, "what a source keeps for us couldn't be removed", "error", err)
			statements = append(statements, "in "+d.From+", "+w.Driver.Leftovers(w.c, d))
		}
	}
	if len(statements) == 0 {
		return ""
	}
	return "The source couldn't be told to forget it and goes on keeping what is written there; do so: " + strings.Join(statements, " ")
}

func (w *work) releaseOne(ctx context.Context, source platform.ImportSource, d migration.Database) error {
	for pause := 500 * time.Millisecond; ; pause *= 2 {
		_, err := step("release source", func() (struct{}, error) {
			return struct{}{}, w.Driver.Release(ctx, w.c, source, d)
		})
		if err == nil || ctx.Err() != nil {
			return err
		}
		if theirs, ok := errors.AsType[*platform.CustomerError](err); ok && !theirs.Passing {
			return err
		}
		if wait.Sleep(ctx, pause) != nil {
			return err
		}
	}
}
