package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/insight"
)

// statementsView is a page of what a server has counted.
type statementsView struct {
	Sleeping bool            `json:"sleeping" doc:"No server runs until somebody connects. Looking doesn't wake it."`
	Missing  *string         `json:"missing" doc:"Why no statements are counted, and what to do about it; null when they are."`
	Data     []statementView `json:"data" nullable:"false"`
	Page     int             `json:"page"`
	Pages    int             `json:"pages"`
	Results  int             `json:"results"`
}

// statementView is what is counted of statements that differ in their values only.
type statementView struct {
	ID       string  `json:"query_id"`
	Query    string  `json:"query" doc:"Without values and comments; it ends with an ellipsis where there is more of it."`
	User     *string `json:"user" doc:"Null where the server doesn't tell: MySQL and MariaDB."`
	Database *string `json:"database"`
	Calls    int64   `json:"calls"`
	Rows     int64   `json:"rows"`
	Total    float64 `json:"total_time" doc:"Seconds."`
	Mean     float64 `json:"mean_time" doc:"Seconds a call."`
	Share    float64 `json:"share" doc:"Its part of the time of all statements, 0 to 1."`
}

func showStatement(s insight.Statement) statementView {
	return statementView{
		s.ID, s.Text, textOrNull(s.User), textOrNull(s.Database), s.Calls, s.Rows, roundedSeconds(s.Total), roundedSeconds(s.Mean), float64(int64(s.Share*1e4+0.5)) / 1e4,
	}
}

// roundedSeconds is a time in seconds, to the microsecond.
func roundedSeconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Second)
}

// statementListing are the parameters of the list.
type statementListing struct {
	ID    int64  `path:"instanceId" minimum:"1" doc:"The database."`
	Order string `query:"order_by" enum:"total_time,calls,mean,rows" default:"total_time" doc:"The greatest come first."`
	Unfiltered
	Paging
}

// planBody asks for a plan.
type planBody struct {
	Database *string `json:"database,omitempty" doc:"The logical database; for a query_id, the statement's when left out."`
	Query    *string `json:"query,omitempty" doc:"One statement. It may have parameters, as $1, with PostgreSQL."`
	QueryID  *string `json:"query_id,omitempty" maxLength:"64" doc:"A statement of the statistics; PostgreSQL only."`
}

// planView is how a server would carry out a statement.
type planView struct {
	Plan json.RawMessage `json:"plan" doc:"As the server's EXPLAIN describes it in JSON."`
}

// registerStatements adds the operations on what databases of one engine have done.
func (a *API) registerStatements(engine cluster.Engine, name string) {
	queries := a.Control.Queries
	one := fmt.Sprintf("/v4/databases/%s/instances/{instanceId}/queries", engine)
	register(a, endpoint{
		method: http.MethodGet, path: one + "/statistics", id: "listStatementsOf" + name + "Database", summary: "List what statements have cost",
		tag: name + " databases", scope: readDatabases,
	}, func(ctx context.Context, c call[statementListing, none]) (statementsView, error) {
		if err := c.In.refuse(); err != nil {
			return statementsView{}, err
		}
		found, err := queries.Statements(ctx, c.Principal, engine, cluster.ID(c.In.ID), insight.StatementOrder(c.In.Order), c.In.page())
		page := newList(found.List, found.Count, c.In.Paging, showStatement)
		return statementsView{found.Sleeping, textOrNull(found.Missing), page.Data, page.Page, page.Pages, page.Results}, err
	})
	register(a, endpoint{
		method: http.MethodPost, path: one + "/statistics/reset", id: "resetStatementsOf" + name + "Database", summary: "Count statements anew",
		tag: name + " databases", scope: writeDatabases,
	}, func(ctx context.Context, c call[instancePath, none]) (empty, error) {
		return empty{}, queries.ResetStatements(ctx, c.Principal, engine, cluster.ID(c.In.ID))
	})
	register(a, endpoint{
		method: http.MethodPost, path: one + "/plan", id: "planStatementOf" + name + "Database", summary: "View the plan of a statement, without carrying it out",
		tag: name + " databases", scope: writeDatabases,
	}, func(ctx context.Context, c call[instancePath, planBody]) (planView, error) {
		in := control.AskedPlan{Database: c.Body.Database, Query: c.Body.Query, QueryID: c.Body.QueryID}
		found, err := queries.Plan(ctx, c.Principal, engine, cluster.ID(c.In.ID), in, c.Faults)
		return planView{found.JSON}, err
	})
}
