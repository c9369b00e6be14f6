// Package alarm judges databases by the rules of alerts: it reads what the meters of all servers have written, opens an
// issue where a rule has held for long enough, and closes it when all is well again.
package alarm

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"steward/internal/account"
	"steward/internal/alert"
	"steward/internal/cluster"
	"steward/internal/measure"
	"steward/internal/outage"
	"steward/internal/store"
	"steward/internal/wait"
)

// Options are what a Judge is made of.
type Options struct {
	Store  *store.Store
	Issues outage.IssueTracker
	Logger *slog.Logger
	// Backups reports whether databases are backed up every day, and Verified whether each backup is tried out then.
	Backups, Verified bool
	// Without reports whether a region has no backups of an engine's databases; nil when all have.
	Without func(region string, engine cluster.Engine) bool
	// Now is the store's clock; time.Now when nil.
	Now func() time.Time
}

const (
	// writtenBy is how long after the end of a slice the meters have written it: it is closed when no reading of it can
	// be on its way, and written within seconds.
	writtenBy = 20 * time.Second
	// late is how much of what has been judged is read once more, for what came late.
	late = time.Minute
	// retryLease is how often a server that doesn't judge asks whether nobody does.
	retryLease = 5 * time.Second
	// passTime bounds a pass: a store that hangs ends it, and the next one makes up for it.
	passTime = 20 * time.Second
	// shortest and longest bound what is remembered of a database.
	shortest = 15 * time.Minute
	longest  = 2 * time.Hour
	// mostBehind is how far the pass before may lie back for what is remembered to count.
	mostBehind = 10 * time.Minute
	// forecastEvery is how often a database's disk is looked at for when it will be full.
	forecastEvery = 30 * time.Minute
)

// Judge judges. Of all servers on a store one does so at a time.
type Judge struct {
	Options
	// upto is the end of what has been judged.
	upto      time.Time
	databases map[cluster.ID]*database
}

// database is what is remembered of one.
type database struct {
	store.AlertSubject
	need
	history *alert.History
	streaks map[alert.ID]streak
	// upto is the end of what has been judged of it.
	upto time.Time
	// fullIn is the last forecast, made at forecast.
	fullIn   float64
	forecast time.Time
}

// need is what has to be remembered of a database for the rules that it has.
type need struct {
	length  time.Duration
	metrics [measure.Count]bool
}

func needOf(rules []alert.Rule) need {
	n := need{length: shortest}
	for _, r := range rules {
		if len(r.Metrics()) == 0 {
			continue
		}
		n.length = max(n.length, r.Trigger.Period+time.Duration(r.Trigger.Occurrences-1)*r.Trigger.Polling)
		for _, m := range r.Metrics() {
			n.metrics[m] = true
		}
	}
	n.length = min(n.length, longest) + measure.Slice
	n.metrics[measure.Primary] = true // filters ask for it
	return n
}

// streak is one of a rule as it was changed last: another one begins anew.
type streak struct {
	alert.Streak
	of time.Time
}

// New makes one.
func New(o Options) *Judge {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Judge{Options: o}
}

// Run judges until ctx ends, whenever no other server does.
func (j *Judge) Run(ctx context.Context) {
	for ctx.Err() == nil {
		leased, release, ok, err := j.Store.LeaseAlerts(ctx)
		if err != nil && ctx.Err() == nil {
			j.Logger.WarnContext(ctx, "who judges databases can't be settled", "error", err)
		}
		if err == nil && ok {
			j.hold(leased)
			release()
		}
		_ = wait.Sleep(ctx, retryLease) // the loop sees ctx end
	}
}

// hold judges until the lease is lost, beginning with what nobody may have judged.
func (j *Judge) hold(leased context.Context) {
	j.upto, j.databases = time.Time{}, map[cluster.ID]*database{}
	for leased.Err() == nil {
		limited, cancel := context.WithTimeout(leased, passTime)
		err := j.pass(limited)
		cancel()
		if err != nil && leased.Err() == nil {
			j.Logger.WarnContext(leased, "databases can't be judged now", "error", err)
		}
		now := j.Now()
		next := measure.Floor(now.Add(-writtenBy), measure.Slice).Add(measure.Slice + writtenBy)
		_ = wait.Sleep(leased, max(time.Second, next.Sub(now))) // the loop sees it end
	}
}

// known is what the store says at the beginning of a pass.
type known struct {
	subjects []store.AlertSubject
	rules    map[account.ID][]alert.Rule
	open     map[store.OpenAlert]bool
}

func (j *Judge) ask(ctx context.Context) (k known, err error) {
	if k.subjects, err = j.Store.AlertSubjects(ctx, j.Verified); err != nil {
		return k, err
	}
	own, err := j.Store.AllAlertRules(ctx)
	if err != nil {
		return k, err
	}
	open, err := j.Store.OpenAlerts(ctx)
	if err != nil {
		return k, err
	}
	k.open = map[store.OpenAlert]bool{}
	for _, o := range open {
		k.open[o] = true
	}
	k.rules = map[account.ID][]alert.Rule{}
	for _, s := range k.subjects {
		if k.rules[s.Account] == nil {
			k.rules[s.Account] = slices.DeleteFunc(alert.Effective(own[s.Account]), func(r alert.Rule) bool { return !r.Enabled })
		}
	}
	return k, nil
}

// pass judges what was written since the last one.
func (j *Judge) pass(ctx context.Context) error {
	now := j.Now()
	upto := measure.Floor(now.Add(-writtenBy), measure.Slice)
	k, err := j.ask(ctx)
	if err != nil {
		return err
	}
	if upto.Sub(j.upto) > mostBehind {
		j.databases = map[cluster.ID]*database{}
	}
	if err := j.remember(ctx, k, upto); err != nil {
		return err
	}
	j.upto = upto
	j.foresee(ctx, k, now)
	for _, s := range k.subjects {
		if d := j.databases[s.ID]; d != nil {
			d.look(k.rules[s.Account], j.computed(d, now), upto)
			j.decide(ctx, d, k)
		}
	}
	j.sweep(ctx, k)
	return ctx.Err()
}

// remember has all databases that run have their history up to a moment, and forgets the others.
func (j *Judge) remember(ctx context.Context, k known, upto time.Time) error {
	before := j.databases
	j.databases = make(map[cluster.ID]*database, len(k.subjects))
	var ids []cluster.ID
	for _, s := range k.subjects {
		if s.Rests {
			continue
		}
		n := needOf(k.rules[s.Account])
		d := before[s.ID]
		if d == nil || d.need != n {
			d = &database{need: n, history: alert.NewHistory(s.ID, n.length), streaks: map[alert.ID]streak{}, upto: upto.Add(-n.length), fullIn: math.NaN()}
			if err := j.readBack(ctx, d, s.ID, upto); err != nil {
				return err
			}
		} else {
			ids = append(ids, s.ID)
		}
		d.AlertSubject = s
		j.databases[s.ID] = d
	}
	if len(ids) == 0 {
		return nil
	}
	all, err := j.Store.SlicesSince(ctx, ids, j.upto.Add(-late), upto)
	if err != nil {
		return err
	}
	for _, s := range all {
		j.add(ctx, s)
	}
	return nil
}

// readBack has a database remembered as it was before it was judged here.
func (j *Judge) readBack(ctx context.Context, d *database, id cluster.ID, upto time.Time) error {
	var metrics []measure.Metric
	for _, definition := range measure.Definitions() {
		if d.metrics[definition.Metric] {
			metrics = append(metrics, definition.Metric)
		}
	}
	b := measure.NewBuilder(measure.Range{From: d.upto, To: upto, Step: measure.Every})
	if err := j.Store.AddMeasurements(ctx, b, id, metrics); err != nil {
		return fmt.Errorf("read back what was measured of cluster %d: %w", id, err)
	}
	for _, s := range b.Series() {
		d.history.Add(s.Node, s.Metric, s.Start, s.Points)
	}
	return nil
}

// add notes a slice. One that is damaged costs itself.
func (j *Judge) add(ctx context.Context, s store.Slice) {
	d := j.databases[s.Cluster]
	err := measure.UnpackSlice(s.Packed, int(measure.Slice/measure.Every), func(m measure.Metric, points []measure.Point) {
		if d.metrics[m] {
			d.history.Add(s.Node, m, s.Started, points)
		}
	})
	if err != nil {
		j.Logger.WarnContext(ctx, "a measurement can't be read", "cluster_id", s.Cluster, "error", err)
	}
}
