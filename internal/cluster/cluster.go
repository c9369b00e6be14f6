// Package cluster holds what a managed database is: what was asked for (Spec),
// what was seen (Observed), its status and the one table of status changes.
// No I/O, no goroutines, no clock.
package cluster

import (
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/parameter"
)

// ID identifies a database of a customer.
type ID int64

// Engine is a family of database servers.
type Engine string

// The two families of the API. MySQL covers MariaDB and Oracle's MySQL, whose
// series never clash (10.11, 11.8 against 8.4, 9.7).
const (
	MySQL      Engine = "mysql"
	PostgreSQL Engine = "postgresql"
)

// Replication is the API's replication_type.
type Replication string

// SemiSynch exists for MySQL only.
const (
	ReplicationNone Replication = "none"
	Asynch          Replication = "asynch"
	SemiSynch       Replication = "semi_synch"
)

// Commit is the API's replication_commit_type; it becomes PostgreSQL's
// synchronous_commit.
type Commit string

// The five levels of PostgreSQL.
const (
	CommitOn          Commit = "on"
	CommitLocal       Commit = "local"
	CommitRemoteWrite Commit = "remote_write"
	CommitRemoteApply Commit = "remote_apply"
	CommitOff         Commit = "off"
)

// Role is what a node is to its cluster.
type Role string

// A cluster has one primary, which takes the writes; the rest are replicas.
const (
	Primary Role = "primary"
	Replica Role = "replica"
)

// Spec is what was asked for.
type Spec struct {
	Label  string
	Engine Engine
	// Series is the release series, "15" or "10.11": the part after the slash
	// of an engine id.
	Series        string
	Region        string
	Type          string
	Size          int
	Encrypted     bool
	SSLConnection bool
	AllowList     AllowList
	AllowNotes    AllowNotes
	Replication   Replication
	// Commit is empty for MySQL.
	Commit  Commit
	Updates Window
	// AutoSuspend is after how many minutes without a session it falls asleep; 0 for never.
	AutoSuspend int
	// Protected reports whether it can't be deleted before this is taken back.
	Protected bool
	// Autoscale is when it moves to the next plan by itself.
	Autoscale Autoscale
	// AskedAutoSuspend is what a request to create asks for of that; nil for the default.
	AskedAutoSuspend *int
	// Asked is what a request to create asks for of that; the rest is the default.
	Asked WindowChange
	// Config are the server's settings that were chosen; the rest follows from the plan.
	Config parameter.Config
	// AskedConfig is what a request to create asks for of these, as it came.
	AskedConfig map[string]any
	// Fork is what the data is taken from; nil for a database that begins empty.
	Fork *Fork
	// Pools are its connection pools, sorted by label. No request to create has any.
	Pools []Pool
}

// Fork says which database another one is made from. What its spec leaves empty,
// of label, region, type, series and size, is as it is for the source.
type Fork struct {
	Source ID
	// RestoreTime is the moment that the data is of; nil, until it is known, for
	// the newest that there is.
	RestoreTime *time.Time
	// Asked is the moment that the request named; nil for the newest that there is.
	Asked *time.Time
	// SameEncryption asks for data that is encrypted if the source's is. It is part
	// of the request only: what came of it is in Spec.Encrypted.
	SameEncryption bool
}

// EngineID is "engine/series", as in a create request.
func (s Spec) EngineID() string { return string(s.Engine) + "/" + s.Series }

// Major is the major version of a release series: 10 of 10.11, 15 of 15.
func Major(series string) string {
	major, _, _ := strings.Cut(series, ".")
	return major
}

// Cluster is a managed database as kept in the store.
type Cluster struct {
	ID      ID
	Account account.ID
	Spec
	Status  Status
	Created time.Time
	Updated time.Time
	// Port is the public port; on the host platform it also determines the
	// nodes' addresses and the operating system's user.
	Port int
	// PoolPort is the public port of its connection pools, which determines the pooler's address and user as Port does
	// those of nodes; 0 before there was the first. It stays.
	PoolPort int
	// Hosts are empty until provisioned.
	Hosts Hosts
	// Members maps an address to "primary" or "failover". Empty until provisioned.
	Members map[string]string
	// Platform is what its region's was when it was made, as the catalog names it; "" for this host.
	Platform string
	// Installation names the exact server build the nodes run, "" before the
	// first start. A cluster stays with one builder for life.
	Installation string
	// ServerVersion is the exact version the server reports, such as "15.18".
	ServerVersion string
	// UsedBytes is the disk in use by all of the primary's files; nil until measured.
	UsedBytes *int64
	// ReadOnly is set while the disk guard keeps the database from growing.
	ReadOnly bool
	// Failovers counts the changes of the primary that have been told of.
	Failovers int
	// LockedOut reports whether a restore brought back an older root password than
	// the one the API answers.
	LockedOut bool
	// LastAuto is when the last automatic backup began, also if it is gone.
	LastAuto *time.Time
	// OldestBackup is when the oldest complete backup began, nil without any.
	OldestBackup *time.Time
	// NewestBackup is when the newest backup began that can be restored, nil without any.
	NewestBackup *time.Time
	// ProvenBackup is when the newest backup began that was proven to restore, nil without any.
	ProvenBackup *time.Time
	// BackupFailed reports whether the newest backup that has ended failed, or was tried out and doesn't restore.
	BackupFailed bool
	// Maintenance is what waits for the next window.
	Maintenance Maintenance
	// SleepingSince is since when it sleeps; nil while it doesn't.
	SleepingSince *time.Time
	// Generation counts changes of the row; a stale writer's update fails.
	Generation int64
	// Deleted is when the customer deleted it; the row lives on, unseen, until
	// its resources are removed.
	Deleted *time.Time
	// FinalUntil is until when the last backup of a deleted database is kept for its owner; nil without any.
	FinalUntil *time.Time
}

// Hosts are the two stable addresses of a database.
type Hosts struct {
	Primary   string
	Secondary string
}

// Gigabytes rounds up: something in use is never shown as nothing.
func Gigabytes(bytes int64) int { return int((bytes + 1<<30 - 1) >> 30) }
