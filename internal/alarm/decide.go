package alarm

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"steward/internal/account"
	"steward/internal/alert"
	"steward/internal/measure"
	"steward/internal/outage"
	"steward/internal/store"
)

// look has the rules judge what was measured since the last look.
func (d *database) look(rules []alert.Rule, computed alert.Computed, upto time.Time) {
	for at := d.upto.Add(measure.Slice); !at.After(upto); at = at.Add(measure.Slice) {
		for _, r := range rules {
			if !r.Due(at) || !r.Covers(d.Subject) {
				continue
			}
			s := d.streaks[r.ID]
			if !s.of.Equal(r.Updated) {
				s = streak{of: r.Updated}
			}
			now := alert.Computed{}
			if upto.Sub(at) < late { // what is computed is of now
				now = computed
			}
			verdict, value := r.Look(d.history, now, at)
			s.Streak = s.Next(verdict, value)
			d.streaks[r.ID] = s
		}
	}
	d.upto = upto
}

// computed are the values of a database that aren't measured.
func (j *Judge) computed(d *database, now time.Time) alert.Computed {
	c := alert.Computed{alert.DiskFullIn: d.fullIn}
	if j.Backups && (j.Without == nil || !j.Without(d.Region, d.Engine)) {
		c[alert.BackupAge] = now.Sub(d.Proven).Seconds()
	}
	return c
}

// mostForecasts is how many disks are looked at in a pass: each costs some questions to the store.
const mostForecasts = 20

// foresee makes forecasts for those databases whose turn it is.
func (j *Judge) foresee(ctx context.Context, k known, now time.Time) {
	done := 0
	for _, s := range k.subjects {
		d := j.databases[s.ID]
		wanted := slices.ContainsFunc(k.rules[s.Account], func(r alert.Rule) bool { return r.Uses(alert.DiskFullIn) })
		if d == nil || !wanted || now.Sub(d.forecast) < forecastEvery || done == mostForecasts {
			continue
		}
		done++
		d.forecast = now
		b := measure.NewBuilder(alert.ForecastRange(now))
		if err := j.Store.AddMeasurements(ctx, b, s.ID, []measure.Metric{measure.DiskUsage}); err != nil {
			j.Logger.WarnContext(ctx, "what was measured of a disk can't be read", "cluster_id", s.ID, "error", err)
			d.fullIn = math.NaN()
			continue
		}
		d.fullIn = soonest(b.Series())
	}
}

// soonest is when the first of the nodes' disks is full.
func soonest(nodes []measure.Series) float64 {
	soonest := math.NaN()
	for _, s := range nodes {
		if in := alert.FullIn(s.Points, s.Step); math.IsNaN(soonest) || in < soonest {
			soonest = in
		}
	}
	return soonest
}

// decide opens and closes alerts of a database. Those that say the same of something worse come first.
func (j *Judge) decide(ctx context.Context, d *database, k known) {
	rules := slices.Clone(k.rules[d.Account])
	slices.SortStableFunc(rules, func(a, b alert.Rule) int { return min(int(a.Under), 1) - min(int(b.Under), 1) })
	for _, r := range rules {
		s, looked := d.streaks[r.ID]
		if !looked || !r.Covers(d.Subject) {
			continue
		}
		cause := store.OpenAlert{Account: d.Account, Cause: string(outage.OfAlert(d.ID, r.ID))}
		var err error
		switch open := k.open[cause]; {
		case !open && r.Opens(s.Streak):
			if r.Under != 0 && k.open[store.OpenAlert{Account: d.Account, Cause: string(outage.OfAlert(d.ID, r.Under))}] {
				continue
			}
			if err = j.open(ctx, d, r, s.Value); err == nil {
				k.open[cause] = true
			}
		case open && r.Closes(s.Streak):
			if err = j.close(ctx, d, r); err == nil {
				delete(k.open, cause)
			}
		}
		if err != nil && ctx.Err() == nil {
			j.Logger.WarnContext(ctx, "an alert can't be recorded; it is tried again", "cluster_id", d.ID, "rule", r.ID, "error", err)
		}
	}
}

// open opens a rule's issue, unless the database is gone or rests by now.
func (j *Judge) open(ctx context.Context, d *database, r alert.Rule, value float64) error {
	err := j.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.LockIssues(ctx, d.Account); err != nil { // before it is looked: who deletes it waits for us, or we see it
			return err
		}
		c, err := tx.ClusterForWork(ctx, d.ID)
		if err != nil || c.Deleted != nil || c.SleepingSince != nil {
			return err
		}
		told, err := audience(ctx, tx, d.Account, r)
		if err != nil {
			return err
		}
		return j.Issues.RaiseTo(ctx, tx, d.Account, outage.OfAlert(d.ID, r.ID), c.Label, r.Sentence(value), j.Now(), told)
	})
	if err != nil {
		return fmt.Errorf("open the issue of %s: %w", outage.OfAlert(d.ID, r.ID), err)
	}
	return nil
}

// audience are the contacts and the channels that a rule names, as they are now.
func audience(ctx context.Context, tx *store.Tx, of account.ID, r alert.Rule) (outage.Audience, error) {
	told := outage.Audience{Contacts: slices.Contains(r.Channels, alert.Contacts)}
	if len(r.Channels) == 0 || told.Contacts && len(r.Channels) == 1 {
		return told, nil
	}
	all, err := tx.AlertChannels(ctx, of)
	told.Channels = slices.DeleteFunc(all, func(c alert.Channel) bool { return !slices.Contains(r.Channels, c.ID) })
	return told, err
}

func (j *Judge) close(ctx context.Context, d *database, r alert.Rule) error {
	err := j.Store.InTx(ctx, func(tx *store.Tx) error {
		return j.Issues.Settle(ctx, tx, d.Account, outage.OfAlert(d.ID, r.ID), d.Label+": "+r.Label+" is over.", j.Now())
	})
	if err != nil {
		return fmt.Errorf("close the issue of %s: %w", outage.OfAlert(d.ID, r.ID), err)
	}
	return nil
}

// sweep closes what no rule judges any more: it was switched off or deleted, or isn't for the database.
func (j *Judge) sweep(ctx context.Context, k known) {
	subjects := map[string]store.AlertSubject{}
	for _, s := range k.subjects {
		subjects[string(outage.OfDatabase(s.ID))] = s
	}
	for open := range k.open {
		id, rule, ok := outage.Cause(open.Cause).Alert()
		s, there := subjects[string(outage.OfDatabase(id))]
		judged := slices.ContainsFunc(k.rules[s.Account], func(r alert.Rule) bool { return r.ID == rule && r.Covers(s.Subject) })
		if !ok || !there || judged {
			continue
		}
		err := j.Store.InTx(ctx, func(tx *store.Tx) error {
			return j.Issues.Drop(ctx, tx, s.Account, outage.Cause(open.Cause), "The alert was switched off, or isn't for this database any more.", j.Now())
		})
		if err != nil && ctx.Err() == nil {
			j.Logger.WarnContext(ctx, "an alert that was switched off can't be closed; it is tried again", "cluster_id", id, "rule", rule, "error", err)
		}
	}
}
