// Package operation is the durable account of one finite change that somebody
// asked for, or that steward found necessary. The same row drives the worker
// and is what /v4/account/events shows.
package operation

import (
	"time"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/migration"
	"steward/internal/parameter"
)

// ID identifies an operation, and the event it shows as.
type ID int64

// Action is what is done. The texts are the API's event actions.
type Action string

// The actions, as events name them.
const (
	Create           Action = "database_create"
	Update           Action = "database_update"
	Resize           Action = "database_resize"
	Delete           Action = "database_delete"
	CredentialsReset Action = "database_credentials_reset"
	Patch            Action = "database_patch"
	Restart          Action = "database_restart"
	Switchover       Action = "database_switchover"
	// Upgrade moves a database to another release series, UpgradeCheck tries that on a copy.
	Upgrade      Action = "database_upgrade"
	UpgradeCheck Action = "database_upgrade_check"
	Suspend      Action = "database_suspend"
	Resume       Action = "database_resume"
	Backup       Action = "database_backup_create"
	BackupDelete Action = "database_backup_delete"
	BackupVerify Action = "database_backup_verify_failed"
	Restore      Action = "database_backup_restore"
	RestoreUndo  Action = "database_backup_restore_undo"
	Degraded     Action = "database_degraded"
	Failover     Action = "database_failover"
	Failed       Action = "database_failed"
	Recovered    Action = "database_recovered"
	LowDiskSpace Action = "database_low_disk_space"
	ArchiveGap   Action = "database_archive_gap"
	// FellAsleep and Woke tell of a database that nobody used, and somebody needed again.
	FellAsleep Action = "database_sleep"
	Woke       Action = "database_wake"
	// MaintenanceScheduled tells ahead of what Maintenance does in its window.
	MaintenanceScheduled Action = "database_maintenance_scheduled"
	Maintenance          Action = "database_maintenance"
)

// The actions of what is inside a database, or before it.
const (
	LogicalCreate   Action = "database_logical_create"
	LogicalDelete   Action = "database_logical_delete"
	UserCreate      Action = "database_user_create"
	UserUpdate      Action = "database_user_update"
	UserDelete      Action = "database_user_delete"
	UserReset       Action = "database_user_credentials_reset"
	ExtensionCreate Action = "database_extension_create"
	ExtensionUpdate Action = "database_extension_update"
	ExtensionDelete Action = "database_extension_delete"
	Migration       Action = "database_migration"
	PoolCreate      Action = "database_pool_create"
	PoolUpdate      Action = "database_pool_update"
	PoolDelete      Action = "database_pool_delete"
)

// The actions of the monitoring service.
const (
	ServiceCreate    Action = "managed_service_create"
	ServiceUpdate    Action = "managed_service_update"
	ServiceDelete    Action = "managed_service_delete"
	ServiceDisable   Action = "managed_service_disable"
	ServiceEnable    Action = "managed_service_enable"
	ContactCreate    Action = "managed_contact_create"
	ContactUpdate    Action = "managed_contact_update"
	ContactDelete    Action = "managed_contact_delete"
	CredentialCreate Action = "managed_credential_create"
	CredentialUpdate Action = "managed_credential_update"
	CredentialDelete Action = "managed_credential_delete"
	CredentialReveal Action = "managed_credential_reveal"
	ComputeCreate    Action = "managed_compute_create"
	ComputeUpdate    Action = "managed_compute_update"
	ComputeDelete    Action = "managed_compute_delete"
	AlertCreate      Action = "alert_definition_create"
	AlertUpdate      Action = "alert_definition_update"
	AlertDelete      Action = "alert_definition_delete"
	ChannelCreate    Action = "alert_channel_create"
	ChannelUpdate    Action = "alert_channel_update"
	ChannelDelete    Action = "alert_channel_delete"
	TicketCreate     Action = "ticket_create"
	TicketUpdate     Action = "ticket_update"

	StatusPageCreate Action = "managed_status_page_create"
	StatusPageUpdate Action = "managed_status_page_update"
	StatusPageDelete Action = "managed_status_page_delete"
)

// The actions of an account, its users and what those log in with, by the names that clients know.
const (
	AccountUpdate     Action = "account_update"
	PersonCreate      Action = "user_create"
	PersonUpdate      Action = "user_update"
	PersonDelete      Action = "user_delete"
	ProfileUpdate     Action = "profile_update"
	FactorEnabled     Action = "tfa_enabled"
	FactorDisabled    Action = "tfa_disabled"
	TokenCreate       Action = "token_create"
	TokenUpdate       Action = "token_update"
	TokenDelete       Action = "token_delete"
	ClientCreate      Action = "oauth_client_create"
	ClientUpdate      Action = "oauth_client_update"
	ClientDelete      Action = "oauth_client_delete"
	ClientSecretReset Action = "oauth_client_secret_reset"
)

// EntityType is what an event is of; "" is a database.
type EntityType string

// The entities beside databases.
const (
	Database   EntityType = "database"
	Service    EntityType = "managed_service"
	Contact    EntityType = "managed_contact"
	Credential EntityType = "managed_credential"
	Machine    EntityType = "managed_compute"
	Alert      EntityType = "alert_definition"
	Channel    EntityType = "alert_channel"
	Ticket     EntityType = "ticket"
	StatusPage EntityType = "managed_status_page"
	Account    EntityType = "account"
	Person     EntityType = "user"
	Token      EntityType = "token"
	Client     EntityType = "oauth_client"
)

// Entity is what an event is of when that isn't a database.
type Entity struct {
	Type EntityType
	ID   int64
	// Key names it in a path where no number does; "" elsewhere.
	Key string
}

// Status is how far an operation is.
type Status string

// An operation goes scheduled → started → finished or failed. A notification
// (something that was found, with no work of its own) is born finished with
// status notification.
const (
	Scheduled    Status = "scheduled"
	Started      Status = "started"
	Finished     Status = "finished"
	FailedStatus Status = "failed"
	Notification Status = "notification"
)

// Done reports whether nothing more will happen.
func (s Status) Done() bool { return s == Finished || s == FailedStatus || s == Notification }

// Params is what an operation was asked to do beyond its action. The zero
// value means nothing more; it is stored as JSON.
type Params struct {
	// Type is the plan to resize to.
	Type string `json:"type,omitempty"`
	// OldType is the plan before, for the event's text.
	OldType string `json:"old_type,omitempty"`
	// Before is what the nodes were like; nil when their number stays.
	Before *cluster.Nodes `json:"before,omitempty"`
	// AllowList reports whether the allow_list changed.
	AllowList bool `json:"allow_list,omitempty"`
	// ConfigChanged reports whether the request changes engine_config, which was OldConfig.
	ConfigChanged bool             `json:"config_changed,omitempty"`
	OldConfig     parameter.Config `json:"old_config,omitempty"`
	// Companion is an operation that the same work carries out: the update of an
	// allow_list or of engine_config beside a resize. It begins, proceeds and ends with this one.
	Companion ID `json:"companion,omitempty"`
	// Backup is the one that is taken, deleted or restored, or whose restore is undone.
	Backup backup.ID `json:"backup,omitempty"`
	// BackupLabel is its label, since it may be gone when the event is read.
	BackupLabel string `json:"backup_label,omitempty"`
	// Migration is the one that is carried out.
	Migration migration.ID `json:"migration,omitempty"`
	// Follows reports whether its databases were copied and follow their source.
	Follows bool `json:"follows,omitempty"`
	// Fork is the database whose backup a new one is made of.
	Fork cluster.ID `json:"fork,omitempty"`
	// Failed reports whether the database had failed before it was to be restored.
	Failed bool `json:"failed,omitempty"`
	// To is the moment that a restore is to go on to from the backup; nil for the backup's own.
	To *time.Time `json:"to,omitempty"`
	// Recovered reports whether a restore brings a database of another server back:
	// it ends with the root password that was last known there.
	Recovered bool `json:"recovered,omitempty"`
	// Touched reports whether a restore may have begun to replace the data.
	Touched bool `json:"touched,omitempty"`
	// Placed reports whether the restored or forked data is in its place and serves.
	Placed bool `json:"placed,omitempty"`
	// Tasks are what a patch, or the work of a maintenance window, found to do.
	Tasks []cluster.Task `json:"tasks,omitempty"`
	// Until is the end of the window; nil for what no window bounds.
	Until *time.Time `json:"until,omitempty"`
	// Primary is the change of the primary that a failover tells of; nil when its nodes aren't known.
	Primary *cluster.PrimaryChange `json:"primary,omitempty"`
	// From is the primary that hands its role over; nil until it is known.
	From *int `json:"from,omitempty"`
	// Series is the one that an upgrade moves to, or tries; OldSeries the one before.
	Series    string `json:"series,omitempty"`
	OldSeries string `json:"old_series,omitempty"`
	// Trial is what a check of an upgrade found; nil until it is done.
	Trial *Trial `json:"trial,omitempty"`
	// Final reports whether a delete begins with a last backup, which is kept for a while.
	Final bool `json:"final,omitempty"`
	// Note is for people, for when the operation has succeeded.
	Note string `json:"note,omitempty"`
}

// Trial is what a check of an upgrade found.
type Trial struct {
	// Reasons are why it can't be done, a sentence each; none when it can.
	Reasons []string `json:"reasons,omitempty"`
	// PauseMS is for how many milliseconds about nobody could write.
	PauseMS int64 `json:"pause_ms,omitempty"`
}

// Operation is one change of one cluster, or the notification of a change of
// something else: then Cluster is 0, and Entity says of what.
type Operation struct {
	ID      ID
	Account account.ID
	Cluster cluster.ID
	Entity  Entity
	// Owner is the user whose own the entity is, and who sees the event even when grants bind it; 0 for none.
	Owner account.UserID
	// Label and Engine are the entity's as they were, since the cluster may be gone.
	Label    string
	Engine   cluster.Engine
	Action   Action
	Status   Status
	Username string
	Params   Params
	// Percent runs from 0 to 100; 100 once done.
	Percent int
	// Message is for people: what went wrong, or what was found.
	Message string
	// Attempt counts how often carrying it out was begun.
	Attempt  int
	Created  time.Time
	Started  *time.Time
	Finished *time.Time
	Seen     bool
	Read     bool
}

// Duration is how long the work took so far, from its start to its end or now.
func (o Operation) Duration(now time.Time) time.Duration {
	if o.Started == nil {
		return 0
	}
	if o.Finished != nil {
		return o.Finished.Sub(*o.Started)
	}
	return now.Sub(*o.Started)
}
