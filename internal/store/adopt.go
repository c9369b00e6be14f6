package store

import (
	"context"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/platform"
	"steward/internal/store/dbsqlc"
)

// AdoptCluster adds a cluster that was another store's, under the id that its
// backups go by, and with the port it had where that is free here. It is
// provisioning: nothing of it runs.
func (t *Tx) AdoptCluster(ctx context.Context, c cluster.Cluster, secrets map[platform.SecretName][]byte, ports Ports) (cluster.Cluster, error) {
	c.Updated, c.Status, c.Generation = t.now(), cluster.Provisioning, 1
	c.Hosts, c.Members, c.Installation, c.ServerVersion = cluster.Hosts{}, nil, "", ""
	had := c.Port
	c, err := t.insertCluster(ctx, c, secrets, func() (int, error) { return t.thisPort(ctx, had, ports) })
	if err != nil {
		return c, err
	}
	return c, t.ReserveIDs(ctx, c.ID, 0)
}

// thisPort is the one asked for, or the lowest free one.
func (t *Tx) thisPort(ctx context.Context, port int, ports Ports) (int, error) {
	lowest, err := t.freePort(ctx, ports)
	if err != nil || port < ports.First || port > ports.Last {
		return lowest, err
	}
	free, err := t.q.PortIsFree(ctx, int32(port))
	if err != nil {
		return 0, fmt.Errorf("look whether port %d is free: %w", port, err)
	}
	if free {
		return port, nil
	}
	return lowest, nil
}

// AdoptBackup adds a complete backup that is in the archive. Of two with one
// label the first that is added counts.
func (t *Tx) AdoptBackup(ctx context.Context, b backup.Backup) error {
	err := t.q.BackupAdopt(ctx, dbsqlc.BackupAdoptParams{
		ID: int64(b.ID), AccountID: int64(b.Account), ClusterID: int64(b.Cluster), Type: string(b.Type), Label: b.Label,
		Created: b.Created, Bytes: b.Bytes, StoredBytes: b.StoredBytes, Installation: b.Installation,
	})
	if err != nil {
		return classify(err)
	}
	return t.ReserveIDs(ctx, 0, b.ID)
}

// SetLastAuto notes when the last automatic backup of a cluster began.
func (t *Tx) SetLastAuto(ctx context.Context, id cluster.ID, at time.Time) error {
	return classify(t.q.ClusterLastAuto(ctx, at, int64(id)))
}

// ReserveIDs keeps ids up to these from being given out. The sequences are drawn
// from, not set: others draw at the same time.
func (q queries) ReserveIDs(ctx context.Context, c cluster.ID, b backup.ID) error {
	for _, s := range []struct {
		table string
		upTo  int64
	}{{"clusters", int64(c)}, {"backups", int64(b)}} {
		_, err := q.db.Exec(ctx, `SELECT count(nextval(pg_get_serial_sequence($1, 'id')))
			FROM generate_series((SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence($1, 'id')::regclass), 0)) + 1, $2::bigint)`, s.table, s.upTo)
		if err != nil {
			return fmt.Errorf("reserve ids of %s: %w", s.table, err)
		}
	}
	return nil
}

// EnsureAccount is the account of a name, made when there is none.
func (t *Tx) EnsureAccount(ctx context.Context, name string) (account.ID, error) {
	id, err := t.q.AccountEnsure(ctx, name, t.now())
	return account.ID(id), classify(err)
}

// AccountName is the name of an account.
func (q queries) AccountName(ctx context.Context, id account.ID) (string, error) {
	name, err := q.q.AccountName(ctx, int64(id))
	return name, classify(err)
}

// Grantee is a user with a grant on a cluster.
type Grantee struct {
	account.User
	Permission account.Permission
}

// Grantees are all that a cluster was granted to.
func (q queries) Grantees(ctx context.Context, id cluster.ID) ([]Grantee, error) {
	rows, err := q.q.ClusterUsers(ctx, int64(id))
	list := make([]Grantee, len(rows))
	for i, r := range rows {
		list[i] = Grantee{account.User{
			ID: account.UserID(r.ID), Account: account.ID(r.AccountID), Username: r.Username, Email: r.Email,
			Restricted: r.Restricted, AddDatabases: r.AddDatabases, Created: r.Created,
		}, account.Permission(r.Permission)}
	}
	return list, classify(err)
}
