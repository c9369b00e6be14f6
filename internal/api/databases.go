package api

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/store"
)

var (
	readDatabases  = account.Scope{Area: account.AreaDatabases, Access: account.ReadOnlyAccess}
	writeDatabases = account.Scope{Area: account.AreaDatabases, Access: account.ReadWriteAccess}
)

type instancePath struct {
	ID int64 `path:"instanceId" minimum:"1" doc:"The database."`
}

// hostsView are a database's addresses, null until provisioned.
type hostsView struct {
	Primary   *string `json:"primary"`
	Secondary *string `json:"secondary"`
	Standby   *string `json:"standby" doc:"The same as secondary, as newer clients call it."`
	// Endpoints are the same addresses, as clients of private networks look for them.
	Endpoints []endpointView `json:"endpoints" nullable:"false" doc:"The same addresses with their port; none until provisioned."`
}

// endpointView is an address to connect to.
type endpointView struct {
	Role    string `json:"role" enum:"primary,standby,primary-connection-pool" doc:"primary takes writes, standby reads; at primary-connection-pool the labels of connection pools are databases to connect to."`
	Address string `json:"address"`
	Port    int    `json:"port"`
	Public  bool   `json:"public_access" doc:"Always true: private networks aren't offered; allow_list says who gets in."`
}

// windowView is the maintenance window.
type windowView struct {
	Frequency   string `json:"frequency" enum:"weekly,monthly"`
	Duration    int    `json:"duration" doc:"Hours, 1-4."`
	HourOfDay   int    `json:"hour_of_day" doc:"0-23, UTC."`
	DayOfWeek   int    `json:"day_of_week" doc:"1-7, Monday is 1."`
	WeekOfMonth *int   `json:"week_of_month" doc:"1-4 for monthly windows, null for weekly ones."`
	// Pending is what waits for the window.
	Pending []pendingView `json:"pending" nullable:"false" doc:"What will be done in the window."`
}

// pendingView is one thing that waits for the window.
type pendingView struct {
	Deadline    *string `json:"deadline" format:"date-time" doc:"By when it must be done; null when it can wait."`
	Description string  `json:"description"`
	PlannedFor  *string `json:"planned_for" format:"date-time" doc:"When the window opens; null while the database is suspended."`
}

const (
	// defaultDatabase is the logical database that every server is made with.
	defaultDatabase = "defaultdb"
	// platformName is the one platform there is, by the name that clients know.
	platformName = "rdbms-default"
)

// databaseView is a database with every field. commit_type is PostgreSQL's only.
type databaseView struct {
	ID              int64             `json:"id"`
	Label           string            `json:"label"`
	Engine          string            `json:"engine" enum:"mysql,postgresql"`
	Version         string            `json:"version" doc:"The release series that was asked for."`
	ServerVersion   *string           `json:"server_version" doc:"The exact version that runs."`
	Region          string            `json:"region"`
	Type            string            `json:"type"`
	ClusterSize     int               `json:"cluster_size" enum:"1,3"`
	Encrypted       bool              `json:"encrypted"`
	SSLConnection   bool              `json:"ssl_connection"`
	AllowList       []string          `json:"allow_list" nullable:"false"`
	AllowNotes      map[string]string `json:"allow_list_notes" doc:"What items of allow_list are for, by item."`
	Hosts           hostsView         `json:"hosts"`
	Members         map[string]string `json:"members" doc:"Addresses with the role behind them: primary or failover."`
	Port            int               `json:"port"`
	DatabaseName    string            `json:"database_name" doc:"The logical database to connect to, that the server is made with."`
	Platform        string            `json:"platform" enum:"rdbms-default"`
	PrivateNetwork  map[string]any    `json:"private_network" nullable:"true" doc:"Null: private networks aren't offered."`
	EngineConfig    map[string]any    `json:"engine_config" doc:"The server's settings that were chosen, in their sections; the rest follows from the plan."`
	Status          string            `json:"status" enum:"provisioning,active,suspending,suspended,resuming,restoring,failed,degraded,updating,backing_up"`
	Created         string            `json:"created" format:"date-time"`
	Updated         string            `json:"updated" format:"date-time"`
	Updates         windowView        `json:"updates"`
	TotalDiskSizeGB *int              `json:"total_disk_size_gb"`
	UsedDiskSizeGB  *int              `json:"used_disk_size_gb"`
	ReadOnly        bool              `json:"read_only" doc:"The disk guard holds: the plan's disk is nearly full."`
	Replication     string            `json:"replication_type" enum:"none,asynch,semi_synch"`
	Commit          string            `json:"replication_commit_type,omitempty" enum:"on,local,remote_write,remote_apply,off" doc:"PostgreSQL only."`
	Fork            *forkView         `json:"fork" doc:"What the database was made from; null for one that began empty."`
	OldestRestore   *string           `json:"oldest_restore_time" format:"date-time" doc:"When the oldest complete backup began; null without any."`
	NewestRestore   *string           `json:"newest_restore_time" format:"date-time" doc:"The newest moment that can be restored: when the newest backup began or, where the operator archives continuously, a minute or two ago; null without a backup. restore-windows has all."`
	ProvenBackup    *string           `json:"last_proven_backup" format:"date-time" doc:"When the newest backup began that was tried out and proven to restore; null without any."`
	BackupProblem   *string           `json:"backup_problem" enum:"failed,unproven" doc:"failed: the newest backup that has ended failed, or was tried out and doesn't restore. unproven: the newest one that can be relied on is older than the alert backup-missing lets it be. null: neither."`
	Protected       bool              `json:"deletion_protection" doc:"It can't be deleted before this is false."`
	Autoscale       autoscaleView     `json:"autoscale"`
	AutoSuspend     autoSuspendView   `json:"auto_suspend"`
	Sleeping        bool              `json:"sleeping" doc:"No server runs until somebody connects."`
	SleepingSince   *string           `json:"sleeping_since" format:"date-time" doc:"Since when it sleeps; null while it doesn't."`
}

// autoscaleView is when a database moves to the next type by itself.
type autoscaleView struct {
	Enabled bool    `json:"enabled"`
	Percent int     `json:"threshold_percent" doc:"So many percent of the type's disk are in use then."`
	Max     *string `json:"max_type" doc:"The type beyond which it doesn't grow; null for none."`
}

// autoscale asks for it.
type autoscale struct {
	Enabled *bool   `json:"enabled,omitempty"`
	Percent *int    `json:"threshold_percent,omitempty" minimum:"50" maximum:"90" doc:"80 when left out at first."`
	Max     *string `json:"max_type,omitempty" doc:"Of those offered with more disk and no less of anything else, up to this one, the next is taken. Required when enabled."`
}

func (a *autoscale) change() *cluster.AutoscaleChange {
	if a == nil {
		return nil
	}
	return &cluster.AutoscaleChange{Enabled: a.Enabled, Percent: a.Percent, Max: a.Max}
}

// autoSuspendView is when a database falls asleep.
type autoSuspendView struct {
	IdleMinutes int `json:"idle_minutes" doc:"After how many minutes without a session it falls asleep; 0 for never."`
}

// autoSuspend asks for it.
type autoSuspend struct {
	IdleMinutes *int `json:"idle_minutes,omitempty" minimum:"0" maximum:"10080" doc:"After how many minutes without a session the database falls asleep, until somebody connects; 0 for never."`
}

// minutes are those that are asked for; nil for none.
func (a *autoSuspend) minutes() *int {
	if a == nil {
		return nil
	}
	return a.IdleMinutes
}

// TransformSchema says that a database may be no fork, and what members are.
func (*databaseView) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	orNullObject(s, "fork")
	s.Properties["members"].AdditionalProperties = &huma.Schema{Type: huma.TypeString, Enum: []any{"primary", "failover"}}
	return s
}

// forkView is what a database was made from.
type forkView struct {
	Source      int64   `json:"source" doc:"The database; it may be gone."`
	RestoreTime *string `json:"restore_time" format:"date-time" doc:"The moment that was asked for, or else the one the data is of; null until it is known."`
	RestoredTo  *string `json:"restored_to" format:"date-time" doc:"The moment the data is of, which can be earlier than what was asked for; null until it is known."`
}

func showFork(f *cluster.Fork) *forkView {
	if f == nil {
		return nil
	}
	return &forkView{int64(f.Source), optionalTime(cmp.Or(f.Asked, f.RestoreTime)), optionalTime(f.RestoreTime)}
}

// anyDatabaseView is an item of the list over all engines: what databases of all of
// them have.
type anyDatabaseView struct {
	AllowList       []string          `json:"allow_list" nullable:"false"`
	BackupProblem   *string           `json:"backup_problem" enum:"failed,unproven" doc:"failed: the newest backup that has ended failed, or was tried out and doesn't restore. unproven: the newest one that can be relied on is older than the alert backup-missing lets it be. null: neither."`
	ClusterSize     int               `json:"cluster_size" enum:"1,3"`
	Created         string            `json:"created" format:"date-time"`
	Encrypted       bool              `json:"encrypted"`
	Engine          string            `json:"engine" enum:"mysql,postgresql"`
	Fork            *forkView         `json:"fork" doc:"What the database was made from; null for one that began empty."`
	Hosts           hostsView         `json:"hosts"`
	ID              int64             `json:"id"`
	InstanceURI     string            `json:"instance_uri"`
	Label           string            `json:"label"`
	ProvenBackup    *string           `json:"last_proven_backup" format:"date-time" doc:"When the newest backup began that was tried out and proven to restore; null without any."`
	Members         map[string]string `json:"members" doc:"Addresses with the role behind them: primary or failover."`
	OldestRestore   *string           `json:"oldest_restore_time" format:"date-time" doc:"When the oldest complete backup began; null without any."`
	Platform        string            `json:"platform" enum:"rdbms-default"`
	Port            int               `json:"port"`
	PrivateNetwork  map[string]any    `json:"private_network" nullable:"true" doc:"Null: private networks aren't offered."`
	Region          string            `json:"region"`
	SSLConnection   bool              `json:"ssl_connection"`
	Status          string            `json:"status" enum:"provisioning,active,suspending,suspended,resuming,restoring,failed,degraded,updating,backing_up"`
	TotalDiskSizeGB *int              `json:"total_disk_size_gb"`
	Type            string            `json:"type"`
	Updated         string            `json:"updated" format:"date-time"`
	Updates         windowView        `json:"updates"`
	UsedDiskSizeGB  *int              `json:"used_disk_size_gb"`
	Version         string            `json:"version"`
}

// TransformSchema says the same of these members as of a database's.
func (*anyDatabaseView) TransformSchema(r huma.Registry, s *huma.Schema) *huma.Schema {
	return (*databaseView)(nil).TransformSchema(r, s)
}

func showHosts(c cluster.Cluster) hostsView {
	h := c.Hosts
	if h.Primary == "" {
		return hostsView{Endpoints: []endpointView{}}
	}
	v := hostsView{&h.Primary, &h.Secondary, &h.Secondary, []endpointView{
		{"primary", h.Primary, c.Port, true}, {"standby", h.Secondary, c.Port, true},
	}}
	if len(c.Pools) > 0 {
		v.Endpoints = append(v.Endpoints, endpointView{"primary-connection-pool", h.Primary, c.PoolPort, true})
	}
	return v
}

func (a *API) showWindow(c cluster.Cluster) windowView {
	w := c.Updates
	planned := control.Plan(c, a.Now())
	v := windowView{string(w.Frequency), w.Duration, w.HourOfDay, w.DayOfWeek, w.WeekOfMonth, make([]pendingView, len(planned))}
	for i, p := range planned {
		v.Pending[i] = pendingView{Deadline: optionalTime(p.Deadline), Description: p.Description(), PlannedFor: plannedFor(p)}
	}
	return v
}

func (a *API) showDatabase(c cluster.Cluster) databaseView {
	v := databaseView{
		ID: int64(c.ID), Label: c.Label, Engine: string(c.Engine), Version: c.Series, Region: c.Region, Type: c.Type,
		ClusterSize: c.Size, Encrypted: c.Encrypted, SSLConnection: c.SSLConnection, AllowList: append([]string{}, c.AllowList...),
		Hosts: showHosts(c), Members: c.Members, Port: c.Port, Status: string(c.Status),
		DatabaseName: defaultDatabase, Platform: platformName, EngineConfig: c.Config.Sectioned(string(c.Engine)),
		Created: showTime(c.Created), Updated: showTime(c.Updated), Updates: a.showWindow(c),
		ReadOnly: c.ReadOnly, Replication: string(c.Replication), Commit: string(c.Commit),
		Fork: showFork(c.Fork), OldestRestore: optionalTime(c.OldestBackup),
		NewestRestore: optionalTime(a.Control.Clusters.NewestRestore(c)), ProvenBackup: optionalTime(c.ProvenBackup),
		BackupProblem: textOrNull(string(a.Control.Clusters.BackupProblem(c))),
		Protected:     c.Protected, AllowNotes: map[string]string{},
		Autoscale:   autoscaleView{c.Autoscale.Enabled, c.Autoscale.OrDefault().Percent, textOrNull(c.Autoscale.Max)},
		AutoSuspend: autoSuspendView{c.AutoSuspend}, Sleeping: c.SleepingSince != nil, SleepingSince: optionalTime(c.SleepingSince),
	}
	maps.Copy(v.AllowNotes, c.AllowNotes)
	if v.Members == nil {
		v.Members = map[string]string{}
	}
	if c.ServerVersion != "" {
		v.ServerVersion = &c.ServerVersion
	}
	if c.Status != cluster.Provisioning {
		if plan, ok := a.Catalog.Plan(c.Type); ok {
			v.TotalDiskSizeGB = new(plan.DiskGB())
		}
		if c.UsedBytes != nil {
			v.UsedDiskSizeGB = new(cluster.Gigabytes(*c.UsedBytes))
		}
	}
	return v
}

func (a *API) showAnyDatabase(c cluster.Cluster) anyDatabaseView {
	v := a.showDatabase(c)
	return anyDatabaseView{
		AllowList: v.AllowList, BackupProblem: v.BackupProblem, ClusterSize: v.ClusterSize, Created: v.Created, Encrypted: v.Encrypted, Engine: v.Engine, Fork: v.Fork,
		Hosts: v.Hosts, ID: v.ID, InstanceURI: instanceURI(c.Engine, c.ID), Label: v.Label, Members: v.Members, OldestRestore: v.OldestRestore, ProvenBackup: v.ProvenBackup,
		Platform: v.Platform, Port: v.Port, PrivateNetwork: v.PrivateNetwork, Region: v.Region, SSLConnection: v.SSLConnection, Status: v.Status,
		TotalDiskSizeGB: v.TotalDiskSizeGB, Type: v.Type, Updated: v.Updated, Updates: v.Updates, UsedDiskSizeGB: v.UsedDiskSizeGB, Version: v.Version,
	}
}

func instanceURI(engine cluster.Engine, id cluster.ID) string {
	return fmt.Sprintf("/v4/databases/%s/instances/%d", engine, id)
}

// Ordered are the members that a fork takes from its source where they are left
// out; all others have to say the first four. Exported, since Huma looks into
// exported members only.
type Ordered struct {
	Label       *string `json:"label,omitempty" nullable:"true" minLength:"3" maxLength:"32" doc:"Required, but for a fork: then the source's with -fork, or -fork-2 and so on."`
	Region      *string `json:"region,omitempty" nullable:"true" doc:"Required, but for a fork: then the source's."`
	Type        *string `json:"type,omitempty" nullable:"true" doc:"Required, but for a fork: then the source's."`
	Engine      *string `json:"engine,omitempty" nullable:"true" doc:"engine/version, as listed by /databases/engines; with a major version only, the newest of its series. Required, but for a fork: then the source's."`
	ClusterSize *int    `json:"cluster_size,omitempty" enum:"1,3" doc:"1 when left out; for a fork, as it is for the source."`
	Encrypted   *bool   `json:"encrypted,omitempty" doc:"false when left out; for a fork, as it is for the source."`

	Updates *windowUpdate `json:"updates,omitempty" doc:"The maintenance window; what is left out is chosen."`

	AutoSuspend *autoSuspend `json:"auto_suspend,omitempty" doc:"When the database falls asleep; what the operator chose when left out, and for a fork, as it is for the source."`

	Autoscale *autoscale `json:"autoscale,omitempty" doc:"When the database moves to the next type by itself; never when left out, for a fork, too."`

	AllowNotes map[string]string `json:"allow_list_notes,omitempty" doc:"What items of allow_list are for, by item, in at most 100 characters each."`

	Protected *bool `json:"deletion_protection,omitempty" doc:"Whether the database can't be deleted before this is taken back; false when left out, for a fork, too."`
}

// spec is what the members come to. faults get what is required and missing, and
// what is there but empty.
func (o Ordered) spec(engine cluster.Engine, f *cluster.Fork, faults *fault.Faults) cluster.Spec {
	text := func(field string, value *string) string {
		switch {
		case value == nil && f == nil && !faults.Name(field):
			*faults = append(*faults, fault.Required(field))
		case value != nil && *value == "":
			*faults = append(*faults, fault.NotValid(field))
		}
		return orDefault(value, "")
	}
	s := cluster.Spec{
		Label: text("label", o.Label), Region: text("region", o.Region), Type: text("type", o.Type),
		Engine: engine, Encrypted: orDefault(o.Encrypted, false), Fork: f, Asked: orDefault(o.Updates.change(), cluster.WindowChange{}),
		AskedAutoSuspend: o.AutoSuspend.minutes(), Protected: orDefault(o.Protected, false),
		AllowNotes: o.AllowNotes, Autoscale: cluster.Autoscale{}.Merge(o.Autoscale.change()),
	}
	s.Series = seriesOf(engine, text("engine", o.Engine))
	if f == nil {
		s.Size = orDefault(o.ClusterSize, 1)
		return s
	}
	s.Size, f.SameEncryption = orDefault(o.ClusterSize, 0), o.Encrypted == nil
	return s
}

// mysqlCreate is a create request for MySQL's family. Rules that need more than
// one member, or the catalog, are control's.
type mysqlCreate struct {
	Ordered
	SSLConnection *bool    `json:"ssl_connection,omitempty" default:"true"`
	Replication   string   `json:"replication_type,omitempty" enum:"none,asynch,semi_synch"`
	AllowList     []string `json:"allow_list,omitempty" nullable:"false" maxItems:"10000"`
	Fork          *fork    `json:"fork,omitempty"`
	Configured
	Unoffered
}

// fork asks for a new database with the data of another one's backup.
type fork struct {
	Source      int64   `json:"source" minimum:"1" doc:"The database whose data is taken: one of the same engine and version."`
	RestoreTime *string `json:"restore_time,omitempty" nullable:"true" format:"date-time" doc:"The moment the data is to be of; where the operator doesn't archive continuously, the newest backup before it is taken, and restored_to in the answer says when that was. The newest backup when left out."`
	// Mistagged is restore_time as linodego 1.61 and its kin write it, by a slip in
	// a tag. Taken for what is meant: ignored, they would get other data.
	Mistagged *string `json:"-,omitempty"` //nolint:staticcheck // the name is meant
}

// TransformSchema tells of the member "-", which huma takes for none.
func (*fork) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	mistagged := *s.Properties["restore_time"]
	mistagged.Description = "What some clients write instead of restore_time."
	s.Properties["-"] = &mistagged
	return s
}

// asked is the fork that is asked for, nil for none.
func (f *fork) asked(faults *fault.Faults) *cluster.Fork {
	if f == nil {
		return nil
	}
	asked := f.RestoreTime
	if asked == nil {
		asked = f.Mistagged
	}
	return &cluster.Fork{Source: cluster.ID(f.Source), RestoreTime: parseTime("fork.restore_time", asked, faults)}
}

// postgresqlCreate is a create request for PostgreSQL.
type postgresqlCreate struct {
	Ordered
	SSLConnection *bool    `json:"ssl_connection,omitempty" default:"true"`
	Replication   string   `json:"replication_type,omitempty" enum:"none,asynch"`
	Commit        string   `json:"replication_commit_type,omitempty" enum:"on,local,remote_write,remote_apply,off" default:"local"`
	AllowList     []string `json:"allow_list,omitempty" nullable:"false" maxItems:"10000"`
	Fork          *fork    `json:"fork,omitempty"`
	Configured
	Unoffered
}

// creation is what both create requests come to.
type creation interface {
	spec(engine cluster.Engine, faults *fault.Faults) cluster.Spec
}

func (b mysqlCreate) spec(engine cluster.Engine, faults *fault.Faults) cluster.Spec {
	b.refuse(faults)
	s := b.Ordered.spec(engine, b.Fork.asked(faults), faults)
	s.SSLConnection, s.AllowList, s.Replication = orDefault(b.SSLConnection, true), b.AllowList, cluster.Replication(b.Replication)
	s.AskedConfig = b.EngineConfig
	return s
}

func (b postgresqlCreate) spec(engine cluster.Engine, faults *fault.Faults) cluster.Spec {
	s := mysqlCreate{b.Ordered, b.SSLConnection, b.Replication, b.AllowList, b.Fork, b.Configured, b.Unoffered}.spec(engine, faults)
	s.Commit = cluster.Commit(b.Commit)
	return s
}

// seriesOf is the part after the slash; all of an id that isn't one of the path's engine, which no series is named.
func seriesOf(engine cluster.Engine, id string) string {
	family, series, _ := strings.Cut(id, "/")
	if series == "" || family != string(engine) {
		return id
	}
	return series
}

func orDefault[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}

// databaseUpdate is an update request.
type databaseUpdate struct {
	Label       *string            `json:"label,omitempty" minLength:"3" maxLength:"32"`
	Type        *string            `json:"type,omitempty" doc:"Another plan. One with less disk only while the data takes 80 % of that at most."`
	AllowList   *[]string          `json:"allow_list,omitempty" nullable:"false" maxItems:"10000" doc:"Replaces the whole list."`
	AllowNotes  *map[string]string `json:"allow_list_notes,omitempty" doc:"What items of allow_list are for, by item, in at most 100 characters each. Replaces all notes; when left out those stay whose items do."`
	Updates     *windowUpdate      `json:"updates,omitempty"`
	AutoSuspend *autoSuspend       `json:"auto_suspend,omitempty"`
	Autoscale   *autoscale         `json:"autoscale,omitempty"`
	Version     *string            `json:"version,omitempty" doc:"As it is; or a newer release series, or its major version, that the data is moved to: by itself, with a pause that upgrade-check tells beforehand."`
	Protected   *bool              `json:"deletion_protection,omitempty" doc:"Whether the database can't be deleted before this is taken back."`
	// How many nodes there are to be.
	ClusterSize *int    `json:"cluster_size,omitempty" enum:"1,3" doc:"Nodes come and go while the database is written to."`
	Replication *string `json:"replication_type,omitempty" enum:"none,asynch,semi_synch" doc:"As it is, or another together with another cluster_size; what suits that when left out."`
	Commit      *string `json:"replication_commit_type,omitempty" enum:"on,local,remote_write,remote_apply,off" doc:"As it is, or another together with another cluster_size."`
	FixedMembers
	Configured
	Unoffered
}

// FixedMembers can't be changed; clients that send all of a database may send
// them as they are. Exported, since Huma looks into exported members only.
type FixedMembers struct {
	Engine        *string `json:"engine,omitempty" doc:"As it is; with or without the version, or its major version."`
	Region        *string `json:"region,omitempty" doc:"As it is."`
	Encrypted     *bool   `json:"encrypted,omitempty" doc:"As it is."`
	SSLConnection *bool   `json:"ssl_connection,omitempty" doc:"As it is."`
}

func (m FixedMembers) fixed() control.Fixed {
	return control.Fixed{
		Engine: m.Engine, Region: m.Region, Encrypted: m.Encrypted, SSLConnection: m.SSLConnection,
	}
}

// windowUpdate merges single keys into the window.
type windowUpdate struct {
	Frequency *string `json:"frequency,omitempty" enum:"weekly,monthly"`
	Duration  *int    `json:"duration,omitempty" minimum:"1" maximum:"4"`
	HourOfDay *int    `json:"hour_of_day,omitempty" minimum:"0" maximum:"23"`
	DayOfWeek *int    `json:"day_of_week,omitempty" minimum:"1" maximum:"7"`
	// WeekOfMonth is null for weekly windows, and nothing but.
	WeekOfMonth optional[int] `json:"week_of_month,omitzero" minimum:"1" maximum:"4"`
}

// change is what is asked for; nil for nothing.
func (u *windowUpdate) change() *cluster.WindowChange {
	if u == nil {
		return nil
	}
	return &cluster.WindowChange{
		Frequency: (*cluster.Frequency)(u.Frequency), Duration: u.Duration, HourOfDay: u.HourOfDay, DayOfWeek: u.DayOfWeek,
		WeekOfMonth: u.WeekOfMonth.value, NoWeek: u.WeekOfMonth.null(),
	}
}

// change is what the request asks for; faults gets what isn't offered.
func (b databaseUpdate) change(faults *fault.Faults) control.UpdateCluster {
	b.refuse(faults)
	in := control.UpdateCluster{
		Label: b.Label, Type: b.Type, AllowList: b.AllowList, AllowNotes: b.AllowNotes, Version: b.Version, Fixed: b.fixed(),
		Size: b.ClusterSize, Replication: (*cluster.Replication)(b.Replication), Commit: (*cluster.Commit)(b.Commit), Config: b.EngineConfig,
	}
	in.Updates, in.AutoSuspend, in.Protected, in.Autoscale = b.Updates.change(), b.AutoSuspend.minutes(), b.Protected, b.Autoscale.change()
	return in
}

type credentialsView struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

type sslView struct {
	CACertificate string `json:"ca_certificate" doc:"PEM, in base64."`
}

func (a *API) registerDatabases() {
	registerList(a, endpoint{
		method: http.MethodGet, path: "/v4/databases/instances", id: "getDatabasesInstances",
		summary: "List all databases", tag: "Databases", scope: readDatabases,
	}, store.ClusterFields, func(ctx context.Context, p account.Principal, q store.ListQuery) ([]cluster.Cluster, int, error) {
		return a.Control.Clusters.List(ctx, p, "", q)
	}, a.showAnyDatabase)
	registerEngineDatabases[mysqlCreate](a, cluster.MySQL, "MySQL")
	registerEngineDatabases[postgresqlCreate](a, cluster.PostgreSQL, "PostgreSQL")
	for _, add := range []func(cluster.Engine, string){
		a.registerBackups, a.registerUpgrades, a.registerMeasured, a.registerRestoreWindows, a.registerLogs, a.registerSlowQueries, a.registerNodes,
		a.registerQueries, a.registerStatements, a.registerLogical, a.registerMigrations,
	} {
		add(cluster.MySQL, "MySQL")
		add(cluster.PostgreSQL, "PostgreSQL")
	}
	a.registerExtensions()
	a.registerPools()
}

// registerEngineDatabases adds the operations on databases of one engine.
func registerEngineDatabases[B creation](a *API, engine cluster.Engine, name string) {
	clusters := a.Control.Clusters
	all := fmt.Sprintf("/v4/databases/%s/instances", engine)
	one := all + "/{instanceId}"
	e := func(method, path, verb, summary string, scope account.Scope) endpoint {
		return endpoint{method: method, path: path, id: verb + name + "Database", summary: summary, tag: name + " databases", scope: scope}
	}
	readSecret := func(path, verb, summary string) endpoint {
		reads := e(http.MethodGet, path, verb, summary, readDatabases)
		reads.secret = true
		return reads
	}
	register(a, endpoint{
		method: http.MethodGet, path: fmt.Sprintf("/v4/databases/%s/config", engine), id: "view" + name + "Config",
		summary: "View the server settings that can be chosen", tag: name + " databases", public: true,
	}, func(context.Context, call[none, none]) (map[string]any, error) { return showParameters(engine), nil })
	register(a, e(http.MethodGet, all, "list", "List databases", readDatabases),
		func(ctx context.Context, c call[Listing, none]) (list[databaseView], error) {
			return listPage(c.In, store.ClusterFields, a.showDatabase, func(q store.ListQuery) ([]cluster.Cluster, int, error) {
				return clusters.List(ctx, c.Principal, engine, q)
			})
		})
	register(a, e(http.MethodPost, all, "create", "Create a database", writeDatabases),
		func(ctx context.Context, c call[none, B]) (databaseView, error) {
			spec := c.Body.spec(engine, &c.Faults)
			made, err := clusters.Create(ctx, c.Principal, spec, c.Faults)
			return a.showDatabase(made), err
		})
	register(a, e(http.MethodGet, one, "view", "View a database", readDatabases),
		func(ctx context.Context, c call[instancePath, none]) (databaseView, error) {
			found, err := clusters.View(ctx, c.Principal, engine, cluster.ID(c.In.ID))
			return a.showDatabase(found), err
		})
	register(a, e(http.MethodPut, one, "update", "Update a database", writeDatabases),
		func(ctx context.Context, c call[instancePath, databaseUpdate]) (databaseView, error) {
			changed, err := clusters.Update(ctx, c.Principal, engine, cluster.ID(c.In.ID), c.Body.change(&c.Faults), c.Faults)
			return a.showDatabase(changed), err
		})
	action := func(method, path, verb, summary string, do func(context.Context, account.Principal, cluster.Engine, cluster.ID) error) {
		register(a, e(method, path, verb, summary, writeDatabases),
			func(ctx context.Context, c call[instancePath, none]) (empty, error) {
				return empty{}, do(ctx, c.Principal, engine, cluster.ID(c.In.ID))
			})
	}
	register(a, e(http.MethodDelete, one, "delete", "Delete a database", writeDatabases),
		func(ctx context.Context, c call[deletedInstance, none]) (empty, error) {
			return empty{}, clusters.Delete(ctx, c.Principal, engine, cluster.ID(c.In.ID), c.In.Final)
		})
	action(http.MethodPost, one+"/patch", "patch", "Patch a database", clusters.Patch)
	action(http.MethodPost, one+"/restart", "restart", "Start a database's servers anew, of three one after the other", clusters.Restart)
	action(http.MethodPost, one+"/switchover", "switchover", "Have another node become the primary", clusters.Switchover)
	action(http.MethodPost, one+"/suspend", "suspend", "Stop a database; its data and addresses stay", clusters.Suspend)
	action(http.MethodPost, one+"/resume", "resume", "Start a suspended database again", clusters.Resume)
	action(http.MethodPost, one+"/credentials/reset", "resetCredentialsOf", "Reset a database's credentials", clusters.ResetCredentials)
	register(a, readSecret(one+"/credentials", "viewCredentialsOf", "View a database's credentials"),
		func(ctx context.Context, c call[instancePath, none]) (credentialsView, error) {
			found, err := clusters.Credentials(ctx, c.Principal, engine, cluster.ID(c.In.ID))
			return credentialsView{found.Username, found.Password}, err
		})
	register(a, readSecret(one+"/ssl", "viewCertificateOf", "View a database's CA certificate"),
		func(ctx context.Context, c call[instancePath, none]) (sslView, error) {
			pem, err := clusters.Certificate(ctx, c.Principal, engine, cluster.ID(c.In.ID))
			return sslView{base64.StdEncoding.EncodeToString(pem)}, err
		})
}
