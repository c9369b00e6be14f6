package api

import (
	"context"
	"net/http"

	"steward/internal/backup"
	"steward/internal/cluster"
)

// restoreWindowsView are the times from which a database can be restored.
type restoreWindowsView struct {
	Data []restoreWindowView `json:"data" nullable:"false" doc:"Oldest first; what lies between two of them can't be restored."`
}

// restoreWindowView is one of them.
type restoreWindowView struct {
	From string `json:"from" format:"date-time"`
	To   string `json:"to" format:"date-time" doc:"The same as from where it is one moment, a backup's."`
}

func showRestoreWindow(w backup.Window) restoreWindowView {
	return restoreWindowView{showTime(w.From), showTime(w.To)}
}

// registerRestoreWindows adds the operation for databases of one engine.
func (a *API) registerRestoreWindows(engine cluster.Engine, name string) {
	register(a, endpoint{
		method: http.MethodGet, path: "/v4/databases/" + string(engine) + "/instances/{instanceId}/restore-windows", id: "listRestoreWindowsOf" + name + "Database",
		summary: "List the times from which a database can be restored or forked", tag: name + " databases", scope: readDatabases,
	}, func(ctx context.Context, c call[unfilteredInstance, none]) (restoreWindowsView, error) {
		if err := c.In.refuse(); err != nil {
			return restoreWindowsView{}, err
		}
		found, err := a.Control.Backups.RestoreWindows(ctx, c.Principal, engine, cluster.ID(c.In.ID))
		v := restoreWindowsView{Data: make([]restoreWindowView, len(found))}
		for i, w := range found {
			v.Data[i] = showRestoreWindow(w)
		}
		return v, err
	})
}
