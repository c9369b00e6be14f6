package e2e

import (
	"database/sql"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"

	"steward/test/harness"
)

// TestThreeNodes is the life of a cluster of three as its customer sees it.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	s := harness.New(t, ofPostgreSQL)
	for _, c := range []threeCase{
		{
			engine: "postgresql/15", options: map[string]any{"replication_commit_type": "remote_apply"},
			where: "SELECT host(inet_server_addr())", synchronous: "SELECT current_setting('synchronous_commit') || ' ' || current_setting('synchronous_standby_names')",
			shows: "remote_apply ANY 1 (node0, node1, node2)",
		},
		{
			engine: "mysql/10.11", options: map[string]any{"replication_type": "semi_synch"},
			where: "SELECT @@server_id", synchronous: "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Rpl_semi_sync_master_status'",
			shows: "ON",
		},
	} {
		if all() || c.engine == postgresql {
			t.Run(strings.ReplaceAll(c.engine, "/", "-"), func(t *testing.T) { threeNodes(t, s, c) })
		}
	}
}

type threeCase struct {
	engine  string
	options map[string]any
	// where asks a server who it is; synchronous, whether commits wait for a replica.
	where, synchronous, shows string
}

func threeNodes(t *testing.T, s *harness.Server, c threeCase) {
	spec := harness.Small("three-"+strings.SplitN(c.engine, "/", 2)[0], c.engine)
	spec["cluster_size"] = 3
	maps.Copy(spec, c.options)
	d := s.CreateActive(spec)
	credentials := s.Credentials(d)
	roles := map[string]int{}
	for _, role := range d.Members {
		roles[role]++
	}
	if len(d.Members) != 3 || roles["primary"] != 1 || roles["failover"] != 2 {
		t.Errorf("members: %v", d.Members)
	}
	db := s.MustConnect(d, credentials)
	if got := one(t, db, c.synchronous); got != c.shows {
		t.Errorf("the server shows %q, want %q", got, c.shows)
	}
	exec1(t, db, "CREATE TABLE kept (n int PRIMARY KEY)")
	exec1(t, db, "INSERT INTO kept VALUES (1)")
	primary := one(t, db, c.where)

	reads(t, s, d, credentials, c, primary)
	chosen := reconfigured(t, s, d, credentials)
	user := madeUser(t, s, d, credentials)
	failsOver(t, s, d, credentials)
	s.MustConnect(d, user)
	chosen.inForce(t, s, d, credentials)
	switchesOver(t, s, d, credentials, c)
	restsAndResumes(t, s, d, credentials)
	chosen.inForce(t, s, d, credentials)
}

// madeUser is a user that the API made, who is on the replicas soon.
func madeUser(t *testing.T, s *harness.Server, d harness.Database, credentials harness.Credentials) harness.Credentials {
	t.Helper()
	made := harness.Credentials{CA: credentials.CA}
	body := map[string]any{"username": "app", "grants": []map[string]any{{"database": "defaultdb", "privilege": "read"}}}
	if status, text := s.Call("POST", d.Path()+"/users", body, &made); status != 200 {
		t.Fatalf("create a user: %d %s", status, text)
	}
	secondary := d
	secondary.Hosts.Primary = d.Hosts.Secondary
	s.MustConnect(secondary, made)
	return made
}

// reads: the secondary address leads to both replicas, which take no writes.
func reads(t *testing.T, s *harness.Server, d harness.Database, credentials harness.Credentials, c threeCase, primary string) {
	t.Helper()
	secondary := d
	secondary.Hosts.Primary = d.Hosts.Secondary
	var all []*sql.DB
	seen := map[string]bool{}
	for range 4 {
		db := s.MustConnect(secondary, credentials)
		all = append(all, db) // the gateway prefers the server with fewer connections
		seen[one(t, db, c.where)] = true
	}
	if len(seen) != 2 || seen[primary] {
		t.Errorf("reads came from %v, the primary is %s", seen, primary)
	}
	if _, err := all[0].ExecContext(t.Context(), "INSERT INTO kept VALUES (99)"); err == nil {
		t.Error("a replica took a write")
	}
	s.Eventually("the row is on the replica", func() error {
		var n int
		return all[0].QueryRowContext(t.Context(), "SELECT n FROM kept").Scan(&n)
	})
}

// failsOver: the addresses stay, the data too, and events tell of it.
func failsOver(t *testing.T, s *harness.Server, d harness.Database, credentials harness.Credentials) {
	t.Helper()
	killed := s.Primary(d).Pid
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	after := s.AwaitHealthy(d, 3, killed)
	if after.Hosts != d.Hosts || after.Port != d.Port {
		t.Errorf("the addresses changed from %v to %v", d.Hosts, after.Hosts)
	}
	db := s.MustConnect(after, credentials)
	exec1(t, db, "INSERT INTO kept VALUES (2)")
	if got := one(t, db, "SELECT count(*) FROM kept"); got != "2" {
		t.Errorf("%s rows after the failover, want 2", got)
	}
	s.Eventually("the event", func() error {
		events := s.Events()
		for _, e := range events {
			if e.Action == "database_failover" && e.Entity.ID == d.ID && strings.Contains(e.Message, "took over") {
				return nil
			}
		}
		return fmt.Errorf("no database_failover among %d events", len(events))
	})
}

// switchesOver: another server takes the writes once that was asked for.
func switchesOver(t *testing.T, s *harness.Server, d harness.Database, credentials harness.Credentials, c threeCase) {
	t.Helper()
	before := one(t, s.MustConnect(d, credentials), c.where)
	if status, body := s.Call("POST", d.Path()+"/switchover", nil, nil); status != 200 || strings.TrimSpace(body) != "{}" {
		t.Fatalf("switchover: %d %s", status, body)
	}
	s.AwaitStatus(d, "active")
	if after := one(t, s.MustConnect(d, credentials), c.where); after == before {
		t.Errorf("%s is still the primary", after)
	}
}

// restsAndResumes: while suspended nothing runs and nobody gets in.
func restsAndResumes(t *testing.T, s *harness.Server, d harness.Database, credentials harness.Credentials) {
	t.Helper()
	if status, body := s.Call("POST", d.Path()+"/suspend", nil, nil); status != 200 {
		t.Fatalf("suspend: %d %s", status, body)
	}
	s.AwaitStatus(d, "suspended")
	nodes, err := s.Nodes(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Running {
			t.Errorf("runs while suspended: %+v", n)
		}
	}
	if err := query(d, credentials); err == nil {
		t.Error("a suspended database lets in")
	}
	if status, _ := s.Call("GET", d.Path()+"/credentials", nil, nil); status != 400 {
		t.Errorf("credentials of a suspended database: %d", status)
	}
	if status, body := s.Call("POST", d.Path()+"/resume", nil, nil); status != 200 {
		t.Fatalf("resume: %d %s", status, body)
	}
	s.AwaitStatus(d, "active")
	if got := one(t, s.MustConnect(d, credentials), "SELECT count(*) FROM kept"); got != "2" {
		t.Errorf("%s rows after the resume, want 2", got)
	}
}
