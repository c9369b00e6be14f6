package client

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

// Database is a managed database. See the API document for the fields.
type Database struct {
	ID            int64    `json:"id"`
	Label         string   `json:"label"`
	Engine        string   `json:"engine"`
	Version       string   `json:"version"`
	ServerVersion string   `json:"server_version,omitempty"`
	Region        string   `json:"region"`
	Type          string   `json:"type"`
	ClusterSize   int      `json:"cluster_size"`
	Status        string   `json:"status"`
	Encrypted     bool     `json:"encrypted"`
	SSLConnection bool     `json:"ssl_connection"`
	AllowList     []string `json:"allow_list"`
	Hosts         Hosts    `json:"hosts"`
	// DatabaseName is the logical database to connect to.
	DatabaseName string `json:"database_name"`
	Port         int    `json:"port"`
	Created      string `json:"created"`
	Updated      string `json:"updated"`
	// AllowListNotes say what items of the allow list are for.
	AllowListNotes map[string]string `json:"allow_list_notes"`
	UsedDiskGB     *int              `json:"used_disk_size_gb"`
	TotalDiskGB    *int              `json:"total_disk_size_gb"`
	Fork           *Fork             `json:"fork"`
	// OldestRestoreTime is when the oldest complete backup began, "" without any.
	OldestRestoreTime string `json:"oldest_restore_time"`
	// NewestRestoreTime is the newest moment that can be restored, "" without a backup.
	NewestRestoreTime string `json:"newest_restore_time"`
	// LastProvenBackup is when the newest backup began that was proven to restore, "" without any.
	LastProvenBackup string `json:"last_proven_backup"`
	// BackupProblem is failed, unproven or "": what is wrong with its backups.
	BackupProblem string `json:"backup_problem"`
	// Updates is the maintenance window.
	Updates Window `json:"updates"`
	// EngineConfig are the settings of the server that were chosen.
	EngineConfig EngineConfig `json:"engine_config"`
	AutoSuspend  AutoSuspend  `json:"auto_suspend"`
	Autoscale    Autoscale    `json:"autoscale"`
	// DeletionProtection reports whether it can't be deleted before this is taken back.
	DeletionProtection bool `json:"deletion_protection"`
	// Sleeping reports whether no server runs until somebody connects, SleepingSince since when; "" while it doesn't.
	Sleeping      bool   `json:"sleeping"`
	SleepingSince string `json:"sleeping_since,omitempty"`
}

// AutoSuspend is when a database falls asleep.
type AutoSuspend struct {
	// IdleMinutes is after how many minutes without a session; 0 for never.
	IdleMinutes int `json:"idle_minutes"`
}

// Autoscale is when a database moves to the next type by itself: when so many percent of its disk are in use, up to Max. In a
// request what is nil or "" stays as it is.
type Autoscale struct {
	Enabled *bool  `json:"enabled,omitempty"`
	Percent *int   `json:"threshold_percent,omitempty"`
	Max     string `json:"max_type,omitempty"`
}

// Window is when maintenance happens, and what will be done in the next one. Hours
// are UTC, Monday is 1.
type Window struct {
	Frequency   string    `json:"frequency"`
	Duration    int       `json:"duration"`
	HourOfDay   int       `json:"hour_of_day"`
	DayOfWeek   int       `json:"day_of_week"`
	WeekOfMonth *int      `json:"week_of_month"`
	Pending     []Pending `json:"pending"`
}

// Pending is one thing that waits for the window. Deadline and PlannedFor are ""
// when there is none.
type Pending struct {
	Deadline    string `json:"deadline"`
	Description string `json:"description"`
	PlannedFor  string `json:"planned_for"`
}

// Fork says which database's backup another one is made of. RestoreTime is the
// moment that is asked for, "" for the newest backup. RestoredTo, in answers only, is
// the moment that the data is of; "" until it is known.
type Fork struct {
	Source      int64  `json:"source"`
	RestoreTime string `json:"restore_time,omitempty"`
	RestoredTo  string `json:"restored_to,omitempty"`
}

// Hosts are a database's two stable addresses, "" until provisioned.
type Hosts struct {
	Primary   string `json:"primary"`
	Secondary string `json:"secondary"`
}

// CreateDatabase is a create request; Engine is "engine/version".
type CreateDatabase struct {
	Label         string   `json:"label"`
	Engine        string   `json:"engine"`
	Region        string   `json:"region"`
	Type          string   `json:"type"`
	ClusterSize   int      `json:"cluster_size,omitempty"`
	Encrypted     bool     `json:"encrypted,omitempty"`
	SSLConnection *bool    `json:"ssl_connection,omitempty"`
	AllowList     []string `json:"allow_list"`
	// AllowListNotes say what items of AllowList are for.
	AllowListNotes map[string]string `json:"allow_list_notes,omitempty"`
	Fork           *Fork             `json:"fork,omitempty"`
	// EngineConfig are settings of the server.
	EngineConfig EngineConfig `json:"engine_config,omitempty"`
	// AutoSuspend is when it falls asleep; nil for what the operator chose.
	AutoSuspend *AutoSuspend `json:"auto_suspend,omitempty"`
	// Autoscale is when it moves to the next type; nil for never.
	Autoscale *Autoscale `json:"autoscale,omitempty"`
	// DeletionProtection is whether it can't be deleted before this is taken back.
	DeletionProtection bool `json:"deletion_protection,omitempty"`
}

// UpdateDatabase is an update request; nil fields stay as they are.
type UpdateDatabase struct {
	Label     *string   `json:"label,omitempty"`
	Type      *string   `json:"type,omitempty"`
	AllowList *[]string `json:"allow_list,omitempty"`
	// AllowListNotes replace all notes; nil keeps those of the items that stay.
	AllowListNotes *map[string]string `json:"allow_list_notes,omitempty"`
	// Version is a newer release series that the data is moved to.
	Version *string `json:"version,omitempty"`
	// ClusterSize is the number of nodes.
	ClusterSize *int `json:"cluster_size,omitempty"`
	// EngineConfig are settings of the server; nil takes one away.
	EngineConfig EngineConfig `json:"engine_config,omitempty"`
	AutoSuspend  *AutoSuspend `json:"auto_suspend,omitempty"`
	Autoscale    *Autoscale   `json:"autoscale,omitempty"`
	// DeletionProtection is whether it can't be deleted before this is taken back.
	DeletionProtection *bool `json:"deletion_protection,omitempty"`
}

// Credentials are those of a database's root user.
type Credentials struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

func instances(engine string) string { return "/v4/databases/" + engine + "/instances" }

// Path is the database's address in the API.
func (d Database) Path() string { return fmt.Sprintf("%s/%d", instances(d.Engine), d.ID) }

// Databases are all the caller can see, of all engines, with every field.
func (c *Client) Databases(ctx context.Context) ([]Database, error) {
	var all []Database
	for _, engine := range []string{"mysql", "postgresql"} {
		found, err := list[Database](ctx, c, instances(engine), 0)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// Find looks a database up by id or label.
func (c *Client) Find(ctx context.Context, idOrLabel string) (Database, error) {
	return find(ctx, c.Databases, "database", idOrLabel, func(one Database) (int64, []string) { return one.ID, []string{one.Label} })
}

// Database reads a database anew.
func (c *Client) Database(ctx context.Context, d Database) (Database, error) {
	return ask[Database](ctx, c, http.MethodGet, d.Path(), nil)
}

// CreateDatabase asks for a database; it is provisioning when this returns.
func (c *Client) CreateDatabase(ctx context.Context, in CreateDatabase) (Database, error) {
	engine, _, _ := strings.Cut(in.Engine, "/")
	if engine != "mysql" && engine != "postgresql" {
		return Database{}, fmt.Errorf("engine %q: write it as postgresql/VERSION or mysql/VERSION", in.Engine)
	}
	return ask[Database](ctx, c, http.MethodPost, instances(engine), in)
}

// UpdateDatabase changes label, type or allow_list.
func (c *Client) UpdateDatabase(ctx context.Context, d Database, in UpdateDatabase) (Database, error) {
	return ask[Database](ctx, c, http.MethodPut, d.Path(), in)
}

// DeleteDatabase deletes the database and all its data.
func (c *Client) DeleteDatabase(ctx context.Context, d Database) error {
	return c.do(ctx, http.MethodDelete, d.Path(), nil, nil)
}

// PatchDatabase moves the database to the newest installed version of its series.
func (c *Client) PatchDatabase(ctx context.Context, d Database) error {
	return c.do(ctx, http.MethodPost, d.Path()+"/patch", nil, nil)
}

// RestartDatabase starts all of the database's servers anew: of three, one after the other.
func (c *Client) RestartDatabase(ctx context.Context, d Database) error {
	return c.do(ctx, http.MethodPost, d.Path()+"/restart", nil, nil)
}

// SwitchoverDatabase has another node become the primary.
func (c *Client) SwitchoverDatabase(ctx context.Context, d Database) error {
	return c.do(ctx, http.MethodPost, d.Path()+"/switchover", nil, nil)
}

// SuspendDatabase stops all of the database's processes; its data and addresses stay.
func (c *Client) SuspendDatabase(ctx context.Context, d Database) error {
	return c.do(ctx, http.MethodPost, d.Path()+"/suspend", nil, nil)
}

// ResumeDatabase starts a suspended database again.
func (c *Client) ResumeDatabase(ctx context.Context, d Database) error {
	return c.do(ctx, http.MethodPost, d.Path()+"/resume", nil, nil)
}

// ResetCredentials gives the root user a new password.
func (c *Client) ResetCredentials(ctx context.Context, d Database) error {
	return c.do(ctx, http.MethodPost, d.Path()+"/credentials/reset", nil, nil)
}

// Credentials reads the root user's name and password.
func (c *Client) Credentials(ctx context.Context, d Database) (Credentials, error) {
	return ask[Credentials](ctx, c, http.MethodGet, d.Path()+"/credentials", nil)
}

// Certificate reads the CA certificate, in PEM, to verify the server with.
func (c *Client) Certificate(ctx context.Context, d Database) ([]byte, error) {
	var answer struct {
		CA string `json:"ca_certificate"`
	}
	if err := c.do(ctx, http.MethodGet, d.Path()+"/ssl", nil, &answer); err != nil {
		return nil, err
	}
	pem, err := base64.StdEncoding.DecodeString(answer.CA)
	if err != nil {
		return nil, fmt.Errorf("decode the certificate: %w", err)
	}
	return pem, nil
}
