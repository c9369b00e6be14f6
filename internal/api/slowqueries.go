package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"steward/internal/cluster"
	"steward/internal/fault"
)

// slowView is a page of statements that took long.
type slowView struct {
	Threshold *float64            `json:"threshold" doc:"Seconds that a statement takes before it is logged, as the database's engine_config has it; null when none are."`
	Missing   *string             `json:"missing" doc:"Why none are logged, and what to do about it; null when they are."`
	Data      []slowStatementView `json:"data" nullable:"false"`
	Next      *string             `json:"next_page_token" doc:"Sent as page_token it is the next page; null after the oldest one. With order oldest there always is one."`
}

// slowStatementView is a statement that took long.
type slowStatementView struct {
	Time     string  `json:"time" format:"date-time" doc:"When it ended; with MySQL, when it began."`
	Node     int     `json:"node"`
	Duration float64 `json:"duration" doc:"Seconds."`
	User     string  `json:"user"`
	Database *string `json:"database"`
	Query    string  `json:"query" doc:"Without values and comments; it ends with an ellipsis where there is more of it."`
}

// slowListing are the parameters of the list.
type slowListing struct {
	LogListing
	Duration float64 `query:"min_duration" minimum:"0" maximum:"86400" doc:"Statements that took so many seconds at least."`
}

// registerSlowQueries adds the operation for databases of one engine.
func (a *API) registerSlowQueries(engine cluster.Engine, name string) {
	register(a, endpoint{
		method: http.MethodGet, path: fmt.Sprintf("/v4/databases/%s/instances/{instanceId}/queries/slow", engine), id: "listSlowQueriesOf" + name + "Database",
		summary: "List statements that took long", tag: name + " databases", scope: readDatabases,
	}, func(ctx context.Context, c call[slowListing, none]) (slowView, error) {
		if err := c.In.refuse(); err != nil {
			return slowView{}, err
		}
		var faults fault.Faults
		q := c.In.query(&faults)
		q.Slow, q.Took = true, time.Duration(c.In.Duration*float64(time.Second))
		found, err := a.Control.Logs.Slow(ctx, c.Principal, engine, cluster.ID(c.In.ID), q, faults)
		v := slowView{Missing: textOrNull(found.Missing), Data: make([]slowStatementView, len(found.List)), Next: textOrNull(found.Next.String())}
		if found.Missing == "" {
			v.Threshold = new(found.Threshold.Seconds())
		}
		for i, l := range found.List {
			v.Data[i] = slowStatementView{showTime(l.Time), l.Node, roundedSeconds(l.Slow.Took), l.Slow.User, textOrNull(l.Slow.Database), l.Slow.Text}
		}
		return v, err
	})
}
