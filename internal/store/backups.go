package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/filter"
	"steward/internal/operation"
	"steward/internal/store/dbsqlc"
)

// BackupFields are what backups can be filtered and ordered by.
var BackupFields = filter.Fields{"id": filter.Number, "label": filter.Text, "type": filter.Text, "created": filter.Time}

var backupColumns = columns{"id": "id", "label": "label", "type": "type", "created": shown("created")}

const selectBackup = `SELECT id, account_id, cluster_id, type, label, target, state, created, finished, bytes, stored_bytes,
	installation, verified, problem, verify_tries, verify_after, ref`

func scanBackup(row pgx.Row, more ...any) (backup.Backup, error) {
	var b backup.Backup
	err := row.Scan(append([]any{
		&b.ID, &b.Account, &b.Cluster, &b.Type, &b.Label, &b.Target, &b.State, &b.Created, &b.Finished, &b.Bytes, &b.StoredBytes,
		&b.Installation, &b.Verified, &b.Problem, &b.VerifyTries, &b.VerifyAfter, &b.Ref,
	}, more...)...)
	return b, err
}

// CreateBackup records a backup that begins. A cluster has one at a time, and
// no two of the same label.
func (t *Tx) CreateBackup(ctx context.Context, b backup.Backup) (backup.Backup, error) {
	b.State, b.Created = backup.Running, t.now()
	id, err := t.q.BackupCreate(ctx, dbsqlc.BackupCreateParams{
		AccountID: int64(b.Account), ClusterID: int64(b.Cluster), Type: string(b.Type), Label: b.Label, Target: string(b.Target), Created: b.Created,
	})
	b.ID = backup.ID(id)
	if err == nil && b.Type == backup.Auto {
		err = t.q.ClusterLastAuto(ctx, b.Created, int64(b.Cluster))
	}
	return b, classify(err)
}

// visibleBackups is the condition that a backup of a cluster is the viewer's to see.
func (b *sqlBuilder) visibleBackups(v Viewer, of cluster.ID) string {
	text := "account_id = " + b.arg(int64(v.Account)) + " AND cluster_id = " + b.arg(int64(of)) + " AND state <> 'deleting'"
	if v.User != 0 {
		text += " AND EXISTS (SELECT 1 FROM grants g WHERE g.cluster_id = backups.cluster_id AND g.user_id = " + b.arg(int64(v.User)) + ")"
	}
	return text
}

// Backup is one backup of a cluster, as the viewer sees it.
func (q queries) Backup(ctx context.Context, v Viewer, of cluster.ID, id backup.ID) (backup.Backup, error) {
	b := sqlBuilder{}
	sql := selectBackup + " FROM backups WHERE " + b.visibleBackups(v, of) + " AND id = " + b.arg(int64(id))
	found, err := scanBackup(q.db.QueryRow(ctx, sql, b.args...))
	return found, classify(err)
}

// Backups is one page of a cluster's backups, newest first, and how many match.
func (q queries) Backups(ctx context.Context, v Viewer, of cluster.ID, list ListQuery) ([]backup.Backup, int, error) {
	l := listing[backup.Backup]{sqlBuilder: sqlBuilder{columns: backupColumns}, what: selectBackup, own: "id DESC", scan: scanBackup}
	l.from = "backups WHERE " + l.visibleBackups(v, of)
	return l.page(ctx, q.db, list)
}

// BackupForWork is a backup whoever owns it.
func (q queries) BackupForWork(ctx context.Context, id backup.ID) (backup.Backup, error) {
	b, err := scanBackup(q.db.QueryRow(ctx, selectBackup+" FROM backups WHERE id = $1", int64(id)))
	return b, classify(err)
}

// BackupsOf are all of a cluster that aren't being deleted, newest first.
func (q queries) BackupsOf(ctx context.Context, id cluster.ID) ([]backup.Backup, error) {
	return collect(ctx, q.db, scanBackup, selectBackup+" FROM backups WHERE cluster_id = $1 AND state <> 'deleting' ORDER BY id DESC", int64(id))
}

// BackupsForWork are all of them by cluster, also those that are being deleted,
// newest first.
func (q queries) BackupsForWork(ctx context.Context) (map[cluster.ID][]backup.Backup, error) {
	all, err := collect(ctx, q.db, scanBackup, selectBackup+" FROM backups ORDER BY id DESC")
	byCluster := map[cluster.ID][]backup.Backup{}
	for _, b := range all {
		byCluster[b.Cluster] = append(byCluster[b.Cluster], b)
	}
	return byCluster, err
}

// FinishBackup ends a backup that runs with what b says of it: complete or
// failed. ErrStale when it doesn't run any more.
func (t *Tx) FinishBackup(ctx context.Context, b backup.Backup) error {
	n, err := t.q.BackupFinish(ctx, dbsqlc.BackupFinishParams{
		ID: int64(b.ID), State: string(b.State), Now: t.now(), Bytes: b.Bytes, StoredBytes: b.StoredBytes,
		Installation: b.Installation, Problem: b.Problem, Ref: b.Ref,
	})
	return changedOne(n, err)
}

// BackupVerified records that a complete backup was proven to restore, or what
// stood in the way; ErrStale when it, or its database, has gone meanwhile. Until
// the transaction ends the database isn't deleted.
func (t *Tx) BackupVerified(ctx context.Context, id backup.ID, problem string) error {
	n, err := t.q.BackupVerified(ctx, dbsqlc.BackupVerifiedParams{ID: int64(id), Problem: problem, Now: t.now()})
	return changedOne(n, err)
}

// TellProven says in the event of a backup that it was proven to restore, so that whoever follows events knows.
func (t *Tx) TellProven(ctx context.Context, of cluster.ID, id backup.ID, message string) error {
	return classify(t.q.BackupProvenTold(ctx, dbsqlc.BackupProvenToldParams{ClusterID: int64(of), BackupID: int64(id), Message: message}))
}

// BackupUnverified records that verifying a complete backup took too long, and when
// that is tried again; ErrStale when it has gone meanwhile.
func (q queries) BackupUnverified(ctx context.Context, id backup.ID, again time.Time) error {
	n, err := q.q.BackupUnverified(ctx, again, int64(id))
	return changedOne(n, err)
}

// MarkDeleting takes a backup that doesn't run off the lists and frees its
// label; ErrStale when it runs, or somebody else was first.
func (t *Tx) MarkDeleting(ctx context.Context, id backup.ID) error {
	n, err := t.q.BackupMarkDeleting(ctx, int64(id))
	return changedOne(n, err)
}

// ForgetBackup drops the row of a backup that has left the archive.
func (q queries) ForgetBackup(ctx context.Context, id backup.ID) error {
	return classify(q.q.BackupForget(ctx, int64(id)))
}

// SetLockedOut notes whether a cluster's servers have an older root password
// than the API answers.
func (q queries) SetLockedOut(ctx context.Context, id cluster.ID, locked bool) error {
	return classify(q.q.ClusterLockedOut(ctx, locked, int64(id)))
}

// CredentialsResetSince reports whether a reset of the cluster's credentials was
// accepted after a moment.
func (q queries) CredentialsResetSince(ctx context.Context, id cluster.ID, since time.Time) (bool, error) {
	found, err := q.q.CredentialsResetSince(ctx, int64(id), since)
	return found, classify(err)
}

// LastRestore is when the last restore in place before a moment was asked for, or
// the last that was undone; the zero time without any. What the database wrote
// before that and after isn't one history.
func (q queries) LastRestore(ctx context.Context, id cluster.ID, before time.Time) (time.Time, error) {
	last, err := q.q.LastRestore(ctx, int64(id), before)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	return last, classify(err)
}

// Undoable reports whether the last that replaced a cluster's data was a restore, or an upgrade, which ended after a moment or is under way.
func (q queries) Undoable(ctx context.Context, of cluster.ID, after time.Time) (bool, error) {
	last, err := q.q.LastReplacement(ctx, int64(of))
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, classify(err)
	}
	return last.Action != string(operation.RestoreUndo) && (last.Finished == nil || last.Finished.After(after)), nil
}

// BackupInPlace is the backup that the cluster's last restore put in place, unless
// that was undone: its id and its label, which outlives it. 0 when there is none.
func (q queries) BackupInPlace(ctx context.Context, of cluster.ID) (id backup.ID, label string, err error) {
	raw, err := q.q.BackupInPlace(ctx, int64(of))
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", classify(err)
	}
	var p operation.Params
	if err := json.Unmarshal(raw, &p); err != nil {
		return 0, "", fmt.Errorf("decode parameters: %w", err)
	}
	return p.Backup, p.BackupLabel, nil
}

func changedOne(n int64, err error) error {
	if err == nil && n == 0 {
		return ErrStale
	}
	return classify(err)
}
