package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/client"
	"steward/internal/alert"
	"steward/internal/notify/notifytest"
	"steward/test/harness"
)

// alarmed is a server whose default alerts look at half a minute, and tell at once.
type alarmed struct {
	t   *testing.T
	s   *harness.Server
	box *notifytest.Server
}

// lowered gives a default alert another threshold, and has it look at half a minute.
func (a *alarmed) lowered(id alert.ID, threshold float64) alert.Rule {
	a.t.Helper()
	r, _ := alert.Default(id)
	c := r.Criteria[0]
	body := map[string]any{
		"rule_criteria":      map[string]any{"rules": []any{map[string]any{"metric": c.Metric, "aggregate_function": c.Aggregate, "operator": c.Operator, "threshold": threshold}}},
		"trigger_conditions": map[string]any{"criteria_condition": "ALL", "evaluation_period_seconds": 30, "polling_interval_seconds": 30, "trigger_occurrences": 1},
	}
	a.call("PUT", fmt.Sprintf("/v4/monitor/services/dbaas/alert-definitions/%d", id), body, nil)
	return r
}

func (a *alarmed) call(method, path string, in, out any) {
	a.t.Helper()
	if status, body := a.s.Call(method, path, in, out); status != http.StatusOK {
		a.t.Fatalf("%s %s: %d %s", method, path, status, body)
	}
}

// issues are all that a rule opened, open ones and closed ones: found by what it says.
func (a *alarmed) issues(r alert.Rule) []client.Issue {
	a.t.Helper()
	var all struct {
		Data []client.Issue `json:"data"`
	}
	a.call("GET", "/v4/managed/issues", nil, &all)
	var found []client.Issue
	for _, i := range all.Data {
		if strings.HasSuffix(i.Entity.Label, r.Advice) {
			found = append(found, i)
		}
	}
	return found
}

// becomes waits until the rule's one issue is open, or closed, and its one mail is there.
func (a *alarmed) becomes(r alert.Rule, closed bool) {
	a.t.Helper()
	deadline := time.Now().Add(4 * patience)
	for {
		found := a.issues(r)
		if len(found) > 1 {
			a.t.Fatalf("%s: %d issues: %+v", r.Name, len(found), found)
		}
		if len(found) == 1 && (found[0].Closed != "") == closed {
			break
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("%s: closed %v isn't so: %+v", r.Name, closed, found)
		}
		time.Sleep(time.Second)
	}
	mails := func(m notifytest.Mail) bool {
		ended := strings.HasPrefix(m.Subject, "Recovered: ")
		return ended == closed && strings.Contains(strings.Join(strings.Fields(m.Text), " "), r.Advice)
	}
	if got := a.box.Await(a.t, 1, patience, mails); len(got) != 1 {
		a.t.Errorf("%s: %d mails", r.Name, len(got))
	}
}

// newAlarmed is one whose alerts a contact is told of.
func newAlarmed(t *testing.T, config string) *alarmed {
	t.Helper()
	box := notifytest.Start(t, notifytest.Options{})
	s := harness.New(t, ofPostgreSQL, ofMariaDB, harness.WithConfig(fmt.Sprintf("%s\nsmtp: {url: %q, from: watch@example.org, ca_file: %q}", config, box.URL(), box.CAFile)))
	a := &alarmed{t, s, box}
	a.call("POST", "/v4/managed/contacts", map[string]any{"name": "Ann", "email": "ann@example.org"}, nil)
	return a
}

// recorded waits until all mails are on record as sent: after a kill those are sent again that aren't.
func (a *alarmed) recorded() {
	a.t.Helper()
	conn, err := pgx.Connect(a.t.Context(), a.s.StoreURL())
	if err != nil {
		a.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(a.t.Context()))
	a.s.Eventually("mails are on record", func() error {
		var left int
		if err := conn.QueryRow(a.t.Context(), "SELECT count(*) FROM notices WHERE state <> 'sent'").Scan(&left); err != nil {
			return err
		}
		if left > 0 {
			return fmt.Errorf("%d aren't", left)
		}
		return nil
	})
}

// TestAlerts: what can go wrong with a database opens one issue each, tells by one mail each, and closes.
func TestAlerts(t *testing.T) {
	t.Parallel()
	a := newAlarmed(t, "backups: {continuous: true}")
	single := a.s.CreateActive(harness.Small("single", postgresql))
	rules := []alert.Rule{a.lowered(alert.TransactionForgotten, 20), a.lowered(alert.ArchiveBehind, 20)}
	ends := []func(){a.forgets(single), a.stopsArchiving(single)}
	for _, r := range rules {
		a.becomes(r, false)
	}
	a.recorded()
	a.s.Kill() // what is open stays open, and is opened by nobody else
	a.s.Start()
	for _, end := range ends {
		end()
	}
	for _, r := range rules {
		a.becomes(r, true)
	}
	a.mailed(4)
}

// TestAlertsThorough is TestAlerts for all that can go wrong, of one and of three nodes.
func TestAlertsThorough(t *testing.T) {
	t.Parallel()
	a := newAlarmed(t, "backups: {continuous: true}")
	s := a.s
	single := s.Create(harness.Small("single", postgresql))
	spec := harness.Small("three", postgresql)
	spec["cluster_size"], spec["allow_list"] = 3, []string{"127.0.0.0/8"}
	three := s.AwaitStatus(s.Create(spec), "active")
	single = s.AwaitStatus(single, "active")

	// The lower thresholds come first: what holds from the beginning is to be found well before.
	transaction := a.lowered(alert.TransactionForgotten, 20)
	lag := a.lowered(alert.ReplicaLags, 5)
	connections := a.lowered(alert.ConnectionsNearlyAll, 95)
	archive := a.lowered(alert.ArchiveBehind, 20)
	usage := a.metric(single, "disk_usage")
	disk := a.lowered(alert.DiskNearlyFull, usage+0.15)

	ends := []func(){a.forgets(three), a.lags(three), a.stopsArchiving(single), a.fills(single), a.connects(three)}
	for _, r := range []alert.Rule{transaction, lag, connections, archive, disk} {
		a.becomes(r, false)
	}
	s.Kill() // what is open stays open, and is opened by nobody else
	s.Start()
	for _, end := range ends {
		end()
	}
	for _, r := range []alert.Rule{transaction, lag, connections, archive, disk} {
		a.becomes(r, true)
	}
	a.mailed(10)
}

// mailed demands that there have been so many mails, and no more.
func (a *alarmed) mailed(want int) {
	a.t.Helper()
	if n := len(a.box.Mails()); n != want {
		a.t.Errorf("%d mails, not %d", n, want)
		for _, m := range a.box.Mails() {
			a.t.Log(m.Subject)
		}
	}
}

// TestAlertsOfMariaDBThorough is TestAlerts for what servers of MariaDB tell in a way of their own; enginetest proves what is measured.
func TestAlertsOfMariaDBThorough(t *testing.T) {
	t.Parallel()
	a := newAlarmed(t, "")
	s := a.s
	spec := harness.Small("single", mariadb)
	spec["allow_list"] = []string{"127.0.0.0/8"}
	single := s.AwaitStatus(s.Create(spec), "active")
	transaction := a.lowered(alert.TransactionForgotten, 20)
	connections := a.lowered(alert.ConnectionsNearlyAll, 95)
	disk := a.lowered(alert.DiskNearlyFull, a.metric(single, "disk_usage")+0.15)
	ends := []func(){a.forgets(single), a.fillsMariaDB(single), a.connects(single)}
	for _, r := range []alert.Rule{transaction, connections, disk} {
		a.becomes(r, false)
	}
	for _, end := range ends {
		end()
	}
	for _, r := range []alert.Rule{transaction, connections, disk} {
		a.becomes(r, true)
	}
	a.mailed(6)
}

// metric is the latest value of a database's metric.
func (a *alarmed) metric(d harness.Database, name string) (last float64) {
	a.t.Helper()
	a.s.Eventually(name+" is measured", func() error {
		var found struct {
			Metrics []struct{ Values []*float64 } `json:"metrics"`
		}
		a.call("GET", d.Path()+"/metrics?step=10&metric="+name, nil, &found)
		for _, v := range found.Metrics[0].Values {
			if v != nil {
				last = *v
			}
		}
		if last == 0 {
			return fmt.Errorf("nothing yet")
		}
		return nil
	})
	return last
}

// forgets leaves a transaction open that has written.
func (a *alarmed) forgets(d harness.Database) (end func()) {
	a.t.Helper()
	db := a.s.MustConnect(d, a.s.Credentials(d))
	exec1(a.t, db, "CREATE TABLE forgotten (n int PRIMARY KEY)")
	tx, err := db.BeginTx(a.t.Context(), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := tx.ExecContext(a.t.Context(), "INSERT INTO forgotten VALUES (1)"); err != nil {
		a.t.Fatal(err)
	}
	return func() { _ = tx.Rollback() } // the session ends all the same
}

// lags stands the process still by which a replica applies what it receives.
func (a *alarmed) lags(d harness.Database) (end func()) {
	a.t.Helper()
	nodes, err := a.s.Nodes(d)
	if err != nil {
		a.t.Fatal(err)
	}
	applier := 0
	for _, n := range nodes {
		if n.Role == "primary" {
			continue
		}
		for _, pid := range harness.Descendants(n.Pid) {
			command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may have ended
			// A session that logs in is one of "postgres [local] startup".
			if strings.Contains(string(command), ": startup ") {
				applier = pid
			}
		}
	}
	if applier == 0 {
		a.t.Fatalf("no replica applies anything: %+v", nodes)
	}
	if err := syscall.Kill(applier, syscall.SIGSTOP); err != nil {
		a.t.Fatal(err)
	}
	primary := a.s.MustConnect(d, a.s.Credentials(d))
	exec1(a.t, primary, "CREATE TABLE lagging (n int PRIMARY KEY)")
	return func() {
		if err := syscall.Kill(applier, syscall.SIGCONT); err != nil {
			a.t.Error(err)
		}
	}
}

// stopsArchiving has the folder of the archive be one that nothing can be written into.
func (a *alarmed) stopsArchiving(d harness.Database) (end func()) {
	a.t.Helper()
	a.s.Snapshot(d, "first", "primary")
	dir := filepath.Join(a.s.Data, "backups", "clusters", fmt.Sprint(d.ID), "wal")
	if err := os.Rename(dir, dir+".aside"); err != nil && !os.IsNotExist(err) {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		a.t.Fatal(err)
	}
	db := a.s.MustConnect(d, a.s.Credentials(d))
	exec1(a.t, db, "CREATE TABLE archived (n int)")
	exec1(a.t, db, "INSERT INTO archived VALUES (1)")
	return func() {
		if err := os.Remove(dir); err != nil {
			a.t.Fatal(err)
		}
		if err := os.Rename(dir+".aside", dir); err != nil && !os.IsNotExist(err) {
			a.t.Fatal(err)
		}
	}
}

// fills writes what isn't in the log, so that it is gone when it is dropped.
func (a *alarmed) fills(d harness.Database) (end func()) {
	a.t.Helper()
	db := a.s.MustConnect(d, a.s.Credentials(d))
	exec1(a.t, db, "CREATE UNLOGGED TABLE filled (t text)")
	exec1(a.t, db, "ALTER TABLE filled ALTER t SET STORAGE EXTERNAL")
	for range 4 {
		exec1(a.t, db, "INSERT INTO filled SELECT repeat('x', 1000000) FROM generate_series(1, 20)")
	}
	return func() { exec1(a.t, db, "DROP TABLE filled") }
}

// fillsMariaDB has the server work out what fills the disk, of which its log has the statement alone: what is in the log stays when the tables are dropped.
func (a *alarmed) fillsMariaDB(d harness.Database) (end func()) {
	a.t.Helper()
	const tables = 4
	db := a.s.MustConnect(d, a.s.Credentials(d))
	for i := range tables {
		exec1(a.t, db, fmt.Sprintf("CREATE TABLE filled_%d (n int PRIMARY KEY)", i))
		exec1(a.t, db, fmt.Sprintf("INSERT INTO filled_%d WITH RECURSIVE rows_ AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM rows_ WHERE n < 20) SELECT n FROM rows_", i))
		exec1(a.t, db, fmt.Sprintf("ALTER TABLE filled_%d ADD t longtext AS (REPEAT('x', 1000000)) STORED", i))
	}
	return func() {
		for i := range tables {
			exec1(a.t, db, fmt.Sprintf("DROP TABLE filled_%d", i))
		}
	}
}

// connects takes all connections but one or two, from as many addresses as that needs.
func (a *alarmed) connects(d harness.Database) (end func()) {
	a.t.Helper()
	credentials := a.s.Credentials(d)
	most := int(a.metric(d, "connections_max")) / d.ClusterSize
	open := int(a.metric(d, "connections"))
	a.t.Logf("%d connections of %d", open, most)
	var all []*sql.DB
	for i := 0; len(all)+3 < most*97/100+1; i++ {
		ctx, cancel := context.WithTimeout(a.t.Context(), 10*time.Second)
		db, err := harness.Connect(ctx, d, credentials, fmt.Sprintf("127.0.0.%d", 1+i%8))
		cancel()
		if err != nil {
			a.t.Logf("after %d connections: %v", len(all), err)
			break
		}
		all = append(all, db)
	}
	return func() {
		for _, db := range all {
			_ = db.Close() // the server ends them all the same
		}
	}
}
