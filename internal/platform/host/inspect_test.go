package host_test

import (
	"strings"

	"steward/internal/await"
	"steward/internal/insight"
)

// looksInside looks into three nodes of real servers, beside what customers do.
func (h *threeNodes) looksInside() {
	h.healthy()
	id := h.want.ID
	conn, err := h.load.connect(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.close()
	for _, statement := range []string{"BEGIN", "INSERT INTO written VALUES (1001, 'hunter2')"} {
		if err := conn.exec(h.t.Context(), statement); err != nil {
			h.t.Fatal(err)
		}
	}
	var open insight.Session
	await.True(h.t, "a transaction that is open is seen", func() bool {
		found, err := h.driver.Sessions(h.t.Context(), id)
		if err != nil || len(found.Unreachable) > 0 || found.Sleeping {
			h.t.Fatalf("%+v, %v", found, err)
		}
		for _, s := range found.List {
			if strings.Contains(s.Text, "hunter2") || strings.HasPrefix(s.User, "steward") {
				h.t.Fatalf("seen: %+v", s)
			}
			if s.State == insight.IdleInTransaction {
				open = s
			}
		}
		return open.Pid != 0
	})
	wrong := open.SessionID
	wrong.Node = 7
	for _, other := range []insight.SessionID{wrong, {Node: open.Node, Pid: open.Pid, Started: open.Started - 1000}} {
		if err := h.driver.EndSession(h.t.Context(), id, other, insight.End); err == nil {
			h.t.Errorf("%s was ended", other)
		}
	}
	if err := h.driver.EndSession(h.t.Context(), id, open.SessionID, insight.End); err != nil {
		h.t.Errorf("end: %v", err)
	}
	await.True(h.t, "the session ends", func() bool { return conn.exec(h.t.Context(), "SELECT 1") != nil })
	counted, err := h.driver.Statements(h.t.Context(), id, insight.ByTotalTime, 0, 100)
	if err != nil || counted.Missing != "" || counted.Count == 0 {
		h.t.Errorf("counted: %+v, %v", counted, err)
	}
	plan, err := h.driver.Plan(h.t.Context(), id, "defaultdb", "SELECT * FROM written")
	if err != nil || plan.Refused != "" || !strings.Contains(string(plan.JSON), "written") {
		h.t.Errorf("plan: %+v, %v", plan, err)
	}
	lines, err := h.driver.Logs(h.t.Context(), id, insight.LogQuery{Least: insight.Info, Most: 100})
	nodes := map[int]bool{}
	for _, l := range lines {
		nodes[l.Node] = true
		if strings.Contains(l.Text, "/clusters/") || strings.Contains(l.Text, "steward@") || l.Ours {
			h.t.Errorf("logged: %+v", l)
		}
	}
	if err != nil || len(nodes) != 3 {
		h.t.Errorf("%d lines of the nodes %v, %v", len(lines), nodes, err)
	}
}
