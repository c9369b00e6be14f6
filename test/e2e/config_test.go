package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"steward/test/harness"
)

// configured is what is chosen for a database, and how a customer sees it in force.
type configured struct {
	config map[string]any
	// shows maps a query to what it answers then.
	shows map[string]string
}

// chosenFor are settings of which one needs a restart.
func chosenFor(engine string) configured {
	if strings.HasPrefix(engine, "mysql") {
		return configured{
			map[string]any{"mysql": map[string]any{"innodb_ft_min_token_size": 2, "sql_mode": "ANSI,TRADITIONAL", "default_time_zone": "+03:00", "wait_timeout": 900}},
			map[string]string{
				"SELECT @@GLOBAL.innodb_ft_min_token_size": "2", "SELECT @@sql_mode LIKE '%ANSI_QUOTES%'": "1", "SELECT @@time_zone": "+03:00", "SELECT @@GLOBAL.wait_timeout": "900",
			},
		}
	}
	return configured{
		map[string]any{"pg": map[string]any{"max_locks_per_transaction": 128, "timezone": "Asia/Tokyo", "deadlock_timeout": 2500}, "work_mem": 6},
		map[string]string{"SHOW max_locks_per_transaction": "128", "SHOW timezone": "Asia/Tokyo", "SHOW deadlock_timeout": "2500ms", "SHOW work_mem": "6MB"},
	}
}

// change sends other settings, waits until they are in force and returns what the
// event says of it.
func (c configured) change(t *testing.T, s *harness.Server, d harness.Database, asked map[string]any) string {
	t.Helper()
	var now harness.Database
	if status, body := s.Call("PUT", d.Path(), map[string]any{"engine_config": asked}, &now); status != 200 || now.Status != "updating" {
		t.Fatalf("engine_config: %d %s", status, body)
	}
	s.AwaitStatus(d, "active")
	for _, e := range s.Events() {
		if e.Action == "database_update" && e.Entity.ID == d.ID {
			if e.Status != "finished" {
				t.Errorf("the event is %s: %s", e.Status, e.Message)
			}
			return e.Message
		}
	}
	t.Error("no database_update")
	return ""
}

// inForce demands that every node has what is chosen, and that the API says so.
func (c configured) inForce(t *testing.T, s *harness.Server, d harness.Database, credentials harness.Credentials) {
	t.Helper()
	var view struct {
		Config map[string]any `json:"engine_config"`
	}
	_, body := s.Call("GET", d.Path(), nil, &view)
	want := map[string]any{}
	for _, section := range []string{"pg", "pglookout", "mysql"} {
		if _, there := view.Config[section]; there {
			want[section] = map[string]any{}
		}
	}
	maps.Copy(want, c.config)
	if got, want := jsonOf(t, view.Config), jsonOf(t, want); !reflect.DeepEqual(got, want) {
		t.Errorf("engine_config is %v, want %v: %s", got, want, body)
	}
	nodes := []harness.Database{d}
	if len(d.Members) == 3 {
		reads := d
		reads.Hosts.Primary = d.Hosts.Secondary
		nodes = append(nodes, reads, reads) // the gateway prefers the server with fewer connections
	}
	for _, node := range nodes {
		db := s.MustConnect(node, credentials)
		for query, want := range c.shows {
			s.Eventually(query, func() error { return answers(t, db, query, want) })
		}
	}
}

func answers(t *testing.T, db *sql.DB, query, want string) error {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var got string
	if err := db.QueryRowContext(ctx, query).Scan(&got); err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%s, want %s", got, want)
	}
	return nil
}

func jsonOf(t *testing.T, v any) (plain any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &plain)
	}
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// reconfigured changes the settings of a cluster of three while it is written to: what
// needs a restart is handed over, what doesn't restarts nothing, and less of what
// replicas must have as much of as the primary restarts the primary in place.
func reconfigured(t *testing.T, s *harness.Server, d harness.Database, credentials harness.Credentials) configured {
	t.Helper()
	c := chosenFor(d.Engine)
	before := s.Primary(d).Pid
	if said := c.change(t, s, d, c.config); !strings.Contains(said, "handed over") {
		t.Errorf("the event says %q", said)
	}
	c.inForce(t, s, d, credentials)
	after := s.Primary(d)
	if after.Pid == before {
		t.Error("the primary wasn't restarted")
	}
	live, query, want := map[string]any{"pg": map[string]any{"deadlock_timeout": 3000}}, "SHOW deadlock_timeout", "3s"
	if d.Engine == "mysql" {
		live, query, want = map[string]any{"mysql": map[string]any{"wait_timeout": 800}}, "SELECT @@GLOBAL.wait_timeout", "800"
	}
	if said := c.change(t, s, d, live); said != "" {
		t.Errorf("the event says %q of what needs no restart", said)
	}
	section := "pg"
	if d.Engine == "mysql" {
		section = "mysql"
	}
	maps.Copy(c.config[section].(map[string]any), live[section].(map[string]any))
	c.shows[query] = want
	c.inForce(t, s, d, credentials)
	if now := s.Primary(d); now.Pid != after.Pid {
		t.Error("the primary was restarted for what needs no restart")
	}
	if d.Engine == "postgresql" {
		if said := c.change(t, s, d, map[string]any{"pg": map[string]any{"max_locks_per_transaction": 80}}); !strings.Contains(said, "in place") {
			t.Errorf("the event says %q", said)
		}
		c.config["pg"].(map[string]any)["max_locks_per_transaction"] = 80
		c.shows["SHOW max_locks_per_transaction"] = "80"
		c.inForce(t, s, d, credentials)
	}
	return c
}
