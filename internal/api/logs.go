package api

import (
	"context"
	"net/http"
	"strconv"

	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/insight"
)

// logsView is a page of what servers have written.
type logsView struct {
	Data []logLineView `json:"data" nullable:"false"`
	Next *string       `json:"next_page_token" doc:"Sent as page_token it is the next page; null after the oldest line. With order oldest there always is one, for what will be written."`
}

// logLineView is one entry.
type logLineView struct {
	Time     string `json:"time" format:"date-time"`
	Node     int    `json:"node"`
	Severity string `json:"severity" enum:"info,warning,error,fatal" doc:"fatal: a session, or the server, ended by it."`
	Message  string `json:"message" doc:"Without control characters; cut at 4 KiB."`
}

// LogListing are the parameters of what is read from logs.
type LogListing struct {
	ID    int64  `path:"instanceId" minimum:"1" doc:"The database."`
	From  string `query:"from" doc:"Nothing before this time."`
	To    string `query:"to" doc:"Nothing after this time."`
	Node  string `query:"node" doc:"Of this node only."`
	Text  string `query:"text" maxLength:"200" doc:"What has this text only, in either case."`
	Order string `query:"order" enum:"newest,oldest" default:"newest" doc:"Which come first."`
	Token string `query:"page_token" maxLength:"100" doc:"next_page_token of the page before."`
	Size  int    `query:"page_size" minimum:"25" maximum:"500" default:"100" doc:"How many on a page."`
	Unfiltered
}

// logLines are the parameters of the logs.
type logLines struct {
	LogListing
	Severity string `query:"severity" enum:"info,warning,error,fatal" default:"info" doc:"No lines that are less severe."`
}

// query is what is asked for; faults gets what is wrong with it.
func (l LogListing) query(faults *fault.Faults) insight.LogQuery {
	q := insight.LogQuery{Least: insight.Info, Text: l.Text, Oldest: l.Order == "oldest", Most: l.Size}
	if l.From != "" {
		if at := parseTime("from", &l.From, faults); at != nil {
			q.From = *at
		}
	}
	if l.To != "" {
		if at := parseTime("to", &l.To, faults); at != nil {
			q.To = *at
		}
	}
	if l.Node != "" {
		node, err := strconv.Atoi(l.Node)
		if err != nil {
			faults.Add("node", "Must be a node's number")
		} else {
			q.Node = &node
		}
	}
	var ok bool
	if q.After, ok = insight.ParseLogToken(l.Token); !ok {
		faults.Add("page_token", "Must be the next_page_token of another page")
	}
	return q
}

// registerLogs adds the operation for databases of one engine.
func (a *API) registerLogs(engine cluster.Engine, name string) {
	register(a, endpoint{
		method: http.MethodGet, path: "/v4/databases/" + string(engine) + "/instances/{instanceId}/logs", id: "listLogsOf" + name + "Database",
		summary: "List what a database's servers have logged", tag: name + " databases", scope: readDatabases,
	}, func(ctx context.Context, c call[logLines, none]) (logsView, error) {
		if err := c.In.refuse(); err != nil {
			return logsView{}, err
		}
		var faults fault.Faults
		q := c.In.query(&faults)
		q.Least = insight.Severity(c.In.Severity)
		found, next, err := a.Control.Logs.List(ctx, c.Principal, engine, cluster.ID(c.In.ID), q, faults)
		v := logsView{Data: make([]logLineView, len(found)), Next: textOrNull(next.String())}
		for i, l := range found {
			v.Data[i] = logLineView{showTime(l.Time), l.Node, string(l.Severity), l.Text}
		}
		return v, err
	})
}
