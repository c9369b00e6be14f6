package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

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
	if spec.AutoSuspend = s.AutoSuspend; !s.sleeps(spec.Region) {
		spec.AutoSuspend = 0
	}
	found = append(found, s.autoSuspend(&spec, spec.AskedAutoSuspend)...)
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
		if err := sourceThere(ctx, tx, p, spec.Fork); err != nil {
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

// UpdateCluster is what a PUT asks for; nil fields stay as they are.
type UpdateCluster struct {
	Label     *string
	Type      *string
	AllowList *[]string
	Updates   *cluster.WindowChange
	// Size is how many nodes there are to be; Replication and Commit may change with it.
	Size        *int
	Replication *cluster.Replication
	Commit      *cluster.Commit
	// AutoSuspend is after how many minutes without a session it falls asleep.
	AutoSuspend *int
	// Protected is whether it can't be deleted before this is taken back.
	Protected *bool
	// Autoscale is when it moves to the next plan by itself.
	Autoscale *cluster.AutoscaleChange
	// Config are values of engine_config as they came, null taking one away.
	Config map[string]any
	// Fixed are members that can't be changed: what is there already may be sent.
	Fixed Fixed
}

// Fixed are a database's members that stay as they were made.
type Fixed struct {
	// Engine is the family, or the engine's id: with the series or its major version.
	Engine        *string
	Region        *string
	Encrypted     *bool
	SSLConnection *bool
	Version       *string
}

// faults names the members that would change.
func (f Fixed) faults(c cluster.Cluster) fault.Faults {
	var faults fault.Faults
	for field, same := range map[string]bool{
		"engine": f.sameEngine(c),
		"region": same(f.Region, c.Region), "encrypted": same(f.Encrypted, c.Encrypted), "ssl_connection": same(f.SSLConnection, c.SSLConnection),
		"version": f.Version == nil || isSeries(*f.Version, c.Series),
	} {
		if !same {
			faults.Add(field, "Can't be changed once the database is made")
		}
	}
	return faults
}

// sameEngine reports whether the engine that is asked for is the database's: the
// family, with or without the version.
func (f Fixed) sameEngine(c cluster.Cluster) bool {
	if f.Engine == nil {
		return true
	}
	family, version, more := strings.Cut(*f.Engine, "/")
	return family == string(c.Engine) && (!more || isSeries(version, c.Series))
}

// isSeries reports whether a version is a series, or its major version: whoever
// asked for that at creation may send it back, also when there is a newer series.
func isSeries(version, series string) bool {
	return version == series || version == cluster.Major(series)
}

// same reports whether a member that may be left out is what is there.
func same[T comparable](asked *T, there T) bool { return asked == nil || *asked == there }

// Update changes label and window at once, and begins the work for a new
// allow_list, other settings of the server, or another plan. Every accepted update yields an event for each kind
// of change, of the plan and of all else, and one when nothing had to be done.
func (s *Clusters) Update(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, in UpdateCluster, faults fault.Faults) (cluster.Cluster, error) {
	check := func(c cluster.Cluster) error { return s.checkUpdate(ctx, p, c, in, faults) }
	return s.change(ctx, p, engine, id, check, func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		return s.beginUpdate(ctx, tx, p, c, in)
	})
}

// checkUpdate returns all that is wrong with an update.
func (s *Clusters) checkUpdate(ctx context.Context, p account.Principal, c cluster.Cluster, in UpdateCluster, faults fault.Faults) error {
	updated, _, _, found := s.plan(c, in)
	all := combine(faults, append(faultsIn(cluster.Require(c.Status, cluster.RequestUpdate)), found...))
	if len(all) == 0 {
		return nil
	}
	all, err := s.withExceeded(ctx, p.Account, s.taken(updated.Spec).Minus(s.taken(c.Spec)), all)
	if err != nil {
		return err
	}
	return s.withLabelTaken(ctx, p, changed(in.Label, c.Label), c.ID, all)
}

// beginUpdate puts into effect what takes no work, and begins the rest.
func (s *Clusters) beginUpdate(ctx context.Context, tx *store.Tx, p account.Principal, c cluster.Cluster, in UpdateCluster) (cluster.Cluster, error) {
	updated, action, params, _ := s.plan(c, in)
	// An update has an event of its own also when it takes no work, or a resize does it.
	apart := action == "" || action == operation.Resize && changedBeside(c, updated)
	err := s.within(ctx, tx, p.Account, s.taken(updated.Spec).Minus(s.taken(c.Spec)))
	if err != nil {
		return c, err
	}
	if !reflect.DeepEqual(updated, c) { // its time of change stays, too, when nothing changes
		if updated, err = tx.UpdateCluster(ctx, updated); err != nil {
			return c, err
		}
	}
	if apart {
		if params.Companion, err = tellUpdate(ctx, tx, p, updated, params); err != nil {
			return c, err
		}
	}
	if action == "" {
		return updated, nil
	}
	return s.beginChange(ctx, tx, p, updated, cluster.Change, action, params)
}

// changedBeside reports whether anything but plan and nodes is another.
func changedBeside(before, after cluster.Cluster) bool {
	after.Type, after.Size, after.Replication, after.Commit = before.Type, before.Size, before.Replication, before.Commit
	return !reflect.DeepEqual(before, after)
}

// tellUpdate records an update that isn't carried out by itself: it is done by now,
// or a resize does it beside its own work, whose companion it is then.
func tellUpdate(ctx context.Context, tx *store.Tx, p account.Principal, c cluster.Cluster, params operation.Params) (companion operation.ID, err error) {
	o := operation.Operation{
		Account: c.Account, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Action: operation.Update,
		Status: operation.Finished, Username: p.User.Username,
	}
	if !params.AllowList && !params.ConfigChanged {
		_, err = tx.CreateOperation(ctx, o)
		return 0, err
	}
	o.Status, o.Params = operation.Scheduled, operation.Params{AllowList: params.AllowList, ConfigChanged: params.ConfigChanged}
	o, err = tx.CreateCompanion(ctx, o)
	return o.ID, err
}

// plan applies the changes to c and says which work they need, if any.
func (s *Clusters) plan(c cluster.Cluster, in UpdateCluster) (cluster.Cluster, operation.Action, operation.Params, fault.Faults) {
	faults, was := in.Fixed.faults(c), c.Spec
	var action operation.Action
	var params operation.Params
	if in.Label != nil {
		faults = append(faults, cluster.ValidateLabel(*in.Label)...)
		c.Label = *in.Label
	}
	if in.Updates != nil {
		c.Updates = c.Updates.Merge(*in.Updates)
		faults = append(faults, c.Updates.Validate()...)
	}
	if in.AllowList != nil && !c.AllowList.Equal(*in.AllowList) { // what was taken in earlier times isn't checked anew
		list, err := cluster.ParseAllowList(*in.AllowList)
		faults = append(faults, faultsIn(err)...)
		if err == nil && !list.Equal(c.AllowList) {
			c.AllowList, action, params.AllowList = list, operation.Update, true
		}
	}
	faults = append(faults, s.autoSuspend(&c.Spec, in.AutoSuspend)...)
	if c.AutoSuspend != was.AutoSuspend {
		action = operation.Update
	}
	if in.Protected != nil {
		c.Protected = *in.Protected
	}
	before := c.Nodes()
	c, found := resized(c, in)
	faults = append(faults, found...)
	if c.Size != before.Size {
		params.Before, action = &before, operation.Resize
		if same(in.Type, c.Type) && !s.Catalog.HasType(c.Type, c.Engine, c.Size) { // another type is looked at below
			faults.Add("cluster_size", "The type %s isn't offered any more for databases of %d nodes; send a newer one with it", c.Type, c.Size)
		}
	}
	if in.Type != nil {
		faults = append(faults, s.validateResize(c, *in.Type, c.Size != before.Size)...)
		if *in.Type != c.Type {
			if to, ok := s.Catalog.Plan(*in.Type); ok {
				faults = append(faults, poolsFit(c, to)...)
			}
			params.OldType, params.Type = c.Type, *in.Type
			c.Type, action = *in.Type, operation.Resize
		}
	}
	if in.Autoscale != nil {
		c.Autoscale = c.Autoscale.Merge(in.Autoscale)
		faults = append(faults, s.autoscale(c.Spec, c.Autoscale)...)
	}
	faults = append(faults, s.configure(&c.Spec, was, in.Config)...)
	if c.Config.Text() != was.Config.Text() {
		params.ConfigChanged, params.OldConfig, params.Note = true, was.Config, restartNote(was, c.Spec)
		action = cmp.Or(action, operation.Update)
	}
	return c, action, params, faults
}

// autoscale names what is wrong with when the database is to move to the next plan.
func (s *Clusters) autoscale(c cluster.Spec, a cluster.Autoscale) (faults fault.Faults) {
	if a = a.OrDefault(); a.Percent < cluster.LeastAutoscale || a.Percent > cluster.MostAutoscale {
		faults = append(faults, fault.Range("autoscale.threshold_percent", cluster.LeastAutoscale, cluster.MostAutoscale))
	}
	switch {
	case a.Max == "" && a.Enabled:
		faults = append(faults, fault.Required("autoscale.max_type"))
	case a.Max != "" && a.Max != c.Type && !s.Catalog.HasType(a.Max, c.Engine, max(1, c.Size)):
		faults = append(faults, fault.NotValid("autoscale.max_type"))
	}
	return faults
}

// autoSuspend has the database fall asleep after so many minutes without a session; nil
// leaves it as it is.
func (s *Clusters) autoSuspend(spec *cluster.Spec, asked *int) fault.Faults {
	if asked == nil || *asked == spec.AutoSuspend {
		return nil
	}
	spec.AutoSuspend = *asked
	switch {
	case *asked > 0 && len(spec.Pools) > 0:
		return fault.Faults{fault.NewInvalid("auto_suspend.idle_minutes", "Must be 0: a database with connection pools can't fall asleep; delete them first")}
	case *asked < 0 || *asked > cluster.MaxAutoSuspend:
		return fault.Faults{fault.NewInvalid("auto_suspend.idle_minutes", "Must be 0-%d", cluster.MaxAutoSuspend)}
	case *asked > 0 && s.CanSleep && !s.sleeps(spec.Region):
		return fault.Faults{fault.NewInvalid("auto_suspend.idle_minutes", "Must be 0: databases of the region %s can't sleep", spec.Region)}
	case *asked > 0 && !s.CanSleep:
		return fault.Faults{fault.NewInvalid("auto_suspend.idle_minutes", "Must be 0: databases can't sleep on this server, whose gateway isn't the kernel's")}
	}
	return nil
}

// resized is the database with as many nodes as are asked for. How they replicate
// changes with their number only: it is asked for, or what suits them.
func resized(c cluster.Cluster, in UpdateCluster) (cluster.Cluster, fault.Faults) {
	if same(in.Size, c.Size) {
		var faults fault.Faults
		if !same(in.Replication, c.Replication) {
			faults.Add("replication_type", "Can only be changed together with cluster_size")
		}
		if !same(in.Commit, c.Commit) {
			faults.Add("replication_commit_type", "Can only be changed together with cluster_size")
		}
		return c, faults
	}
	// What is sent back as it was before is no wish for the new number of nodes.
	if same(in.Replication, c.Replication) {
		in.Replication = nil
	}
	if same(in.Commit, c.Commit) {
		in.Commit = nil
	}
	spec, faults := c.Spec.WithSize(*in.Size, in.Replication, in.Commit)
	c.Spec = spec
	return c, faults
}

// validateResize lets a database have any plan that its data leaves room in.
func (s *Clusters) validateResize(c cluster.Cluster, to string, otherSize bool) fault.Faults {
	if to == c.Type {
		return nil
	}
	if !s.Catalog.HasType(to, c.Engine, c.Size) {
		return fault.Faults{fault.NotValid("type")}
	}
	plan, _ := s.Catalog.Plan(to)
	now, known := s.Catalog.Plan(c.Type)
	if !known || !plan.LessThan(now) {
		return nil
	}
	if otherSize {
		return fault.Faults{fault.NewInvalid("type", "A smaller type and another cluster_size can't be had at once; send one after the other")}
	}
	if plan.DiskMB >= now.DiskMB {
		return nil
	}
	if c.UsedBytes == nil {
		return fault.Faults{fault.NewInvalid("type", "How much disk the data takes isn't known yet; try again soon")}
	}
	if !plan.HasRoomFor(*c.UsedBytes) {
		return fault.Faults{fault.NewInvalid("type", "Must have room: %s", plan.NoRoom(*c.UsedBytes))}
	}
	return nil
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

// Delete hides the database at once and begins to remove what it is made of.
// Unrestricted users only, whatever the token's scopes.
func (s *Clusters) Delete(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) error {
	if err := unrestricted(p); err != nil {
		return err
	}
	check := func(c cluster.Cluster) error {
		if c.Protected {
			return fault.NewInvalid("deletion_protection", "The database is protected: it can be deleted once this is false")
		}
		return cluster.Require(c.Status, cluster.RequestDelete)
	}
	_, err := s.change(ctx, p, engine, id, check, func(tx *store.Tx, c cluster.Cluster) (cluster.Cluster, error) {
		if err := tx.MarkDeleted(ctx, c); err != nil {
			return c, err
		}
		if err := s.Issues.Drop(ctx, tx, c.Account, outage.OfDatabase(c.ID), "The database was deleted.", s.Now()); err != nil {
			return c, err
		}
		return c, s.begin(ctx, tx, p, c, operation.Delete, operation.Params{})
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
