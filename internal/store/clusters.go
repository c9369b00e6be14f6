package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"steward/internal/account"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/parameter"
	"steward/internal/platform"
	"steward/internal/store/dbsqlc"
)

// Viewer is who looks. A restricted user sees only what it is granted.
type Viewer struct {
	Account account.ID
	// User is set for restricted users only.
	User account.UserID
}

// ViewerOf is the viewer a principal is.
func ViewerOf(p account.Principal) Viewer {
	v := Viewer{Account: p.Account}
	if p.User.Restricted {
		v.User = p.User.ID
	}
	return v
}

// ClusterFields are what databases can be filtered and ordered by.
var ClusterFields = filter.Fields{
	"id": filter.Number, "label": filter.Text, "type": filter.Text, "engine": filter.Text, "version": filter.Text,
	"region": filter.Text, "status": filter.Text, "created": filter.Time, "updated": filter.Time, "cluster_size": filter.Number,
}

var clusterColumns = columns{
	"id": "id", "label": "label", "type": "type", "engine": "engine", "version": "series",
	"region": "region", "status": "status", "created": shown("created"), "updated": shown("updated"), "cluster_size": "size::bigint",
}

// selectCluster reads all that is told of a database. What it takes of backups is one row, for which only the database's own are looked at: one
// query for each, of which the last went by id, went through others' too.
const selectCluster = `SELECT id, account_id, label, engine, series, region, type, size, encrypted, ssl_connection, allow_list,
	replication_type, commit_type, updates, status, port, host_primary, host_secondary, members, installation, server_version,
	used_bytes, read_only, failovers, locked_out, last_auto, generation, created, updated, deleted, fork_source, fork_time, fork_asked,
	tasks, window_announced, window_begun, engine_config, auto_suspend, sleeping_since, protected, platform, autoscale, autoscale_percent, autoscale_max,
	pools, coalesce(pool_port, 0), final_until,
	(SELECT ROW(min(b.created) FILTER (WHERE b.state = 'complete'), max(b.created) FILTER (WHERE b.state = 'complete' AND b.problem = ''),
			max(b.created) FILTER (WHERE b.state = 'complete' AND b.problem = '' AND b.verified IS NOT NULL),
			coalesce(max(b.id) FILTER (WHERE b.state = 'failed' OR b.problem <> '') > coalesce(max(b.id) FILTER (WHERE b.state = 'complete' AND b.problem = ''), 0), false))
		FROM backups b WHERE b.cluster_id = clusters.id AND b.state IN ('complete', 'failed')),
	allow_list_notes`

// portLock is the class of the advisory lock that serialises giving out ports.
const portLock = 7001

// Ports are those that databases are given.
type Ports struct {
	First, Last int
	// Usable reports whether a database without the port could get it, which it can't
	// while another program has it; nil when only databases have any.
	Usable func(port int) bool
}

// CreateCluster adds c with the lowest free port and its secrets.
func (t *Tx) CreateCluster(ctx context.Context, c cluster.Cluster, secrets map[platform.SecretName][]byte, ports Ports) (cluster.Cluster, error) {
	id, err := t.q.ClusterID(ctx)
	if err != nil {
		return c, fmt.Errorf("draw an id: %w", err)
	}
	c.ID, c.Created, c.Status, c.Generation = cluster.ID(id), t.now(), cluster.Provisioning, 1
	c.Updated = c.Created
	return t.insertCluster(ctx, c, secrets, func() (int, error) { return t.freePort(ctx, ports) })
}

// insertCluster adds the row, with a port that is asked for last, and the secrets.
func (t *Tx) insertCluster(ctx context.Context, c cluster.Cluster, secrets map[platform.SecretName][]byte, port func() (int, error)) (cluster.Cluster, error) {
	c.Platform = cmp.Or(c.Platform, catalog.Host)
	// Sealing may ask a key service: not while others wait for a port.
	sealed, err := t.sealAll(ctx, c.ID, secrets)
	if err != nil {
		return c, err
	}
	if c.Port, err = port(); err != nil {
		return c, err
	}
	updates, err := json.Marshal(c.Updates)
	if err != nil {
		return c, fmt.Errorf("encode window: %w", err)
	}
	config, err := json.Marshal(configured(c))
	if err != nil {
		return c, fmt.Errorf("encode engine_config: %w", err)
	}
	notes, err := encodeNotes(c.AllowNotes)
	if err != nil {
		return c, err
	}
	source, of, asked := forkColumns(c.Fork)
	err = t.q.ClusterCreate(ctx, dbsqlc.ClusterCreateParams{
		ID: int64(c.ID), AccountID: int64(c.Account), Label: c.Label, Engine: string(c.Engine), Series: c.Series, Region: c.Region, Type: c.Type,
		Size: int32(c.Size), Encrypted: c.Encrypted, SslConnection: c.SSLConnection, AllowList: nonNil(c.AllowList),
		ReplicationType: string(c.Replication), CommitType: string(c.Commit), Updates: updates, Port: int32(c.Port), Created: c.Created,
		ForkSource: source, ForkTime: of, ForkAsked: asked, EngineConfig: config,
		AutoSuspend: int32(c.AutoSuspend), Protected: c.Protected, Platform: c.Platform,
		Autoscale: c.Autoscale.Enabled, AutoscalePercent: int32(c.Autoscale.Percent), AutoscaleMax: c.Autoscale.Max, AllowListNotes: notes,
	})
	if err != nil {
		return c, classify(err)
	}
	return c, classify(t.q.SecretsCreate(ctx, sealed))
}

func encodeNotes(notes cluster.AllowNotes) ([]byte, error) {
	if notes == nil {
		return []byte("{}"), nil
	}
	text, err := json.Marshal(notes)
	if err != nil {
		return nil, fmt.Errorf("encode allow_list_notes: %w", err)
	}
	return text, nil
}

func forkColumns(f *cluster.Fork) (source *int64, of, asked *time.Time) {
	if f == nil {
		return nil, nil, nil
	}
	return new(int64(f.Source)), f.RestoreTime, f.Asked
}

// freePort is the lowest that neither a database nor another program has, reserved
// among databases until the transaction ends.
func (t *Tx) freePort(ctx context.Context, ports Ports) (int, error) {
	if err := t.q.PortLock(ctx, portLock); err != nil {
		return 0, fmt.Errorf("wait for a port: %w", err)
	}
	for from := ports.First; ; {
		port, err := t.q.PortFree(ctx, int32(from), int32(ports.Last))
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, fault.NewPrecondition("All %d database ports of this server are in use; delete a database, or ask the operator to widen gateway.ports", ports.Last-ports.First+1)
		}
		if err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		if ports.Usable == nil || ports.Usable(int(port)) {
			return int(port), nil
		}
		from = int(port) + 1
	}
}

// GivePoolPort gives c's pools the lowest free port, unless they have one. It is c's for good.
func (t *Tx) GivePoolPort(ctx context.Context, c cluster.Cluster, ports Ports) (cluster.Cluster, error) {
	if c.PoolPort != 0 {
		return c, nil
	}
	port, err := t.freePort(ctx, ports)
	if err != nil {
		return c, err
	}
	if err := t.q.ClusterPoolPort(ctx, int32(port), int64(c.ID)); err != nil {
		return c, classify(err)
	}
	c.PoolPort = port
	return c, nil
}

// configured is the cluster's config, an object also when there is none.
func configured(c cluster.Cluster) parameter.Config {
	if c.Config == nil {
		return parameter.Config{}
	}
	return c.Config
}

func nonNil(list cluster.AllowList) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// Cluster is one database as the viewer sees it; NotFound when it doesn't.
// An empty engine means any.
func (q queries) Cluster(ctx context.Context, v Viewer, engine cluster.Engine, id cluster.ID) (cluster.Cluster, error) {
	b := sqlBuilder{}
	where := b.visible(v) + " AND id = " + b.arg(int64(id))
	if engine != "" {
		where += " AND engine = " + b.arg(string(engine))
	}
	return q.oneCluster(ctx, selectCluster+" FROM clusters WHERE "+where, b.args...)
}

// visible is the condition that a cluster is the viewer's to see.
func (b *sqlBuilder) visible(v Viewer) string {
	text := "account_id = " + b.arg(int64(v.Account)) + " AND deleted IS NULL"
	if v.User != 0 {
		text += " AND EXISTS (SELECT 1 FROM grants g WHERE g.cluster_id = clusters.id AND g.user_id = " + b.arg(int64(v.User)) + ")"
	}
	return text
}

// Clusters is one page of the databases the viewer sees (of one engine, or all
// when it is empty), and how many match.
func (q queries) Clusters(ctx context.Context, v Viewer, engine cluster.Engine, list ListQuery) ([]cluster.Cluster, int, error) {
	l := listing[cluster.Cluster]{sqlBuilder: sqlBuilder{columns: clusterColumns}, what: selectCluster, own: "id", scan: scanCluster}
	l.from = "clusters WHERE " + l.visible(v)
	if engine != "" {
		l.from += " AND engine = " + l.arg(string(engine))
	}
	return l.page(ctx, q.db, list)
}

func (q queries) oneCluster(ctx context.Context, sql string, args ...any) (cluster.Cluster, error) {
	c, err := scanCluster(q.db.QueryRow(ctx, sql, args...))
	return c, classify(err)
}

// clusterRow is where a row of selectCluster is scanned to. Plain variables: pgx takes twice as long to see through named types.
type clusterRow struct {
	c                                                              cluster.Cluster
	id, owner                                                      int64
	size, port, poolPort, failovers, autoSuspend, autoscalePercent int32
	engine, replication, commit, status                            string
	list                                                           []string
	updates, members, tasks, config, pools, notes                  []byte
	forkSource                                                     *int64
	forkTime, forkAsked                                            *time.Time
	// columns point to where each goes, in the order of selectCluster.
	columns []any
}

// clusterRows are used again and again: what it takes to scan one is 2 KB.
var clusterRows = sync.Pool{New: func() any {
	r := &clusterRow{}
	c := &r.c
	r.columns = []any{
		&r.id, &r.owner, &c.Label, &r.engine, &c.Series, &c.Region, &c.Type, &r.size, &c.Encrypted, &c.SSLConnection, &r.list,
		&r.replication, &r.commit, &r.updates, &r.status, &r.port, &c.Hosts.Primary, &c.Hosts.Secondary, &r.members, &c.Installation, &c.ServerVersion,
		&c.UsedBytes, &c.ReadOnly, &r.failovers, &c.LockedOut, &c.LastAuto, &c.Generation, &c.Created, &c.Updated, &c.Deleted,
		&r.forkSource, &r.forkTime, &r.forkAsked, &r.tasks, &c.Maintenance.Announced, &c.Maintenance.Begun, &r.config, &r.autoSuspend, &c.SleepingSince, &c.Protected, &c.Platform,
		&c.Autoscale.Enabled, &r.autoscalePercent, &c.Autoscale.Max, &r.pools, &r.poolPort, &c.FinalUntil,
		pgtype.CompositeFields{&c.OldestBackup, &c.NewestBackup, &c.ProvenBackup, &c.BackupFailed},
		&r.notes,
	}
	return r
}}

// scanCluster reads a row of selectCluster, and what else was selected into more.
func scanCluster(row pgx.Row, more ...any) (cluster.Cluster, error) {
	r := clusterRows.Get().(*clusterRow)
	defer clusterRows.Put(r)
	*r = clusterRow{columns: r.columns}
	if err := row.Scan(append(slices.Clip(r.columns), more...)...); err != nil {
		return cluster.Cluster{}, err
	}
	return r.cluster()
}

// cluster is the one that was scanned. The row forgets it before it is used again.
func (r *clusterRow) cluster() (cluster.Cluster, error) {
	c := &r.c
	c.ID, c.Account, c.Size, c.Port, c.PoolPort = cluster.ID(r.id), account.ID(r.owner), int(r.size), int(r.port), int(r.poolPort)
	c.Failovers, c.AutoSuspend, c.Autoscale.Percent = int(r.failovers), int(r.autoSuspend), int(r.autoscalePercent)
	if r.forkSource != nil {
		c.Fork = &cluster.Fork{Source: cluster.ID(*r.forkSource), RestoreTime: r.forkTime, Asked: r.forkAsked}
	}
	c.Engine, c.Status, c.AllowList = cluster.Engine(r.engine), cluster.Status(r.status), r.list
	c.Replication, c.Commit = cluster.Replication(r.replication), cluster.Commit(r.commit)
	for _, column := range []struct {
		name string
		text []byte
		into any
	}{
		{"updates", r.updates, &c.Updates},
		{"engine_config", r.config, &c.Config},
		{"allow_list_notes", r.notes, &c.AllowNotes},
		{"pools", r.pools, &c.Pools},
		{"members", r.members, &c.Members},
		{"tasks", r.tasks, &c.Maintenance.Tasks},
	} {
		if len(column.text) == len("{}") {
			continue // most databases have none of most of them, which takes as long to decode as a few do
		}
		if err := json.Unmarshal(column.text, column.into); err != nil {
			return cluster.Cluster{}, fmt.Errorf("decode %s: %w", column.name, err)
		}
	}
	c.AllowNotes = c.AllowNotes.Of(c.AllowList)
	return *c, nil
}

// ClusterForWork is a cluster whoever owns it, also one that is deleted but
// not removed yet.
func (q queries) ClusterForWork(ctx context.Context, id cluster.ID) (cluster.Cluster, error) {
	return q.oneCluster(ctx, selectCluster+" FROM clusters WHERE id = $1", int64(id))
}

// ClustersForWork are all of them.
func (q queries) ClustersForWork(ctx context.Context) ([]cluster.Cluster, error) {
	return collect(ctx, q.db, scanCluster, selectCluster+" FROM clusters ORDER BY id")
}

// UpdateCluster writes label, series, type, nodes, allow_list with its notes, window, config, auto_suspend, protection, pools and
// status of c, which was read with c.Generation; ErrStale when it changed since.
func (t *Tx) UpdateCluster(ctx context.Context, c cluster.Cluster) (cluster.Cluster, error) {
	updates, err := json.Marshal(c.Updates)
	if err != nil {
		return c, fmt.Errorf("encode window: %w", err)
	}
	config, err := json.Marshal(configured(c))
	if err != nil {
		return c, fmt.Errorf("encode engine_config: %w", err)
	}
	pools, err := json.Marshal(append([]cluster.Pool{}, c.Pools...))
	if err != nil {
		return c, fmt.Errorf("encode pools: %w", err)
	}
	notes, err := encodeNotes(c.AllowNotes)
	if err != nil {
		return c, err
	}
	if err := t.countUsageOf(ctx, c.ID); err != nil {
		return c, err
	}
	c.Updated = t.now()
	n, err := t.q.ClusterUpdate(ctx, dbsqlc.ClusterUpdateParams{
		ID: int64(c.ID), Generation: c.Generation, Label: c.Label, Series: c.Series, Type: c.Type, AllowList: nonNil(c.AllowList), Updates: updates,
		Status: string(c.Status), Updated: c.Updated, Size: int32(c.Size),
		ReplicationType: string(c.Replication), CommitType: string(c.Commit), EngineConfig: config,
		AutoSuspend: int32(c.AutoSuspend), Protected: c.Protected,
		Autoscale: c.Autoscale.Enabled, AutoscalePercent: int32(c.Autoscale.Percent), AutoscaleMax: c.Autoscale.Max, Pools: pools, AllowListNotes: notes,
	})
	if err != nil {
		return c, classify(err)
	}
	if n == 0 {
		return c, ErrStale
	}
	c.Generation++
	return c, nil
}

// Transition moves the cluster by the table of package cluster; ErrNoTransition
// when the table has no such row or another writer was first.
func (t *Tx) Transition(ctx context.Context, c cluster.Cluster, on cluster.Trigger) (cluster.Cluster, error) {
	to, ok := cluster.Next(c.Status, on)
	if !ok {
		return c, fmt.Errorf("%w: %s on %s", ErrNoTransition, c.Status, on)
	}
	if c.Status == cluster.Suspended || to == cluster.Suspended {
		if err := t.countUsageOf(ctx, c.ID); err != nil {
			return c, err
		}
	}
	now := t.now()
	n, err := t.q.ClusterTransition(ctx, dbsqlc.ClusterTransitionParams{ID: int64(c.ID), FromStatus: string(c.Status), ToStatus: string(to), Updated: now})
	if err != nil {
		return c, classify(err)
	}
	if n == 0 {
		return c, fmt.Errorf("%w: no longer %s", ErrNoTransition, c.Status)
	}
	c.Status, c.Updated = to, now
	c.Generation++
	return c, nil
}

// RecordObserved keeps what was seen of a cluster. Nothing is written when
// nothing changed.
func (q queries) RecordObserved(ctx context.Context, id cluster.ID, o platform.Observed) error {
	members := o.Members
	if members == nil {
		members = map[string]string{}
	}
	text, err := json.Marshal(members)
	if err != nil {
		return fmt.Errorf("encode members: %w", err)
	}
	return classify(q.q.ClusterObserved(ctx, dbsqlc.ClusterObservedParams{
		ID: int64(id), HostPrimary: o.Hosts.Primary, HostSecondary: o.Hosts.Secondary, Members: text,
		Installation: o.Installation, ServerVersion: o.ServerVersion, UsedBytes: o.UsedBytes, ReadOnly: o.ReadOnly,
	}))
}

// RecordForked keeps the point in time that a forked cluster's data is of.
func (q queries) RecordForked(ctx context.Context, id cluster.ID, of time.Time) error {
	return classify(q.q.ClusterForked(ctx, of, int64(id)))
}

// RecordFailovers notes that seen changes of the primary have been told of, c
// having been read with fewer. It is false when somebody else has told of them.
func (t *Tx) RecordFailovers(ctx context.Context, c cluster.Cluster, seen int) (bool, error) {
	n, err := t.q.ClusterFailovers(ctx, dbsqlc.ClusterFailoversParams{ID: int64(c.ID), Known: int32(c.Failovers), Seen: int32(seen)})
	return n > 0, classify(err)
}

// RecordGrowth notes that a cluster is to move to the next plan, or can't. It is false when that was noted for the plan that it has
// since before.
func (t *Tx) RecordGrowth(ctx context.Context, id cluster.ID, at, before time.Time) (bool, error) {
	n, err := t.q.ClusterGrew(ctx, dbsqlc.ClusterGrewParams{ID: int64(id), At: at, Before: before})
	return n > 0, classify(err)
}

// RecordSleep notes since when a cluster sleeps, nil while it doesn't. It is false when that is known.
func (t *Tx) RecordSleep(ctx context.Context, id cluster.ID, since *time.Time) (bool, error) {
	n, err := t.q.ClusterSleeping(ctx, since, int64(id))
	return n > 0, classify(err)
}

// MarkDeleted hides the cluster from customers and frees its label; ErrStale
// when it changed since it was read.
func (t *Tx) MarkDeleted(ctx context.Context, c cluster.Cluster) error {
	if err := t.countUsageOf(ctx, c.ID); err != nil {
		return err
	}
	n, err := t.q.ClusterMarkDeleted(ctx, dbsqlc.ClusterMarkDeletedParams{ID: int64(c.ID), Generation: c.Generation, Deleted: t.now()})
	if err == nil && n == 0 {
		return ErrStale
	}
	return classify(err)
}

// Undelete shows a cluster again whose delete is done but whose backups were
// kept: failed, since nothing of it runs. ErrStale when there is none such.
func (t *Tx) Undelete(ctx context.Context, id cluster.ID) error {
	n, err := t.q.ClusterUndelete(ctx, t.now(), int64(id))
	return changedOne(n, err)
}

// RemoveCluster drops the row, its secrets and its port, once nothing else is left.
func (t *Tx) RemoveCluster(ctx context.Context, id cluster.ID) error {
	if err := t.q.LeasesForget(ctx, []int64{leaseKey(workLease, id), leaseKey(backupLease, id)}); err != nil {
		return fmt.Errorf("forget the leases: %w", err)
	}
	return classify(t.q.ClusterRemove(ctx, int64(id)))
}
