package converge_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/archive/archivetest"
	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/converge"
	"steward/internal/monitor"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/outage"
	"steward/internal/pgtest"
	"steward/internal/platform/memplatform"
	"steward/internal/store"
)

// windows is a bench that keeps maintenance windows by a clock that the test moves.
type windows struct {
	*bench
	clock   atomic.Pointer[time.Time]
	options converge.MaintenanceOptions
	issues  outage.IssueTracker
}

// opens is when the windows of all databases of the tests open.
var opens = time.Date(2026, 2, 4, 14, 0, 0, 0, time.UTC)

func newWindows(t *testing.T, options converge.MaintenanceOptions) *windows {
	t.Helper()
	return newToldWindows(t, options, outage.IssueTracker{})
}

// newToldWindows is newWindows with whom to tell of them.
func newToldWindows(t *testing.T, options converge.MaintenanceOptions, issues outage.IssueTracker) *windows {
	t.Helper()
	w := &windows{options: options, issues: issues}
	w.options.Every = 25 * time.Millisecond
	w.at(opens.Add(-72 * time.Hour))
	w.bench = newBench(t, pgtest.WithNow(w.now))
	w.restart()
	return w
}

func (w *windows) now() time.Time   { return *w.clock.Load() }
func (w *windows) at(now time.Time) { w.clock.Store(&now) }

// restart replaces the process; between stop and start nobody runs.
func (w *windows) restart() {
	w.keeper.Stop()
	w.operator = operate.New(operate.Options{
		Store: w.store, Driver: w.driver, Catalog: w.plans, Archive: archivetest.New(), Recovery: &notes{}, Issues: w.issues, Logger: w.operator.Logger, Now: w.now, Limits: operate.Limits{Quick: time.Nanosecond, Seen: time.Nanosecond},
	})
	w.keep(converge.Options{Every: 50 * time.Millisecond, Grace: 300 * time.Millisecond, Maintenance: w.options, Issues: w.issues, Now: w.now})
}

// database has a window that opens at opens, for two hours.
func (w *windows) database(size int) cluster.Cluster {
	w.t.Helper()
	c := w.activeOf(size)
	change := cluster.WindowChange{Duration: new(2), HourOfDay: new(14), DayOfWeek: new(3)}
	c, err := w.control.Clusters.Update(w.t.Context(), w.admin, "", c.ID, control.UpdateCluster{Updates: &change}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// waits waits until so much is known to be left for the window.
func (w *windows) waits(id cluster.ID, tasks int) {
	w.t.Helper()
	await.True(w.t, "tasks are found", func() bool { return len(w.view(id).Maintenance.Tasks) == tasks })
}

// outdated is a database that waits for a newer minor, as a round lists it.
func (w *windows) outdated() cluster.Cluster {
	w.t.Helper()
	c := w.database(1)
	w.driver.Install("postgresql/15", "15.3")
	w.waits(c.ID, 1)
	c, err := w.store.ClusterForWork(w.t.Context(), c.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// turn is one of the keeper's rounds, from its beginning to its end: all that is due
// by the clock of this moment has been begun or told when it returns.
func (w *windows) turn() {
	w.t.Helper()
	if err := w.keeper.SeeToMaintenance(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// carryOut does what operations are waiting of a database.
func (w *windows) carryOut(id cluster.ID) {
	w.t.Helper()
	going, err := w.store.UnfinishedOperations(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range going {
		if _, err := w.operator.Run(w.t.Context(), o.ID); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *windows) of(id cluster.ID, action operation.Action) []operation.Operation {
	w.t.Helper()
	var found []operation.Operation
	for _, o := range w.events(id) {
		if o.Action == action {
			found = append(found, o)
		}
	}
	return found
}

// TestMaintenanceWindow: a newer minor that is found while the server runs is
// moved to in the window and not before; it is told of ahead, once, and the event
// says from where to where.
func TestMaintenanceWindow(t *testing.T) {
	t.Parallel()
	w := newWindows(t, converge.MaintenanceOptions{})
	c := w.database(3)
	w.driver.Install("postgresql/15", "15.3")
	w.waits(c.ID, 1)
	w.turn()
	if told := w.of(c.ID, operation.MaintenanceScheduled); len(told) > 0 {
		t.Errorf("told days ahead: %+v", told)
	}
	w.at(opens.Add(-20 * time.Hour))
	await.True(w.t, "it is told", func() bool { return len(w.of(c.ID, operation.MaintenanceScheduled)) == 1 })
	w.restart()
	w.at(opens.Add(-time.Second))
	w.turn()
	told := w.of(c.ID, operation.MaintenanceScheduled)
	if len(told) != 1 || !strings.Contains(told[0].Message, "from 2026-02-04 14:00 UTC") || !strings.Contains(told[0].Message, "from version 15.2 to 15.3") {
		t.Errorf("told: %+v", told)
	}
	if now := w.view(c.ID); now.Status != cluster.Active || now.ServerVersion != "15.2" {
		t.Fatalf("before the window: %s, %s", now.Status, now.ServerVersion)
	}
	w.at(opens)
	w.mustBecome(c.ID, cluster.Updating)
	w.carryOut(c.ID)
	now := w.mustBecome(c.ID, cluster.Active)
	if real, _ := w.world.Cluster(c.ID); real.Version != "15.3" || now.ServerVersion != "15.3" || len(now.Maintenance.Tasks) > 0 {
		t.Errorf("after the window's work: %+v", now)
	}
	w.turn()
	events := w.of(c.ID, operation.Maintenance)
	if len(events) != 1 || events[0].Status != operation.Finished || events[0].Message != "The servers moved from version 15.2 to 15.3." {
		t.Errorf("events: %+v", events)
	}
	if told := w.notices(); len(told) > 0 {
		t.Errorf("contacts were told unasked: %+v", told)
	}
}

// notices are all that contacts and channels were or will be told, oldest first.
func (w *windows) notices() []monitor.Notice {
	w.t.Helper()
	all, err := w.store.Notices(w.t.Context(), store.NoticeQuery{})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

// TestMaintenanceIsToldToPeople: a day ahead, at the start and at the end, once each,
// of the window in which all is done and of one that ends too early.
func TestMaintenanceIsToldToPeople(t *testing.T) {
	t.Parallel()
	w := newToldWindows(t, converge.MaintenanceOptions{}, outage.IssueTracker{Channels: []string{"ops"}, Maintenance: true})
	ann := monitor.Contact{Account: w.admin.Account, Name: "Ann", Email: "ann@example.org", Group: "web"}
	if _, err := w.store.CreateContact(t.Context(), ann); err != nil {
		t.Fatal(err)
	}
	c := w.database(1)
	var want []string
	expect := func(kind monitor.NoticeKind, of time.Time, work string) {
		t.Helper()
		w.restart()
		w.turn()
		for _, to := range []string{"email ann@example.org Ann", "ops  "} {
			want = append(want, fmt.Sprintf("%s %s: %s to %s: %s", to, kind, of, of.Add(2*time.Hour), work))
		}
		var got []string
		for _, n := range w.notices() {
			m := n.Content.Maintenance
			got = append(got, fmt.Sprintf("%s %s %s %s: %s to %s: %s", n.Channel, n.Recipient, n.Name, n.Kind, m.Start, m.End, m.Work))
			if n.Database != c.ID || !n.Window.Equal(m.Start) || m.Database != c.Label {
				t.Errorf("%+v", n)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s -want +got\n%s", kind, diff)
		}
	}
	window := func(opens time.Time, from, to string) {
		work := fmt.Sprintf("The servers move from version %s to %s.", from, to)
		w.driver.Install("postgresql/15", to)
		w.at(opens.Add(-20 * time.Hour))
		w.turn()
		expect(monitor.NoticeAnnounced, opens, work)
		w.at(opens)
		w.turn()
		w.mustBecome(c.ID, cluster.Updating)
		expect(monitor.NoticeBegun, opens, work)
	}
	window(opens, "15.2", "15.3")
	w.carryOut(c.ID)
	expect(monitor.NoticeDone, opens, "The servers moved from version 15.2 to 15.3.")
	next := opens.AddDate(0, 0, 7)
	window(next, "15.3", "15.4")
	w.at(next.Add(2 * time.Hour))
	w.carryOut(c.ID)
	expect(monitor.NoticeUnfinished, next, "The maintenance window ended before all was done; what is left waits for the next one.")
}

// TestNoticeIsOneWithWhatItTellsOf: while the notice can't be recorded, nothing of what
// it tells of happens, so that neither is ever there without the other.
func TestNoticeIsOneWithWhatItTellsOf(t *testing.T) {
	t.Parallel()
	w := newToldWindows(t, converge.MaintenanceOptions{}, outage.IssueTracker{Channels: []string{"ops"}, Maintenance: true})
	exec := func(sql string) {
		t.Helper()
		if _, err := w.store.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	c := w.database(1)
	w.driver.Install("postgresql/15", "15.3")
	w.waits(c.ID, 1)
	exec("ALTER TABLE notices ADD CONSTRAINT full_disk CHECK (kind NOT IN ('announced', 'begun', 'done')) NOT VALID")
	w.at(opens.Add(-20 * time.Hour))
	if err := w.keeper.SeeToMaintenance(t.Context()); err == nil || len(w.of(c.ID, operation.MaintenanceScheduled)) > 0 || w.view(c.ID).Maintenance.Announced != nil {
		t.Errorf("announced: %v", err)
	}
	w.at(opens)
	if err := w.keeper.SeeToMaintenance(t.Context()); err == nil || len(w.of(c.ID, operation.Maintenance)) > 0 || w.view(c.ID).Status != cluster.Active {
		t.Errorf("begun: %v", err)
	}
	exec("ALTER TABLE notices DROP CONSTRAINT full_disk, ADD CONSTRAINT full_disk CHECK (kind <> 'done') NOT VALID")
	w.turn()
	w.mustBecome(c.ID, cluster.Updating)
	going, err := w.store.UnfinishedOperations(t.Context(), c.ID)
	if err != nil || len(going) != 1 {
		t.Fatal(going, err)
	}
	again, _ := w.operator.Run(t.Context(), going[0].ID)
	if e := w.of(c.ID, operation.Maintenance); len(e) != 1 || e[0].Status.Done() || w.view(c.ID).Status != cluster.Updating || again == 0 {
		t.Errorf("done: %+v, again in %s", e, again)
	}
	exec("ALTER TABLE notices DROP CONSTRAINT full_disk")
	w.carryOut(c.ID)
	w.mustBecome(c.ID, cluster.Active)
	// A round that began before the window opened may still have announced it.
	told := slices.DeleteFunc(w.notices(), func(n monitor.Notice) bool { return n.Kind == monitor.NoticeAnnounced })
	if len(told) != 2 || told[0].Kind != monitor.NoticeBegun || told[1].Kind != monitor.NoticeDone {
		t.Errorf("%+v", told)
	}
}

// TestWindowThatWasMovedIsNone: a round that listed a database before its owner chose another window neither tells of the
// old one nor begins anything in it.
func TestWindowThatWasMovedIsNone(t *testing.T) {
	t.Parallel()
	w := newWindows(t, converge.MaintenanceOptions{})
	c := w.outdated()
	change := cluster.WindowChange{DayOfWeek: new(6)}
	if _, err := w.control.Clusters.Update(t.Context(), w.admin, "", c.ID, control.UpdateCluster{Updates: &change}, nil); err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{opens.Add(-20 * time.Hour), opens} {
		w.at(at)
		if err := w.keeper.Maintain(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	if told, begun := w.of(c.ID, operation.MaintenanceScheduled), w.of(c.ID, operation.Maintenance); len(told)+len(begun) > 0 {
		t.Errorf("told %+v, begun %+v", told, begun)
	}
	if now := w.view(c.ID); now.Status != cluster.Active || now.Maintenance.Announced != nil || now.Maintenance.Begun != nil {
		t.Errorf("%s, %+v", now.Status, now.Maintenance)
	}
}

// TestMaintenanceKeepsItsBound: all that is due at once is done, but not at once.
func TestMaintenanceKeepsItsBound(t *testing.T) {
	t.Parallel()
	w := newWindows(t, converge.MaintenanceOptions{AtOnce: 2})
	var all []cluster.ID
	for range 5 {
		all = append(all, w.database(1).ID)
	}
	w.driver.Install("postgresql/15", "15.3")
	for _, id := range all {
		w.waits(id, 1)
	}
	w.at(opens.Add(time.Minute))
	updating := func() (n int) {
		for _, id := range all {
			if w.view(id).Status == cluster.Updating {
				n++
			}
		}
		return n
	}
	done := 0
	for range all {
		await.True(w.t, "something is begun", func() bool { return updating() > 0 })
		w.turn()
		if n := updating(); n != min(2, len(all)-done) {
			t.Fatalf("%d at once, and %d are done", n, done)
		}
		done++
		for _, id := range all {
			if w.view(id).Status == cluster.Updating {
				w.carryOut(id)
				break
			}
		}
	}
	await.True(w.t, "all are done", func() bool {
		for _, id := range all {
			if w.view(id).ServerVersion != "15.3" {
				return false
			}
		}
		return true
	})
}

// TestMissedWindow is made up for in the next one, whoever was away.
func TestMissedWindow(t *testing.T) {
	t.Parallel()
	w := newWindows(t, converge.MaintenanceOptions{})
	c := w.database(1)
	w.driver.Install("postgresql/15", "15.3")
	w.waits(c.ID, 1)
	if err := w.control.Clusters.Suspend(t.Context(), w.admin, "", c.ID); err != nil {
		t.Fatal(err)
	}
	w.run()
	w.at(opens.Add(time.Minute))
	w.turn()
	w.at(opens.Add(115 * time.Minute)) // too little is left to begin
	if err := w.control.Clusters.Resume(t.Context(), w.admin, "", c.ID); err != nil {
		t.Fatal(err)
	}
	w.run()
	w.turn()
	w.keeper.Stop() // the server is down in the second window
	w.at(opens.AddDate(0, 0, 7).Add(time.Hour))
	w.at(opens.AddDate(0, 0, 7).Add(3 * time.Hour))
	w.restart()
	w.turn()
	if w.of(c.ID, operation.Maintenance) != nil || w.view(c.ID).ServerVersion != "15.2" {
		t.Fatalf("outside of its window: %+v", w.view(c.ID))
	}
	w.at(opens.AddDate(0, 0, 14).Add(30 * time.Minute))
	w.mustBecome(c.ID, cluster.Updating)
	w.carryOut(c.ID)
	if now := w.mustBecome(c.ID, cluster.Active); now.ServerVersion != "15.3" {
		t.Errorf("%+v", now)
	}
}

// TestPatchBeforeTheWindow leaves nothing to do for it, and says at once so.
func TestPatchBeforeTheWindow(t *testing.T) {
	t.Parallel()
	w := newWindows(t, converge.MaintenanceOptions{})
	c := w.database(1)
	w.world.Edit(c.ID, func(real *memplatform.Cluster) { real.Tasks = []cluster.Task{{Kind: cluster.TaskCertificate}} })
	w.driver.Install("postgresql/15", "15.3")
	w.waits(c.ID, 2)
	if err := w.control.Clusters.Patch(t.Context(), w.admin, "", c.ID); err != nil {
		t.Fatal(err)
	}
	w.run()
	if now := w.view(c.ID); now.ServerVersion != "15.3" || len(now.Maintenance.Tasks) > 0 {
		t.Errorf("after the patch: %+v", now)
	}
	patched := w.of(c.ID, operation.Patch)
	if len(patched) != 1 || !strings.Contains(patched[0].Message, "certificates were renewed") || !strings.Contains(patched[0].Message, "from version 15.2 to 15.3") {
		t.Errorf("event: %+v", patched)
	}
	w.at(opens.Add(time.Minute))
	w.turn()
	if all := w.of(c.ID, operation.Maintenance); len(all) > 0 {
		t.Errorf("done again: %+v", all)
	}
}

// TestTasksThatAreDoneAreNotFoundAgain: a round that looked before a patch what waits doesn't write it down after that.
func TestTasksThatAreDoneAreNotFoundAgain(t *testing.T) {
	t.Parallel()
	w := newWindows(t, converge.MaintenanceOptions{})
	c := w.outdated()
	if err := w.control.Clusters.Patch(t.Context(), w.admin, "", c.ID); err != nil {
		t.Fatal(err)
	}
	w.run()
	w.keeper.Stop()
	w.world.Edit(c.ID, func(real *memplatform.Cluster) { real.Tasks = []cluster.Task{{Kind: cluster.TaskCertificate}} }) // as it looked then
	if err := w.keeper.Maintain(t.Context(), c); err != nil {
		t.Error(err)
	}
	now := w.view(c.ID)
	if len(now.Maintenance.Tasks) > 0 {
		t.Errorf("after the patch it waits for %+v", now.Maintenance.Tasks)
	}
	if err := w.keeper.Maintain(t.Context(), now); err != nil || len(w.view(c.ID).Maintenance.Tasks) != 1 {
		t.Errorf("the next round finds %+v, %v", w.view(c.ID).Maintenance.Tasks, err)
	}
}

// TestMaintenanceOutlivesItsWindow: a server that was down from within the window
// until after it moves nothing any more, and leaves the database well.
func TestMaintenanceOutlivesItsWindow(t *testing.T) {
	t.Parallel()
	w := newWindows(t, converge.MaintenanceOptions{})
	c := w.database(1)
	w.driver.Install("postgresql/15", "15.3")
	w.waits(c.ID, 1)
	w.at(opens)
	w.mustBecome(c.ID, cluster.Updating)
	w.at(opens.Add(2 * time.Hour))
	w.carryOut(c.ID)
	if now := w.mustBecome(c.ID, cluster.Active); now.ServerVersion != "15.2" || len(now.Maintenance.Tasks) != 1 {
		t.Errorf("after the window: %+v", now)
	}
	if e := w.of(c.ID, operation.Maintenance); len(e) != 1 || e[0].Status != operation.FailedStatus || !strings.Contains(e[0].Message, "waits for the next") {
		t.Errorf("event: %+v", e)
	}
	w.at(opens.AddDate(0, 0, 7))
	w.mustBecome(c.ID, cluster.Updating)
	w.carryOut(c.ID)
	if now := w.mustBecome(c.ID, cluster.Active); now.ServerVersion != "15.3" {
		t.Errorf("after the next window: %+v", now)
	}
}
