package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"steward/internal/cluster"
	"steward/internal/insight"
)

// runningView is what a database is doing.
type runningView struct {
	Sleeping    bool          `json:"sleeping" doc:"No server runs until somebody connects. Looking doesn't wake it."`
	Idle        int           `json:"idle" doc:"Sessions that do nothing, which aren't listed."`
	Unreachable []int         `json:"unreachable_nodes" nullable:"false" doc:"Nodes that didn't answer, whose sessions are missing."`
	Data        []sessionView `json:"data" nullable:"false" doc:"Those first that block others, then those that wait for them, then the oldest. 500 of each node at most."`
}

// sessionView is a session that does something.
type sessionView struct {
	ID          string   `json:"id" doc:"Names the session for good, to cancel or end it: a pid is given to others later."`
	Pid         int64    `json:"pid"`
	Node        int      `json:"node"`
	User        string   `json:"user"`
	Database    *string  `json:"database"`
	Client      *string  `json:"client" doc:"The address it comes from, as the server sees it."`
	State       string   `json:"state" enum:"active,idle in transaction,idle in transaction (aborted)"`
	Age         float64  `json:"age" doc:"Seconds for which the state has lasted: since the statement began, or since the session has been idle."`
	Transaction *float64 `json:"transaction_age" doc:"Seconds for which its transaction is open; null for none."`
	Wait        *string  `json:"wait" doc:"What it waits for, in the server's words; null when it waits for nothing."`
	Query       string   `json:"query" doc:"The statement, the last one of a session that is idle. Values and comments are left out; it ends with an ellipsis where there is more of it."`
	BlockedBy   []int64  `json:"blocked_by" nullable:"false" doc:"Pids of listed sessions, on the same node, that it waits for. MySQL doesn't tell."`
}

// textOrNull is a text, null for none.
func textOrNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func showSession(s insight.Session) sessionView {
	v := sessionView{
		ID: s.SessionID.String(), Pid: s.Pid, Node: s.Node, User: s.User, Database: textOrNull(s.Database), Client: textOrNull(s.Client), State: string(s.State),
		Age: seconds(s.Age), Wait: textOrNull(s.Wait), Query: s.Text, BlockedBy: append([]int64{}, s.BlockedBy...),
	}
	if s.Transaction != nil {
		v.Transaction = new(seconds(*s.Transaction))
	}
	return v
}

// sessionPath names a session, and how it is to end.
type sessionPath struct {
	ID      int64  `path:"instanceId" minimum:"1" doc:"The database."`
	Session string `path:"queryId" minLength:"1" maxLength:"64" doc:"The session's id, from the list."`
	Mode    string `query:"mode" enum:"cancel,end" default:"cancel" doc:"cancel: what it does ends, and it stays. end: the session ends."`
}

// registerQueries adds the operations on what databases of one engine do.
func (a *API) registerQueries(engine cluster.Engine, name string) {
	queries := a.Control.Queries
	one := fmt.Sprintf("/v4/databases/%s/instances/{instanceId}/queries", engine)
	register(a, endpoint{
		method: http.MethodGet, path: one + "/running", id: "listRunningQueriesOf" + name + "Database", summary: "List what a database's sessions are doing",
		tag: name + " databases", scope: readDatabases,
	}, func(ctx context.Context, c call[unfilteredInstance, none]) (runningView, error) {
		if err := c.In.refuse(); err != nil {
			return runningView{}, err
		}
		found, err := queries.Running(ctx, c.Principal, engine, cluster.ID(c.In.ID))
		v := runningView{Sleeping: found.Sleeping, Idle: found.Idle, Unreachable: append([]int{}, found.Unreachable...), Data: make([]sessionView, len(found.List))}
		for i, s := range found.List {
			v.Data[i] = showSession(s)
		}
		return v, err
	})
	register(a, endpoint{
		method: http.MethodDelete, path: one + "/running/{queryId}", id: "endRunningQueryOf" + name + "Database", summary: "Cancel what a session does, or end it",
		tag: name + " databases", scope: writeDatabases,
	}, func(ctx context.Context, c call[sessionPath, none]) (empty, error) {
		how := insight.EndMode(cmp.Or(c.In.Mode, string(insight.Cancel)))
		return empty{}, queries.End(ctx, c.Principal, engine, cluster.ID(c.In.ID), c.In.Session, how)
	})
}
