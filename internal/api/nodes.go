package api

import (
	"context"
	"math"
	"net/http"
	"net/netip"

	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/operation"
)

// nodesView are the nodes of a database.
type nodesView struct {
	Sleeping      bool       `json:"sleeping" doc:"No server runs until somebody connects. Looking doesn't wake it."`
	SleepingSince *string    `json:"sleeping_since" format:"date-time" doc:"Since when it sleeps; null while it doesn't."`
	Data          []nodeView `json:"data" nullable:"false" doc:"None before the database is provisioned."`
}

// nodeView is one server process.
type nodeView struct {
	Node       int      `json:"node" doc:"Its number in the database, from 0."`
	Role       string   `json:"role" enum:"primary,replica"`
	Health     string   `json:"health" enum:"healthy,unhealthy,down,asleep,suspended" doc:"unhealthy: it runs, and doesn't serve or follow the primary."`
	Since      *string  `json:"since" format:"date-time" doc:"Since when it has this role; null when that isn't known."`
	Version    *string  `json:"version" doc:"The server's exact version; null while it doesn't run."`
	Started    *string  `json:"started" format:"date-time" doc:"When the server was started; null while it doesn't run."`
	Position   *string  `json:"position" doc:"How far it is in the stream of changes: a position in the WAL, or GTIDs. Null when alone."`
	LagSeconds *float64 `json:"lag_seconds" doc:"For how long the oldest change that it hasn't applied has waited; null for a primary, and when it doesn't follow."`
	LagBytes   *int64   `json:"lag_bytes" doc:"How much it hasn't applied yet; null for a primary, and for MySQL and MariaDB, which count transactions."`
	Address    string   `json:"address" doc:"As in members."`
}

func showNode(n control.Node) nodeView {
	v := nodeView{Node: n.Ordinal, Role: string(n.Role), Health: string(n.Health), Since: optionalTime(n.Since), Address: n.Address}
	if at, err := netip.ParseAddrPort(n.Address); err == nil {
		v.Address = at.Addr().String()
	}
	if n.Version != "" && n.Running {
		v.Version = &n.Version
	}
	if n.Running && !n.Started.IsZero() {
		v.Started = optionalTime(&n.Started)
	}
	if n.Position != "" {
		v.Position = &n.Position
	}
	if n.Role == cluster.Replica && n.Streaming {
		v.LagSeconds, v.LagBytes = new(seconds(n.Lag)), n.LagBytes
	}
	return v
}

// primaryChangeView is one change of the primary.
type primaryChangeView struct {
	Time    string   `json:"time" format:"date-time"`
	Kind    string   `json:"kind" enum:"failover,handover" doc:"handover: it was planned."`
	From    *int     `json:"from" doc:"The old primary's number; null when it isn't known."`
	To      *int     `json:"to" doc:"The new primary's number; null when it isn't known."`
	Seconds *float64 `json:"seconds" doc:"From when the old one was found to be down, or began to hand over, until the new one took writes; null when it isn't known."`
	Message string   `json:"message"`
}

func showPrimaryChange(o operation.Operation) primaryChangeView {
	v := primaryChangeView{Time: showTime(o.Created), Kind: "failover", Message: o.Message}
	change := o.Params.Primary
	if change == nil {
		return v
	}
	v.From, v.To = &change.From, &change.To
	if change.Planned {
		v.Kind = "handover"
	}
	if change.Took > 0 {
		v.Seconds = new(math.Max(0.001, seconds(change.Took)))
	}
	return v
}

// pagedInstance are the parameters of a list of a database that has one order.
type pagedInstance struct {
	ID int64 `path:"instanceId" minimum:"1" doc:"The database."`
	Unfiltered
	Paging
}

// unfilteredInstance are the parameters of a list of a database that is shown as a whole.
type unfilteredInstance struct {
	ID int64 `path:"instanceId" minimum:"1" doc:"The database."`
	Unfiltered
}

// registerNodes adds the operations on the nodes of databases of one engine.
func (a *API) registerNodes(engine cluster.Engine, name string) {
	one := "/v4/databases/" + string(engine) + "/instances/{instanceId}/nodes"
	register(a, endpoint{
		method: http.MethodGet, path: one, id: "listNodesOf" + name + "Database", summary: "List a database's nodes", tag: name + " databases", scope: readDatabases,
	}, func(ctx context.Context, c call[unfilteredInstance, none]) (nodesView, error) {
		if err := c.In.refuse(); err != nil {
			return nodesView{}, err
		}
		found, nodes, err := a.Control.Nodes.List(ctx, c.Principal, engine, cluster.ID(c.In.ID))
		v := nodesView{Sleeping: found.SleepingSince != nil, SleepingSince: optionalTime(found.SleepingSince), Data: make([]nodeView, len(nodes))}
		for i, n := range nodes {
			v.Data[i] = showNode(n)
		}
		return v, err
	})
	register(a, endpoint{
		method: http.MethodGet, path: one + "/history", id: "listNodeHistoryOf" + name + "Database", summary: "List the changes of a database's primary, newest first",
		tag: name + " databases", scope: readDatabases,
	}, func(ctx context.Context, c call[pagedInstance, none]) (list[primaryChangeView], error) {
		if err := c.In.refuse(); err != nil {
			return list[primaryChangeView]{}, err
		}
		found, total, err := a.Control.Nodes.History(ctx, c.Principal, engine, cluster.ID(c.In.ID), c.In.page())
		return newList(found, total, c.In.Paging, showPrimaryChange), err
	})
}
