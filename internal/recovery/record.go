// Package recovery brings databases back from nothing but the bucket and the
// key of secrets: it keeps beside a database's backups what makes it that
// database again, sealed, and makes rows of it on another server.
package recovery

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/parameter"
	"steward/internal/platform"
	"steward/internal/store"
)

// version of the format. Another one is refused, not guessed at.
const version = 1

// Record is what a database is, but for its data. It holds secrets in clear: it
// leaves this process sealed only.
type Record struct {
	Version       int                            `json:"version"`
	Cluster       cluster.ID                     `json:"cluster"`
	Account       string                         `json:"account"`
	Label         string                         `json:"label"`
	Engine        cluster.Engine                 `json:"engine"`
	Series        string                         `json:"series"`
	Region        string                         `json:"region"`
	Type          string                         `json:"type"`
	Size          int                            `json:"size"`
	Encrypted     bool                           `json:"encrypted"`
	SSLConnection bool                           `json:"ssl_connection"`
	AllowList     []string                       `json:"allow_list"`
	Replication   cluster.Replication            `json:"replication"`
	Commit        cluster.Commit                 `json:"commit"`
	Updates       cluster.Window                 `json:"updates"`
	Config        parameter.Config               `json:"engine_config,omitempty"`
	AllowNotes    cluster.AllowNotes             `json:"allow_list_notes,omitempty"`
	AutoSuspend   int                            `json:"auto_suspend,omitempty"`
	Autoscale     cluster.Autoscale              `json:"autoscale,omitzero"`
	Protected     bool                           `json:"deletion_protection,omitempty"`
	Port          int                            `json:"port"`
	Created       time.Time                      `json:"created"`
	Deleted       *time.Time                     `json:"deleted,omitempty"`
	Users         []User                         `json:"users"`
	Secrets       map[platform.SecretName][]byte `json:"secrets"`
}

// User is one that the database was granted to.
type User struct {
	Username     string             `json:"username"`
	Email        string             `json:"email"`
	Restricted   bool               `json:"restricted"`
	AddDatabases bool               `json:"add_databases"`
	Permission   account.Permission `json:"permission"`
}

// gather reads a database's record out of the store.
func gather(ctx context.Context, s *store.Store, id cluster.ID) (Record, error) {
	c, err := s.ClusterForWork(ctx, id)
	if err != nil {
		return Record{}, fmt.Errorf("read database %d: %w", id, err)
	}
	r := Record{
		Version: version, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Series: c.Series, Region: c.Region, Type: c.Type, Size: c.Size,
		Encrypted: c.Encrypted, SSLConnection: c.SSLConnection, AllowList: c.AllowList, AllowNotes: c.AllowNotes, Replication: c.Replication, Commit: c.Commit,
		Updates: c.Updates, Config: c.Config, AutoSuspend: c.AutoSuspend, Autoscale: c.Autoscale, Protected: c.Protected, Port: c.Port, Created: c.Created.UTC(),
	}
	if c.Deleted != nil {
		r.Deleted = new(c.Deleted.UTC())
	}
	if r.Account, err = s.AccountName(ctx, c.Account); err != nil {
		return r, fmt.Errorf("read the account of database %d: %w", id, err)
	}
	users, err := s.Grantees(ctx, id)
	if err != nil {
		return r, fmt.Errorf("read the users of database %d: %w", id, err)
	}
	for _, u := range users {
		r.Users = append(r.Users, User{u.Username, u.Email, u.Restricted, u.AddDatabases, u.Permission})
	}
	if r.Secrets, err = s.Secrets(ctx, id); err != nil {
		return r, fmt.Errorf("read the secrets of database %d: %w", id, err)
	}
	// A keyring is each server's own; that of the data goes with its backup.
	maps.DeleteFunc(r.Secrets, func(name platform.SecretName, _ []byte) bool {
		return strings.HasPrefix(string(name), string(platform.Keyring))
	})
	return r, nil
}

// cluster is the record as a row of the account.
func (r Record) cluster(owner account.ID) cluster.Cluster {
	return cluster.Cluster{
		ID: r.Cluster, Account: owner, Port: r.Port, Created: r.Created,
		Spec: cluster.Spec{
			Label: r.Label, Engine: r.Engine, Series: r.Series, Region: r.Region, Type: r.Type, Size: r.Size, Encrypted: r.Encrypted,
			SSLConnection: r.SSLConnection, AllowList: r.AllowList, AllowNotes: r.AllowNotes, Replication: r.Replication, Commit: r.Commit, Updates: r.Updates,
			Config: r.Config, AutoSuspend: r.AutoSuspend, Autoscale: r.Autoscale, Protected: r.Protected,
		},
	}
}

// Place is bound into the sealed record: another database's is no substitute.
func Place(id cluster.ID) string { return fmt.Sprintf("cluster/%d/recovery", id) }

// Read opens the record that the archive keeps of a database.
func Read(ctx context.Context, a Archive, sealer store.Sealer, id cluster.ID) (Record, error) {
	sealed, err := a.Recovery(ctx, id)
	if err != nil {
		return Record{}, err
	}
	content, err := sealer.Unseal(ctx, sealed, Place(id))
	if err != nil {
		return Record{}, fmt.Errorf("open the recovery record of database %d: %w", id, err)
	}
	var r Record
	if err := json.Unmarshal(content, &r); err != nil {
		return r, fmt.Errorf("read the recovery record of database %d: %w", id, err)
	}
	if r.Version != version {
		return r, fmt.Errorf("the recovery record of database %d has format %d, which isn't known here: use a newer steward", id, r.Version)
	}
	return r, nil
}
