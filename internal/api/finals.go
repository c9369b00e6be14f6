package api

import (
	"context"
	"net/http"

	"steward/internal/cluster"
	"steward/internal/control"
)

// deletedInstance is a database that is to be deleted.
type deletedInstance struct {
	ID    int64 `path:"instanceId" minimum:"1" doc:"The database."`
	Final bool  `query:"final_backup" doc:"Whether a last backup is taken before, and kept for a while: final-backups lists it. A database of which none can be taken isn't deleted."`
}

// deletedDatabasePath is that of a database that was deleted.
type deletedDatabasePath struct {
	ID int64 `path:"databaseId" minimum:"1" doc:"The database that was deleted."`
}

// finalView is the last backup of a deleted database.
type finalView struct {
	ID        int64  `json:"id" doc:"The database that was deleted; a create with it as fork.source makes one of the backup."`
	Label     string `json:"label"`
	Engine    string `json:"engine"`
	Version   string `json:"version"`
	Type      string `json:"type"`
	Region    string `json:"region"`
	Created   string `json:"created" format:"date-time" doc:"When the backup was taken."`
	Expires   string `json:"expires" format:"date-time" doc:"When it is removed."`
	SizeBytes int64  `json:"size_bytes"`
}

// finalsView are all of an account.
type finalsView struct {
	Data []finalView `json:"data" nullable:"false" doc:"The database that was deleted last comes first."`
}

func showFinal(f control.Final) finalView {
	v := finalView{
		ID: int64(f.Cluster.ID), Label: f.Cluster.Label, Engine: string(f.Cluster.Engine), Version: f.Cluster.Series, Type: f.Cluster.Type, Region: f.Cluster.Region,
		Created: showTime(f.Backup.Created), SizeBytes: f.Backup.Bytes,
	}
	if f.Cluster.FinalUntil != nil {
		v.Expires = showTime(*f.Cluster.FinalUntil)
	}
	return v
}

// registerFinals adds the operations on the last backups of deleted databases.
func (a *API) registerFinals() {
	const path = "/v4/databases/final-backups"
	register(a, endpoint{
		method: http.MethodGet, path: path, id: "listFinalBackups", tag: "Databases", scope: readDatabases, summary: "List the last backups of deleted databases",
	}, func(ctx context.Context, c call[Unfiltered, none]) (finalsView, error) {
		if err := c.In.refuse(); err != nil {
			return finalsView{}, err
		}
		found, err := a.Control.Clusters.Finals(ctx, c.Principal)
		v := finalsView{Data: make([]finalView, len(found))}
		for i, f := range found {
			v.Data[i] = showFinal(f)
		}
		return v, err
	})
	register(a, endpoint{
		method: http.MethodDelete, path: path + "/{databaseId}", id: "deleteFinalBackup", tag: "Databases", scope: writeDatabases, summary: "Remove the last backup of a deleted database",
	}, func(ctx context.Context, c call[deletedDatabasePath, none]) (empty, error) {
		return empty{}, a.Control.Clusters.DeleteFinal(ctx, c.Principal, cluster.ID(c.In.ID))
	})
}
