package alarm

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/alert"
	"steward/internal/measure"
	"steward/internal/monitor"
	"steward/internal/store"
)

// course is how a database goes from well to bad and back, as one default judges it.
type course struct {
	metric    measure.Metric
	well, bad float64
	// before is what was long before, begins and ends what is beside what is measured; nil for nothing.
	before, begins, ends func(b *judging)
}

// courses are those of all defaults.
var courses = map[alert.ID]course{
	alert.DiskFilling:    {metric: measure.DiskUsage, well: 60, bad: 83},
	alert.DiskNearlyFull: {metric: measure.DiskUsage, well: 60, bad: 93},
	alert.DiskFullSoon: {metric: measure.DiskUsage, well: 40, bad: 70, before: func(b *judging) {
		for ago := 8 * time.Hour; ago > 0; ago -= measure.Slice {
			b.pass0(b.now.Add(-ago), disk(70-ago.Hours()))
		}
	}},
	alert.ConnectionsMany:      {metric: measure.ConnectionUsage, well: 10, bad: 85},
	alert.ConnectionsNearlyAll: {metric: measure.ConnectionUsage, well: 10, bad: 96},
	alert.ReplicaLags:          {metric: measure.ReplicationLag, well: 1, bad: 45},
	alert.TransactionForgotten: {metric: measure.LongestTransaction, well: 2, bad: 3700},
	alert.ArchiveBehind:        {metric: measure.ArchiveLag, well: 10, bad: 1000},
	alert.BackupMissing: {
		metric: measure.Up, well: 1, bad: 1,
		before: func(b *judging) {
			b.exec("UPDATE clusters SET created = $1", b.now.Add(-48*time.Hour))
			b.exec(`INSERT INTO backups (account_id, cluster_id, type, label, target, state, created, verified) VALUES ($1, $2, 'snapshot', 'a', 'primary', 'complete', $3, $3)`,
				int64(b.cluster.Account), int64(b.cluster.ID), b.now.Add(-time.Hour))
		},
		begins: func(b *judging) { b.exec("UPDATE backups SET created = $1", b.now.Add(-26*time.Hour)) },
		ends:   func(b *judging) { b.exec("UPDATE backups SET created = $1", b.now) },
	},
	alert.RestartLoop:        {metric: measure.Restarts, well: 0, bad: 1},
	alert.WraparoundNear:     {metric: measure.TransactionIDAge, well: 10, bad: 60},
	alert.WraparoundImminent: {metric: measure.TransactionIDAge, well: 10, bad: 85},
	alert.CertificateEnds:    {metric: measure.CertificateLeft, well: 60 * 86400, bad: 20 * 86400},
	alert.NobodyConfirms:     {metric: measure.ConfirmingReplicas, well: 2, bad: 0},
}

// TestEveryDefault: each default opens one issue once what is wrong has held, which makes one ticket and one mail for each contact, and closes it
// with one more each; and no other alert has anything to say.
func TestEveryDefault(t *testing.T) {
	t.Parallel()
	for _, r := range alert.Defaults() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			c, ok := courses[r.ID]
			if !ok {
				t.Fatal("nobody has tried how it opens and closes")
			}
			b := newJudging(t)
			at := func(v float64) map[measure.Metric]float64 {
				return map[measure.Metric]float64{measure.Up: 1, c.metric: v}
			}
			step := func(f func(b *judging)) {
				if f != nil {
					f(b)
				}
			}
			hold := time.Duration(r.Trigger.Occurrences) * r.Trigger.Polling
			late := r.Trigger.Period + 2*r.Trigger.Polling + measure.Slice

			step(c.before)
			b.pass(5*time.Minute, true, at(c.well))
			b.want("")
			step(c.begins)
			b.pass(hold-r.Trigger.Polling, true, at(c.bad))
			b.want("")
			b.pass(late, true, at(c.bad))
			b.want(r.Name + " open 3")
			b.mails(r, monitor.NoticeOpened, "Problem: shop: ", r.Advice, "ann@example.org", "bob@example.org")
			step(c.ends)
			b.pass(r.Trigger.Polling-measure.Slice, true, at(c.well))
			b.want(r.Name + " open 3")
			b.pass(hold+late, true, at(c.well))
			b.want(r.Name + " closed 6")
			b.mails(r, monitor.NoticeRecovered, "Recovered: shop after ", r.Advice, "ann@example.org", "bob@example.org")
			b.ticket("closed", "opened recovered closed")
		})
	}
	for id := range courses {
		if _, ok := alert.Default(id); !ok {
			t.Errorf("there is no default %d", id)
		}
	}
}

// mails demands one mail of a kind to each address and none to others, with its subject's beginning and what a rule advises.
func (b *judging) mails(r alert.Rule, kind monitor.NoticeKind, subject, advice string, to ...string) {
	b.t.Helper()
	all, err := b.store.Notices(b.t.Context(), store.NoticeQuery{})
	if err != nil {
		b.t.Fatal(err)
	}
	told := map[string]int{}
	for _, n := range all {
		if n.Kind != kind || n.Channel != monitor.EmailChannel {
			continue
		}
		told[n.Recipient]++
		if l := n.Letter(); !strings.HasPrefix(l.Subject, subject) || !strings.Contains(l.Text(), advice) {
			b.t.Errorf("%s: %q: %s", r.Name, l.Subject, l.Text())
		}
	}
	if got := slices.Sorted(maps.Keys(told)); !slices.Equal(got, to) {
		b.t.Errorf("%s: mails to %v, want %v", r.Name, got, to)
	}
	for recipient, mails := range told {
		if mails != 1 {
			b.t.Errorf("%s: %d mails to %s", r.Name, mails, recipient)
		}
	}
}

// ticket demands one ticket, with its status and the kinds of what its timeline has.
func (b *judging) ticket(status, timeline string) {
	b.t.Helper()
	var got, kinds string
	const sql = `SELECT string_agg(DISTINCT t.status || ' ' || t.id, ', '), string_agg(r.kind, ' ' ORDER BY r.id) FROM tickets t JOIN ticket_replies r ON r.ticket_id = t.id`
	if err := b.store.Pool().QueryRow(b.t.Context(), sql).Scan(&got, &kinds); err != nil {
		b.t.Fatal(err)
	}
	if !strings.HasPrefix(got, status) || strings.Contains(got, ",") || kinds != timeline {
		b.t.Errorf("tickets %s: %s, want one that is %s: %s", got, kinds, status, timeline)
	}
}
