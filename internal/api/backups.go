package api

import (
	"context"
	"fmt"
	"net/http"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/store"
)

type backupPath struct {
	ID     int64 `path:"instanceId" minimum:"1" doc:"The database."`
	Backup int64 `path:"backupId" minimum:"1" doc:"The backup."`
}

type backupListing struct {
	ID int64 `path:"instanceId" minimum:"1" doc:"The database."`
	Listing
}

// backupView is a backup (docs/rules.md, Backups).
type backupView struct {
	ID          int64   `json:"id"`
	Type        string  `json:"type" enum:"snapshot,auto"`
	Label       string  `json:"label"`
	Created     string  `json:"created" format:"date-time"`
	State       string  `json:"state" enum:"running,complete,failed" doc:"Only complete ones can be restored."`
	Target      string  `json:"target" enum:"primary,secondary" doc:"The node it was taken from."`
	SizeBytes   *int64  `json:"size_bytes" doc:"Of the data; null until complete."`
	StoredBytes *int64  `json:"stored_bytes" doc:"In the archive, compressed; null until complete."`
	Verified    *string `json:"verified" format:"date-time" doc:"When it was last tried out and proven to restore."`
	// Verification is null for a backup that isn't complete.
	Verification *string `json:"verification" enum:"pending,passed,failed,timed_out" doc:"Whether it was proven to restore. timed_out: looking through it took too long, which says nothing of it; it is tried again."`
	Problem      *string `json:"problem" doc:"Why it can't be relied on."`
}

func showBackup(b backup.Backup) backupView {
	v := backupView{
		ID: int64(b.ID), Type: string(b.Type), Label: b.Label, Created: showTime(b.Created), State: string(b.State),
		Target: string(b.Target), Verified: optionalTime(b.Verified),
	}
	switch {
	case b.State == backup.Complete:
		v.SizeBytes, v.StoredBytes, v.Verification = &b.Bytes, &b.StoredBytes, new(string(b.Verification()))
		if b.Problem != "" { // the operator's: it may name files of the host
			v.Problem = new("It was tried out and doesn't restore.")
		}
	case b.Problem != "":
		v.Problem = &b.Problem
	}
	return v
}

// snapshotBody is a request for a snapshot.
type snapshotBody struct {
	Label  string `json:"label" minLength:"1" maxLength:"30" doc:"ASCII letters and digits; unique among the database's backups."`
	Target string `json:"target,omitempty" enum:"primary,secondary" default:"primary" doc:"The node to take it from. A database of one node has its primary only."`
}

// restoreBody is a request to restore a moment.
type restoreBody struct {
	To string `json:"to" format:"date-time" doc:"The moment that the data is to be of, in one of restore-windows. The newest is now, for which the restore waits until all is archived: about a minute."`
}

// registerBackups adds the operations on backups of one engine's databases.
func (a *API) registerBackups(engine cluster.Engine, name string) {
	backups := a.Control.Backups
	all := fmt.Sprintf("/v4/databases/%s/instances/{instanceId}/backups", engine)
	one := all + "/{backupId}"
	e := func(method, path, verb, noun, summary string) endpoint {
		return endpoint{method: method, path: path, id: verb + name + noun, summary: summary, tag: name + " databases", scope: writeDatabases}
	}
	register(a, e(http.MethodGet, all, "list", "Backups", "List a database's backups, newest first"),
		func(ctx context.Context, c call[backupListing, none]) (list[backupView], error) {
			return listPage(c.In.Listing, store.BackupFields, showBackup, func(q store.ListQuery) ([]backup.Backup, int, error) {
				return backups.List(ctx, c.Principal, engine, cluster.ID(c.In.ID), q)
			})
		})
	register(a, e(http.MethodPost, all, "create", "Snapshot", "Take a snapshot"),
		func(ctx context.Context, c call[instancePath, snapshotBody]) (empty, error) {
			in := control.NewSnapshot{Label: c.Body.Label, Target: backup.Target(c.Body.Target)}
			return empty{}, backups.Create(ctx, c.Principal, engine, cluster.ID(c.In.ID), in, c.Faults)
		})
	register(a, e(http.MethodGet, one, "view", "Backup", "View a backup"),
		func(ctx context.Context, c call[backupPath, none]) (backupView, error) {
			found, err := backups.View(ctx, c.Principal, engine, cluster.ID(c.In.ID), backup.ID(c.In.Backup))
			return showBackup(found), err
		})
	action := func(method, path, verb, summary string, do func(context.Context, account.Principal, cluster.Engine, cluster.ID, backup.ID) error) {
		register(a, e(method, path, verb, "Backup", summary),
			func(ctx context.Context, c call[backupPath, none]) (empty, error) {
				return empty{}, do(ctx, c.Principal, engine, cluster.ID(c.In.ID), backup.ID(c.In.Backup))
			})
	}
	action(http.MethodDelete, one, "delete", "Delete a backup", backups.Delete)
	action(http.MethodPost, one+"/restore", "restore", "Replace all of the database's data by a backup's", backups.Restore)
	instance := fmt.Sprintf("/v4/databases/%s/instances/{instanceId}", engine)
	register(a, e(http.MethodPost, instance+"/restore", "restore", "Database", "Replace all of the database's data by what it was at a moment"),
		func(ctx context.Context, c call[instancePath, restoreBody]) (empty, error) {
			to := parseTime("to", &c.Body.To, &c.Faults)
			return empty{}, backups.RestoreTo(ctx, c.Principal, engine, cluster.ID(c.In.ID), to, c.Faults)
		})
	register(a, e(http.MethodPost, instance+"/restore/undo", "undoRestoreOf", "Database", "Bring back the data that the last restore replaced, for a day after it"),
		func(ctx context.Context, c call[instancePath, none]) (empty, error) {
			return empty{}, backups.UndoRestore(ctx, c.Principal, engine, cluster.ID(c.In.ID))
		})
}
