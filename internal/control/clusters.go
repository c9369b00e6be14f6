package control

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/account"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/operation"
	"steward/internal/outage"
	"steward/internal/platform"
	"steward/internal/store"
)

// RootUser is the name of a database's root user.
const RootUser = "dbadmin"

// Clusters are the use cases of databases.
type Clusters struct{ clusterChanges }

// View is one database; an empty engine means any.
func (s *Clusters) View(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) (cluster.Cluster, error) {
	return s.Store.Cluster(ctx, store.ViewerOf(p), engine, id)
}

// List is a page of databases, of one engine or of all, and how many match.
func (s *Clusters) List(ctx context.Context, p account.Principal, engine cluster.Engine, q store.ListQuery) ([]cluster.Cluster, int, error) {
	return s.Store.Clusters(ctx, store.ViewerOf(p), engine, q)
}

// Create validates the spec and records the database, its secrets and the
// operation that makes it, in one transaction. faults are what the door found
// already: all problems are answered together.
func (s *Clusters) Create(ctx context.Context, p account.Principal, spec cluster.Spec, faults fault.Faults) (cluster.Cluster, error) {
	if p.User.Restricted && !p.User.AddDatabases {
		return cluster.Cluster{}, fault.NewForbidden()
	}
	list, err := cluster.ParseAllowList(spec.AllowList)
	found := faultsIn(err)
	spec.AllowList = list
	if err == nil {
		spec.AllowNotes, err = cluster.ParseAllowNotes(spec.AllowNotes, list)
		found = append(found, faultsIn(err)...)
	}
	source, err := s.source(ctx, p, spec.Fork)
	if err != nil {
		return cluster.Cluster{}, err
	}
	spec, unknown := inherit(spec, source)
	named := spec.Label != ""
	if !named && source != nil {
		if spec.Label, err = s.forkLabel(ctx, p, source.Label); err != nil {
			return cluster.Cluster{}, err
		}
	}
	spec.Series = s.Catalog.Series(spec.Engine, spec.Series)
	spec = spec.WithDefaults()
	configFaults := s.configure(&spec, cluster.Spec{}, spec.AskedConfig)
	found = append(found, s.autoscale(spec, spec.Autoscale)...)
	if spec.AutoSuspend = s.AutoSuspend; !s.sleeps(spec.Region) || spec.Config.RunsJobs() {
		spec.AutoSuspend = 0
	}
	found = append(found, s.autoSuspend(&spec, spec.AskedAutoSuspend)...)
	found = append(found, awakeForJobs(spec)...)
	spec.Updates = cluster.DefaultWindow(0).Merge(spec.Asked) // the default day follows from the id, below
	found = append(append(found, without(spec.Validate(s.Catalog), unknown)...), configFaults...)
	spec.Fork, err = s.fork(ctx, spec, source, &found)
	if err != nil {
		return cluster.Cluster{}, err
	}
	if faults = combine(faults, found); len(faults) > 0 {
		return cluster.Cluster{}, s.refuse(ctx, p, spec, faults)
	}
	secrets, err := newSecrets(spec, s.Now())
	if err != nil {
		return cluster.Cluster{}, err
	}
	if err := s.forkSecrets(ctx, spec, secrets); err != nil {
		return cluster.Cluster{}, err
	}
	if named {
		return s.create(ctx, p, spec, secrets)
	}
	return s.createUnnamed(ctx, p, spec, secrets, source.Label)
}

// createUnnamed makes a fork whose label follows from its source's, which others may take
// meanwhile.
func (s *Clusters) createUnnamed(ctx context.Context, p account.Principal, spec cluster.Spec, secrets map[platform.SecretName][]byte, source string) (cluster.Cluster, error) {
	for range changeAttempts {
		c, err := s.create(ctx, p, spec, secrets)
		if !errors.Is(err, cluster.LabelTaken()) {
			return c, err
		}
		if spec.Label, err = s.forkLabel(ctx, p, source); err != nil {
			return c, err
		}
	}
	return cluster.Cluster{}, cluster.LabelTaken()
}

// refuse adds to the faults of a create those that the store would have named.
func (s *Clusters) refuse(ctx context.Context, p account.Principal, spec cluster.Spec, faults fault.Faults) error {
	faults, err := s.withExceeded(ctx, p.Account, s.taken(spec), faults)
	if err != nil {
		return err
	}
	return s.withLabelTaken(ctx, p, spec.Label, 0, faults)
}

func (s *Clusters) create(ctx context.Context, p account.Principal, spec cluster.Spec, secrets map[platform.SecretName][]byte) (c cluster.Cluster, err error) {
	var params operation.Params
	if spec.Fork != nil {
		params.Fork = spec.Fork.Source
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := s.within(ctx, tx, p.Account, s.taken(spec)); err != nil {
			return err
		}
		if err := sourceThere(ctx, tx, p, spec.Fork, s.Now()); err != nil {
			return err
		}
		c, err = tx.CreateCluster(ctx, cluster.Cluster{Account: p.Account, Spec: spec, Platform: s.platformOf(spec.Region)}, secrets, store.Ports{First: s.Ports[0], Last: s.Ports[1], Usable: s.PortUsable})
		if err != nil {
			return err
		}
		c.Updates = cluster.DefaultWindow(c.ID).Merge(spec.Asked)
		if c, err = tx.UpdateCluster(ctx, c); err != nil {
			return err
		}
		if p.User.Restricted {
			if err := tx.SetGrant(ctx, p.User, c.ID, account.ReadWrite); err != nil {
				return err
			}
		}
		return s.begin(ctx, tx, p, c, operation.Create, params)
	})
	return c, err
}

// withLabelTaken adds to a request's faults that its label is taken: otherwise
// the database's constraint would tell that only of the next, better request.
func (s *Clusters) withLabelTaken(ctx context.Context, p account.Principal, label string, except cluster.ID, faults fault.Faults) error {
	for _, f := range faults {
		if f.Field == "label" {
			return faults
		}
	}
	id, taken, err := s.labeled(ctx, p, label)
	if err != nil {
		return err
	}
	if taken && id != except {
		faults = append(faults, cluster.LabelTaken())
	}
	return faults
}

// labeled is the database of the account, seen by the caller or not, that has a label.
func (s *Clusters) labeled(ctx context.Context, p account.Principal, label string) (id cluster.ID, found bool, err error) {
	same := filter.Filter{Where: &filter.Node{Op: filter.Equal, Field: "label", Value: label}}
	all, _, err := s.Store.Clusters(ctx, store.Viewer{Account: p.Account}, "", store.ListQuery{Filter: same})
	if err != nil || len(all) == 0 {
		return 0, false, err
	}
	return all[0].ID, true, nil
}

// Patch begins the move to the newest installed version of the series.
func (s *Clusters) Patch(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) error {
	_, err := s.change(ctx, p, engine, id, when(cluster.RequestPatch), func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		return s.beginChange(ctx, tx, p, c, cluster.Change, operation.Patch, operation.Params{})
	})
	return err
}

// Restart begins to start each of the database's servers anew: of three, one after the other.
func (s *Clusters) Restart(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) error {
	check := func(c cluster.Cluster) error {
		return s.requireIn(c, cluster.RequestRestart, func(can catalog.Abilities) bool { return can.Restarts }, "restarted")
	}
	_, err := s.change(ctx, p, engine, id, check, func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		return s.beginChange(ctx, tx, p, c, cluster.Change, operation.Restart, operation.Params{})
	})
	return err
}

// Switchover begins to have another node become the primary.
func (s *Clusters) Switchover(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) error {
	check := func(c cluster.Cluster) error {
		err := s.requireIn(c, cluster.RequestSwitchover, func(can catalog.Abilities) bool { return can.Switchovers }, "switched over")
		if err != nil {
			return err
		}
		if c.Size == 1 {
			return fault.NewPrecondition("The database has one node: there is none to switch over to. A cluster_size of 3 makes some.")
		}
		return nil
	}
	_, err := s.change(ctx, p, engine, id, check, func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		return s.beginChange(ctx, tx, p, c, cluster.Change, operation.Switchover, operation.Params{})
	})
	return err
}

// Suspend begins to stop every process of the database; its data, addresses
// and credentials stay.
func (s *Clusters) Suspend(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) error {
	_, err := s.change(ctx, p, engine, id, when(cluster.RequestSuspend), func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		return s.beginChange(ctx, tx, p, c, cluster.Suspend, operation.Suspend, operation.Params{})
	})
	return err
}

// Resume begins to bring a suspended database back.
func (s *Clusters) Resume(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) error {
	_, err := s.change(ctx, p, engine, id, when(cluster.RequestResume), func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		// If its account was suspended, it isn't what keeps it at rest any more.
		if err := tx.SetRestsWithAccount(ctx, c.ID, false); err != nil {
			return c, err
		}
		return s.beginChange(ctx, tx, p, c, cluster.Resume, operation.Resume, operation.Params{})
	})
	return err
}

// ResetCredentials seals a new root password and begins to make it true.
// Unrestricted users only, whatever the token's scopes.
func (s *Clusters) ResetCredentials(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) error {
	if err := unrestricted(p); err != nil {
		return err
	}
	_, err := s.change(ctx, p, engine, id, when(cluster.RequestReset), func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		password, err := newPassword()
		if err != nil {
			return c, err
		}
		c, err = s.beginChange(ctx, tx, p, c, cluster.Change, operation.CredentialsReset, operation.Params{})
		if err != nil {
			return c, err
		}
		return c, tx.SaveSecret(ctx, c.ID, platform.RootPassword, password)
	})
	return err
}

// Delete hides the database at once and begins to remove what it is made of, after a last backup if final asks for one.
// Unrestricted users only, whatever the token's scopes.
func (s *Clusters) Delete(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, final bool) error {
	if err := unrestricted(p); err != nil {
		return err
	}
	check := func(c cluster.Cluster) error {
		var found fault.Faults
		if c.Protected {
			found.Add("deletion_protection", "The database is protected: it can be deleted once this is false")
		}
		found = append(found, faultsIn(cluster.Require(c.Status, cluster.RequestDelete))...)
		if final {
			found = append(found, s.finalFaults(c)...)
		}
		return found.Err()
	}
	_, err := s.change(ctx, p, engine, id, check, func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		params := operation.Params{Final: final}
		if final {
			var err error
			if params.Backup, params.BackupLabel, err = finalBackup(ctx, tx, c); err != nil {
				return c, err
			}
		}
		if err := tx.MarkDeleted(ctx, c); err != nil {
			return c, err
		}
		if err := s.Issues.Drop(ctx, tx, c.Account, outage.OfDatabase(c.ID), "The database was deleted.", s.Now()); err != nil {
			return c, err
		}
		return c, s.begin(ctx, tx, p, c, operation.Delete, params)
	})
	return err
}

// Credentials are those of a database's root user.
type Credentials struct {
	Username string
	Password string
}

// Credentials answers name and password while the database can be logged in to.
// It is a read: whoever sees the database may.
func (s *Clusters) Credentials(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) (Credentials, error) {
	c, err := s.View(ctx, p, engine, id)
	if err != nil {
		return Credentials{}, err
	}
	if err := cluster.Require(c.Status, cluster.RequestCredentials); err != nil {
		return Credentials{}, err
	}
	password, err := s.Store.Secret(ctx, id, platform.RootPassword)
	if err != nil {
		return Credentials{}, fmt.Errorf("root password: %w", err)
	}
	return Credentials{RootUser, string(password)}, nil
}

// Certificate is the database's CA certificate in PEM.
func (s *Clusters) Certificate(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) ([]byte, error) {
	c, err := s.View(ctx, p, engine, id)
	if err != nil {
		return nil, err
	}
	if err := cluster.Require(c.Status, cluster.RequestSSL); err != nil {
		return nil, err
	}
	pem, err := s.Store.Secret(ctx, id, platform.CACert)
	if err != nil {
		return nil, fmt.Errorf("CA certificate: %w", err)
	}
	return pem, nil
}
