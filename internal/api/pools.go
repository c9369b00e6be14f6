package api

import (
	"context"
	"net/http"

	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/filter"
)

// poolView is a connection pool.
type poolView struct {
	Label    string  `json:"label" doc:"What clients name as the database that they connect to, at the endpoint primary-connection-pool of hosts."`
	Database string  `json:"database" doc:"The logical database behind it."`
	Mode     string  `json:"mode" enum:"transaction,session,statement" doc:"When a connection is another client's turn: after each transaction, when its client leaves, or after each statement, without transactions."`
	Size     int     `json:"size" doc:"How many connections to the server it has at most, for all users together."`
	Username *string `json:"username" doc:"The only user who may log in, as themselves and with their own password; null for all."`
	Prepared bool    `json:"prepared_statements" doc:"Whether clients can use prepared statements. While connections are shared, that takes PgBouncer 1.21 on the server."`
}

// poolCreate asks for a connection pool.
type poolCreate struct {
	Label    string           `json:"label" minLength:"1" maxLength:"63" doc:"Letters, digits, - and _."`
	Database string           `json:"database" minLength:"1" maxLength:"63" doc:"A logical database that there is."`
	Mode     string           `json:"mode" enum:"transaction,session,statement"`
	Size     int              `json:"size" minimum:"1" maximum:"10000" doc:"All pools of a database together have to leave some of the server's connections."`
	Username optional[string] `json:"username,omitzero" maxLength:"63" minLength:"1" doc:"The only user who may log in; null for all."`
}

// poolUpdate changes a connection pool.
type poolUpdate struct {
	Label    *string          `json:"label,omitempty" minLength:"1" maxLength:"63" doc:"It can't be changed; the same may be sent."`
	Database *string          `json:"database,omitempty" minLength:"1" maxLength:"63"`
	Mode     *string          `json:"mode,omitempty" enum:"transaction,session,statement"`
	Size     *int             `json:"size,omitempty" minimum:"1" maximum:"10000"`
	Username optional[string] `json:"username,omitzero" maxLength:"63" minLength:"1" doc:"The only user who may log in; null for all."`
}

type poolPath struct {
	ID    int64  `path:"instanceId" minimum:"1" doc:"The database."`
	Label string `path:"poolLabel" minLength:"1" maxLength:"256" doc:"The pool's label."`
}

var poolFields = filter.Fields{"label": filter.Text, "database": filter.Text, "mode": filter.Text, "size": filter.Number, "username": filter.Text}

func poolMember(p cluster.Pool, field string) any {
	switch field {
	case "label":
		return p.Label
	case "database":
		return p.Database
	case "mode":
		return string(p.Mode)
	case "username":
		return p.User
	}
	return int64(p.Size)
}

// registerPools adds the operations on connection pools of PostgreSQL.
func (a *API) registerPools() {
	pools := a.Control.Pools
	show := func(p cluster.Pool) poolView {
		return poolView{p.Label, p.Database, string(p.Mode), p.Size, textOrNull(p.User), pools.Prepares(p)}
	}
	const all, tag = "/v4/databases/postgresql/instances/{instanceId}/connection-pools", "PostgreSQL databases"
	const one = all + "/{poolLabel}"
	register(a, endpoint{
		method: http.MethodGet, path: all, id: "listConnectionPools", summary: "List the connection pools of a database", tag: tag, scope: readDatabases,
	}, func(ctx context.Context, c call[logicalInput, none]) (list[poolView], error) {
		found, err := pools.List(ctx, c.Principal, cluster.ID(c.In.ID))
		if err != nil {
			return list[poolView]{}, err
		}
		return listInMemory(inMemory[cluster.Pool]{found, poolFields, poolMember}, c.In.Listing, show)
	})
	register(a, endpoint{
		method: http.MethodPost, path: all, id: "createConnectionPool", summary: "Create a connection pool", tag: tag, scope: writeDatabases,
	}, func(ctx context.Context, c call[instancePath, poolCreate]) (poolView, error) {
		asked := cluster.Pool{Label: c.Body.Label, Database: c.Body.Database, Mode: cluster.PoolMode(c.Body.Mode), Size: c.Body.Size, User: orEmpty(c.Body.Username.value)}
		made, err := pools.Create(ctx, c.Principal, cluster.ID(c.In.ID), asked, c.Faults)
		return show(made), err
	})
	register(a, endpoint{
		method: http.MethodGet, path: one, id: "viewConnectionPool", summary: "View a connection pool", tag: tag, scope: readDatabases,
	}, func(ctx context.Context, c call[poolPath, none]) (poolView, error) {
		found, err := pools.View(ctx, c.Principal, cluster.ID(c.In.ID), c.In.Label)
		return show(found), err
	})
	register(a, endpoint{
		method: http.MethodPut, path: one, id: "updateConnectionPool", summary: "Change a connection pool", tag: tag, scope: writeDatabases,
	}, func(ctx context.Context, c call[poolPath, poolUpdate]) (poolView, error) {
		faults := c.Faults
		if c.Body.Label != nil && *c.Body.Label != c.In.Label && !faults.Name("label") {
			faults.Add("label", "Can't be changed once the pool is made")
		}
		in := control.ChangePool{Database: c.Body.Database, Mode: (*cluster.PoolMode)(c.Body.Mode), Size: c.Body.Size, User: c.Body.Username.orZero()}
		changed, err := pools.Update(ctx, c.Principal, cluster.ID(c.In.ID), c.In.Label, in, faults)
		return show(changed), err
	})
	register(a, endpoint{
		method: http.MethodDelete, path: one, id: "deleteConnectionPool", summary: "Delete a connection pool and end its sessions", tag: tag, scope: writeDatabases,
	}, func(ctx context.Context, c call[poolPath, none]) (empty, error) {
		return empty{}, pools.Delete(ctx, c.Principal, cluster.ID(c.In.ID), c.In.Label)
	})
}
