package alarm

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/internal/alert"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/measure"
	"steward/internal/monitor"
	"steward/internal/outage"
	"steward/internal/pgtest"
	"steward/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// judging is a judge of databases of one account, whose measurements and clock are the test's.
type judging struct {
	t       *testing.T
	now     time.Time
	store   *store.Store
	cluster cluster.Cluster
	j       *Judge
}

func newJudging(t *testing.T) *judging {
	t.Helper()
	b := &judging{t: t, now: time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC).Add(writtenBy)}
	b.store = pgtest.Store(t, pgtest.WithNow(func() time.Time { return b.now }))
	b.do(func(tx *store.Tx) error {
		admin, err := tx.EnsureAdmin(t.Context())
		if err != nil {
			return err
		}
		b.cluster, err = tx.CreateCluster(t.Context(), cluster.Cluster{Account: admin.Account, Spec: cluster.Spec{
			Label: "shop", Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: catalog.DefaultPlans()[0].ID, Size: 1,
			Replication: cluster.ReplicationNone, Commit: cluster.CommitLocal, Updates: cluster.DefaultWindow(0),
		}}, nil, store.Ports{First: 21000, Last: 21099})
		return err
	})
	b.exec("UPDATE clusters SET status = 'active'")
	for _, name := range []string{"ann", "bob"} {
		if _, err := b.store.CreateContact(t.Context(), monitor.Contact{Account: b.cluster.Account, Name: name, Email: name + "@example.org"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.store.KeepMeasurements(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.start()
	return b
}

// start begins with a new judge, as a process does.
func (b *judging) start() {
	b.j = New(Options{Store: b.store, Issues: outage.IssueTracker{Channels: []string{"ops"}}, Logger: pgtest.Logger(b.t), Backups: true, Verified: true, Now: func() time.Time { return b.now }})
	b.j.databases = map[cluster.ID]*database{}
}

func (b *judging) do(f func(tx *store.Tx) error) {
	b.t.Helper()
	if err := b.store.InTx(b.t.Context(), f); err != nil {
		b.t.Fatal(err)
	}
}

func (b *judging) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.store.Pool().Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

// pass has time go by with values that stay the same, judged or not.
func (b *judging) pass(length time.Duration, judged bool, values map[measure.Metric]float64) {
	b.t.Helper()
	for end := b.now.Add(length); b.now.Before(end); {
		var steps [measure.Slice / measure.Every]measure.Values
		for i := range steps {
			steps[i] = measure.Unknown()
			for m, v := range values {
				steps[i][m] = v
			}
		}
		started := measure.Floor(b.now, measure.Slice)
		if packed := measure.PackSlice(steps[:]); len(packed) > 0 {
			if err := b.store.AddSlices(b.t.Context(), []store.Slice{{Cluster: b.cluster.ID, Started: started, Packed: packed}}); err != nil {
				b.t.Fatal(err)
			}
		}
		b.now = b.now.Add(measure.Slice)
		if judged {
			if err := b.j.pass(b.t.Context()); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

// issues are "rule opened" and "rule closed" of all issues, oldest first, with how many notices each had.
func (b *judging) issues() string {
	b.t.Helper()
	rows, err := b.store.Pool().Query(b.t.Context(), `SELECT i.cause, i.closed IS NULL, (SELECT count(*) FROM notices n WHERE n.issue_id = i.id) FROM issues i ORDER BY i.id`)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var cause string
		var open bool
		var notices int
		if err := rows.Scan(&cause, &open, &notices); err != nil {
			b.t.Fatal(err)
		}
		_, rule, _ := outage.Cause(cause).Alert()
		r, _ := alert.Default(rule)
		state := "closed"
		if open {
			state = "open"
		}
		all = append(all, r.Name+" "+state+" "+strconv.Itoa(notices))
	}
	return strings.Join(all, ", ")
}

// written are how many rows were ever written in the tables that alerts change.
func (b *judging) written() (n int) {
	b.t.Helper()
	const count = "SELECT (SELECT count(*) FROM issues) + (SELECT count(*) FROM notices) + (SELECT count(*) FROM operations) + (SELECT count(*) FROM ticket_replies) + (SELECT count(*) FROM alert_rules)"
	if err := b.store.Pool().QueryRow(b.t.Context(), count).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *judging) want(want string) {
	b.t.Helper()
	if got := b.issues(); got != want {
		b.t.Fatalf("%s: %q, want %q", b.now.Format(time.TimeOnly), got, want)
	}
}

func disk(percent float64) map[measure.Metric]float64 {
	return map[measure.Metric]float64{measure.Up: 1, measure.DiskUsage: percent}
}

// TestAlert: what is wrong opens one issue and tells each once, and the end tells each once more. Nothing is written in between.
func TestAlert(t *testing.T) {
	t.Parallel()
	b := newJudging(t)
	b.pass(5*time.Minute, true, disk(60))
	b.want("")
	b.pass(3*time.Minute, true, disk(83))
	b.want("disk-filling open 3") // two contacts and the operator's channel
	before := b.written()
	b.pass(10*time.Minute, true, disk(83))
	b.pass(10*time.Minute, true, disk(77)) // between the thresholds
	b.pass(10*time.Minute, true, nil)
	if n := b.written(); n != before {
		t.Errorf("%d rows were written while nothing changed", n-before)
	}
	b.want("disk-filling open 3")
	b.pass(3*time.Minute, true, disk(60))
	b.want("disk-filling closed 6")
	var summary, timeline string
	if err := b.store.Pool().QueryRow(t.Context(), "SELECT summary FROM tickets").Scan(&summary); err != nil || !strings.HasPrefix(summary, "shop: The disk is 83 % full.") {
		t.Errorf("%q, %v", summary, err)
	}
	err := b.store.Pool().QueryRow(t.Context(), "SELECT string_agg(kind, ' ' ORDER BY id) FROM ticket_replies").Scan(&timeline)
	if err != nil || timeline != "opened recovered closed" {
		t.Errorf("%q, %v", timeline, err)
	}
}

// TestJudgeIsKilled: the next one, which knows nothing but the store, goes on where it was.
func TestJudgeIsKilled(t *testing.T) {
	t.Parallel()
	b := newJudging(t)
	b.pass(5*time.Minute, true, disk(60))
	for range 8 { // a new one for every pass
		b.start()
		b.pass(measure.Slice, true, disk(83))
	}
	b.want("disk-filling open 3")
	b.start()
	b.pass(5*time.Minute, true, disk(83))
	b.want("disk-filling open 3")
	b.pass(3*time.Minute, false, disk(60)) // measured while nobody judged
	b.start()
	b.pass(measure.Slice, true, disk(60))
	b.want("disk-filling closed 6")
}

// TestWorseIsToldAlone: what is very bad at once isn't told twice, and what becomes worse is told again.
func TestWorseIsToldAlone(t *testing.T) {
	t.Parallel()
	b := newJudging(t)
	b.pass(5*time.Minute, true, map[measure.Metric]float64{measure.ConnectionUsage: 10})
	b.pass(10*time.Minute, true, map[measure.Metric]float64{measure.ConnectionUsage: 96})
	b.want("connections-nearly-all open 3")
	b.pass(5*time.Minute, true, map[measure.Metric]float64{measure.ConnectionUsage: 10})
	b.want("connections-nearly-all closed 6")
	b.pass(5*time.Minute, true, map[measure.Metric]float64{measure.ConnectionUsage: 85})
	b.pass(5*time.Minute, true, map[measure.Metric]float64{measure.ConnectionUsage: 97})
	b.want("connections-nearly-all closed 6, connections-many open 3, connections-nearly-all open 3")
}

// TestRestingIsntJudged: nothing opens and nothing closes while a database sleeps or is suspended, and what was measured
// before doesn't count afterwards.
func TestRestingIsntJudged(t *testing.T) {
	t.Parallel()
	b := newJudging(t)
	b.pass(3*time.Minute, true, disk(60))
	b.pass(time.Minute, true, disk(83))
	b.exec("UPDATE clusters SET sleeping_since = now()")
	b.pass(time.Hour, true, nil)
	b.exec("UPDATE clusters SET sleeping_since = NULL")
	b.pass(time.Minute, true, disk(83))
	b.want("")
	b.pass(2*time.Minute, true, disk(83))
	b.want("disk-filling open 3")
	b.exec("UPDATE clusters SET status = 'suspended'")
	b.pass(time.Hour, true, nil)
	b.want("disk-filling open 3")
}

// TestBackupMissing: two days without one that is proven to restore; one that isn't proven is none.
func TestBackupMissing(t *testing.T) {
	t.Parallel()
	b := newJudging(t)
	b.exec("UPDATE clusters SET created = $1", b.now.Add(-48*time.Hour))
	b.pass(45*time.Minute, true, disk(10))
	b.want("")
	b.exec("INSERT INTO backups (account_id, cluster_id, type, label, target, state, created) VALUES ($1, $2, 'snapshot', 'a', 'primary', 'complete', $3)", int64(b.cluster.Account), int64(b.cluster.ID), b.now)
	b.pass(20*time.Minute, true, disk(10))
	b.want("backup-missing open 3")
	b.exec("UPDATE backups SET verified = $1", b.now)
	b.pass(70*time.Minute, true, disk(10))
	b.want("backup-missing closed 6")
}

// TestFullSoon: a disk that fills by 24 % a day is told of three days ahead.
func TestFullSoon(t *testing.T) {
	t.Parallel()
	b := newJudging(t)
	points := make([]measure.Point, 0)
	for at := b.now.Add(-8 * time.Hour); at.Before(b.now); at = at.Add(measure.Slice) {
		usage := 70 - b.now.Sub(at).Hours()
		points = append(points, measure.At(usage))
		b.pass0(at, disk(usage))
	}
	b.pass(25*time.Minute, true, disk(70))
	b.want("disk-full-soon open 3")
	if math.Abs(points[0].Mean-62) > 0.1 {
		t.Error(points[0])
	}
}

// pass0 writes a slice of some time ago.
func (b *judging) pass0(at time.Time, values map[measure.Metric]float64) {
	b.t.Helper()
	var steps [measure.Slice / measure.Every]measure.Values
	for i := range steps {
		steps[i] = measure.Unknown()
		for m, v := range values {
			steps[i][m] = v
		}
	}
	if err := b.store.AddSlices(b.t.Context(), []store.Slice{{Cluster: b.cluster.ID, Started: measure.Floor(at, measure.Slice), Packed: measure.PackSlice(steps[:])}}); err != nil {
		b.t.Fatal(err)
	}
}

// TestChangedRules: an account's own threshold counts from then on, and an alert that is switched off closes.
func TestChangedRules(t *testing.T) {
	t.Parallel()
	b := newJudging(t)
	b.pass(3*time.Minute, true, disk(83))
	b.want("disk-filling open 3")
	r, _ := alert.Default(alert.DiskFilling)
	r.Criteria[0].Threshold, r.Criteria[0].Clear = 85, 80
	b.do(func(tx *store.Tx) (err error) {
		r, err = tx.SaveAlertRule(t.Context(), b.cluster.Account, r)
		return err
	})
	b.pass(5*time.Minute, true, disk(83)) // within the new band
	b.want("disk-filling open 3")
	r.Enabled = false
	b.do(func(tx *store.Tx) (err error) {
		r, err = tx.SaveAlertRule(t.Context(), b.cluster.Account, r)
		return err
	})
	b.pass(measure.Slice, true, disk(83))
	b.want("disk-filling closed 6")
	b.pass(5*time.Minute, true, disk(83))
	b.want("disk-filling closed 6")
}

// TestOneJudges: of two servers one judges, and what a former one still wants to write isn't taken.
func TestOneJudges(t *testing.T) {
	t.Parallel()
	b := newJudging(t)
	leased, release, ok, err := b.store.LeaseAlerts(t.Context())
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	other, err := store.Open(t.Context(), store.Options{URL: b.store.Pool().Config().ConnString(), Logger: pgtest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, _, ok, err := other.LeaseAlerts(t.Context()); ok || err != nil {
		t.Fatalf("two judge: %v", err)
	}
	release()
	_, release, ok, err = other.LeaseAlerts(t.Context())
	if err != nil || !ok {
		t.Fatalf("nobody judges: %v", err)
	}
	defer release()
	if err := b.store.InTx(leased, func(*store.Tx) error { return nil }); err == nil {
		t.Error("a former judge writes")
	}
}
