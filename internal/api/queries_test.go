package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/insight"
	"steward/internal/platform/memplatform"
)

func TestRunningQueries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	path := fmt.Sprintf("/v4/databases/postgresql/instances/%d/queries/running", id)
	if r := b.send("GET", path, b.readOnly, ""); r.StatusCode != 400 || !strings.Contains(r.body, "provisioning; it can be looked into when it is active") {
		t.Errorf("before it is provisioned: %d %s", r.StatusCode, r.body)
	}
	session := func(pid int64, age time.Duration, blockedBy ...int64) insight.Session {
		return insight.Session{
			SessionID: insight.SessionID{Node: 1, Pid: pid, Started: 1700000000000000 + pid}, User: "app", Database: "defaultdb", Client: "192.0.2.1",
			State: insight.Active, Age: age, Text: "select ?", BlockedBy: blockedBy,
		}
	}
	old, blocked, blocker, young := session(1, time.Hour), session(2, time.Minute, 3), session(3, time.Second), session(4, time.Millisecond)
	blocker.State, blocker.Transaction = insight.IdleInTransaction, new(2*time.Minute)
	b.behind(id, func(c *memplatform.Cluster) {
		c.Inside.Sessions = insight.Sessions{List: []insight.Session{young, old, blocked, blocker}, Idle: 7, Unreachable: []int{2}}
	})
	var found struct {
		Sleeping    bool
		Idle        int
		Unreachable []int `json:"unreachable_nodes"`
		Data        []struct {
			ID        string
			Pid       int64
			State     string
			BlockedBy []int64 `json:"blocked_by"`
		}
	}
	b.decode(b.send("GET", path, b.readOnly, ""), &found)
	var order []int64
	for _, s := range found.Data {
		order = append(order, s.Pid)
	}
	if fmt.Sprint(order, found.Idle, found.Unreachable, found.Sleeping) != "[3 2 1 4] 7 [2] false" || fmt.Sprint(found.Data[1].BlockedBy) != "[3]" {
		t.Errorf("%+v", found)
	}
	end := func(token, session, mode string, want int) {
		t.Helper()
		if r := b.send("DELETE", path+"/"+session+mode, token, ""); r.StatusCode != want {
			t.Errorf("end %s%s: %d %s, want %d", session, mode, r.StatusCode, r.body, want)
		}
	}
	end(b.readOnly, found.Data[0].ID, "", 401)
	end(b.restricted, found.Data[0].ID, "", 404)
	b.grant(id, "read_only")
	end(b.restricted, found.Data[0].ID, "", 403)
	end(b.full, found.Data[0].ID, "?mode=kill", 400)
	recycled := blocker.SessionID
	recycled.Started++
	for _, other := range []string{"3", "x", "1-3", recycled.String(), "1-03-" + strings.Split(found.Data[0].ID, "-")[2], "9-9-9"} {
		end(b.full, other, "", 404)
	}
	end(b.full, found.Data[0].ID, "?mode=end", 200)
	end(b.full, found.Data[1].ID, "", 200)
	end(b.full, found.Data[1].ID, "", 404)
	c, _ := b.world.Cluster(cluster.ID(id))
	if got, _ := json.Marshal(c.Inside.Ended); string(got) != fmt.Sprintf(`["end %s","cancel %s"]`, blocker.SessionID, blocked.SessionID) {
		t.Errorf("ended: %s", got)
	}
	b.behind(id, func(c *memplatform.Cluster) { c.Running, c.SleepingSince = false, time.Now() })
	found.Data = nil
	if b.decode(b.send("GET", path, b.readOnly, ""), &found); !found.Sleeping || len(found.Data) != 0 {
		t.Errorf("asleep: %+v", found)
	}
}
