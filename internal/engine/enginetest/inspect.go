package enginetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/engine"
	"steward/internal/insight"
)

// tablesKept is for how long after a look InnoDB shows the transactions that it showed then: who looks
// sooner again and again sees none that began meanwhile.
const tablesKept = 110 * time.Millisecond

// aSecret stands in statements as a value.
const aSecret = "hunter2"

// sessionsSeen has one session wait for another's lock: both are seen, without what is in their statements,
// and can be told to stop.
func sessionsSeen(t *testing.T, s *Server) {
	driver, n := s.Bench.Driver, s.Node
	s.Exec(t, `CREATE TABLE sessions_seen (id int PRIMARY KEY, v varchar(20))`, "INSERT INTO sessions_seen VALUES (1, 'x')")
	holder, waiter, idle := s.session(t), s.session(t), s.session(t)
	if !idle.alive(t) {
		t.Fatal("a session doesn't work")
	}
	for _, q := range []string{"BEGIN", "UPDATE sessions_seen SET v = '" + aSecret + "' WHERE id = 1"} {
		_, err := holder.ExecContext(t.Context(), q)
		must(t, err, q)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := waiter.ExecContext(t.Context(), "UPDATE sessions_seen SET v = '"+aSecret+"' /* "+aSecret+" */ WHERE id = 1")
		ended <- err
	}()
	find := func(state insight.State) (found insight.Session) {
		t.Helper()
		await.True(t, "a session is seen "+string(state), func() bool {
			time.Sleep(tablesKept)
			list, idle, err := driver.Sessions(t.Context(), n)
			must(t, err, "look at sessions")
			for _, one := range list {
				if strings.Contains(one.Text, aSecret) || one.User != "dbadmin" {
					t.Fatalf("seen: %+v", one)
				}
			}
			i := slices.IndexFunc(list, func(one insight.Session) bool {
				return one.State == state && (state == insight.IdleInTransaction || strings.HasPrefix(one.Text, "UPDATE sessions_seen SET v = ? WHERE id = ?"))
			})
			if i >= 0 {
				found = list[i]
			}
			return i >= 0 && idle >= 1
		})
		return found
	}
	waits, holds := find(insight.Active), find(insight.IdleInTransaction)
	if waits.Transaction == nil || holds.Transaction == nil || waits.Database == "" || waits.Client == "" || waits.Wait == "" && n.Installation.Flavour != engine.FlavourMariaDB {
		t.Errorf("waits: %+v\nholds: %+v", waits, holds)
	}
	await.True(t, "who blocks whom is seen", func() bool { return slices.Equal(find(insight.Active).BlockedBy, []int64{holds.Pid}) })
	recycled := waits.SessionID
	recycled.Started -= 100
	for _, other := range []insight.SessionID{recycled, {Pid: 1 << 40, Started: waits.Started}} {
		if there, err := driver.EndSession(t.Context(), n, other, insight.End); there || err != nil {
			t.Errorf("a session that isn't there ends: %v, %v", there, err)
		}
	}
	end := func(id insight.SessionID, how insight.EndMode) {
		t.Helper()
		if there, err := driver.EndSession(t.Context(), n, id, how); !there || err != nil {
			t.Fatalf("%s: %v, %v", how, there, err)
		}
	}
	end(waits.SessionID, insight.Cancel)
	if err := <-ended; err == nil {
		t.Error("what was cancelled went on")
	}
	if !waiter.alive(t) {
		t.Error("the session whose statement was cancelled is gone")
	}
	end(holds.SessionID, insight.End)
	await.True(t, "the session ends", func() bool { return !holder.alive(t) })
	s.Exec(t, "DROP TABLE sessions_seen")
}
