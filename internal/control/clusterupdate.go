package control

import (
	"cmp"
	"context"
	"reflect"
	"strings"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

// UpdateCluster is what a PUT asks for; nil fields stay as they are.
type UpdateCluster struct {
	Label     *string
	Type      *string
	AllowList *[]string
	// AllowNotes replace all notes on its items; nil keeps those of the items that stay.
	AllowNotes *map[string]string
	Updates    *cluster.WindowChange
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
	// Version is the release series, or its major version: another one than it is of moves the database there.
	Version *string
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
}

// faults names the members that would change.
func (f Fixed) faults(c cluster.Cluster) fault.Faults {
	var faults fault.Faults
	for field, same := range map[string]bool{
		"engine": f.sameEngine(c),
		"region": same(f.Region, c.Region), "encrypted": same(f.Encrypted, c.Encrypted), "ssl_connection": same(f.SSLConnection, c.SSLConnection),
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
	// An update has an event of its own also when it takes no work, or a resize does it. The version is a part of it for clients, which wait for
	// that event.
	apart := action == "" || action == operation.Upgrade || action == operation.Resize && changedBeside(c, updated)
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
	if action == operation.Upgrade {
		if params.Backup, params.BackupLabel, err = backUpBefore(ctx, tx, updated, params.Series); err != nil {
			return c, err
		}
	}
	return s.beginChange(ctx, tx, p, updated, cluster.Change, action, params)
}

// changedBeside reports whether anything but plan and nodes is another.
func changedBeside(before, after cluster.Cluster) bool {
	after.Type, after.Size, after.Replication, after.Commit = before.Type, before.Size, before.Replication, before.Commit
	return !reflect.DeepEqual(before, after)
}

// tellUpdate records an update that isn't carried out by itself: it is done by now,
// or a resize or an upgrade does it beside its own work, whose companion it is then.
func tellUpdate(ctx context.Context, tx *store.Tx, p account.Principal, c cluster.Cluster, params operation.Params) (companion operation.ID, err error) {
	o := operation.Operation{
		Account: c.Account, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Action: operation.Update,
		Status: operation.Finished, Username: p.User.Username,
	}
	if !params.AllowList && !params.ConfigChanged && params.Series == "" {
		_, err = tx.CreateOperation(ctx, o)
		return 0, err
	}
	o.Status, o.Params = operation.Scheduled, operation.Params{AllowList: params.AllowList, ConfigChanged: params.ConfigChanged}
	o, err = tx.CreateCompanion(ctx, o)
	return o.ID, err
}

// plan applies the changes to c and says which work they need, if any.
func (s *Clusters) plan(c cluster.Cluster, in UpdateCluster) (cluster.Cluster, operation.Action, operation.Params, fault.Faults) {
	u := planned{s: s, c: c, was: c.Spec, faults: in.Fixed.faults(c)}
	if in.Label != nil {
		u.add(cluster.ValidateLabel(*in.Label))
		u.c.Label = *in.Label
	}
	if in.Updates != nil {
		u.c.Updates = u.c.Updates.Merge(*in.Updates)
		u.add(u.c.Updates.Validate())
	}
	u.allow(in)
	u.add(s.autoSuspend(&u.c.Spec, in.AutoSuspend))
	if u.c.AutoSuspend != u.was.AutoSuspend {
		u.action = operation.Update
	}
	if in.Protected != nil {
		u.c.Protected = *in.Protected
	}
	u.resize(in)
	if in.Autoscale != nil {
		u.c.Autoscale = u.c.Autoscale.Merge(in.Autoscale)
		u.add(s.autoscale(u.c.Spec, u.c.Autoscale))
	}
	u.add(s.configure(&u.c.Spec, u.was, in.Config))
	u.add(awakeForJobs(u.c.Spec))
	if u.c.Config.Text() != u.was.Config.Text() {
		u.params.ConfigChanged, u.params.OldConfig, u.params.Note = true, u.was.Config, restartNote(u.was, u.c.Spec)
		u.action = cmp.Or(u.action, operation.Update)
	}
	if in.Version != nil && !isSeries(*in.Version, u.was.Series) {
		u.upgrade(*in.Version)
	}
	return u.c, u.action, u.params, u.faults
}

// planned is a cluster as it is to be, what of that takes which work, and what is wrong with it.
type planned struct {
	s      *Clusters
	c      cluster.Cluster
	was    cluster.Spec
	action operation.Action
	params operation.Params
	faults fault.Faults
}

func (u *planned) add(found fault.Faults) { u.faults = append(u.faults, found...) }

// allow changes the allow list, and the notes on what is in it.
func (u *planned) allow(in UpdateCluster) {
	known := true
	if in.AllowList != nil && !u.c.AllowList.Equal(*in.AllowList) { // what was taken in earlier times isn't checked anew
		list, err := cluster.ParseAllowList(*in.AllowList)
		u.add(faultsIn(err))
		if known = err == nil; known && !list.Equal(u.c.AllowList) {
			u.c.AllowList, u.action, u.params.AllowList = list, operation.Update, true
		}
	}
	u.c.AllowNotes = u.c.AllowNotes.Of(u.c.AllowList)
	if in.AllowNotes != nil && known {
		notes, err := cluster.ParseAllowNotes(*in.AllowNotes, u.c.AllowList)
		u.c.AllowNotes = notes
		u.add(faultsIn(err))
	}
}

// resize changes how many nodes there are, and their type.
func (u *planned) resize(in UpdateCluster) {
	before := u.c.Nodes()
	c, found := resized(u.c, in)
	u.c = c
	u.add(found)
	if u.c.Size != before.Size {
		u.params.Before, u.action = &before, operation.Resize
		u.add(u.s.Catalog.LacksNodes(u.c.Spec))
		if same(in.Type, u.c.Type) && !u.s.Catalog.HasType(u.c.Type, u.c.Engine, u.c.Size) { // another type is looked at below
			u.faults.Add("cluster_size", "The type %s isn't offered any more for databases of %d nodes; send a newer one with it", u.c.Type, u.c.Size)
		}
	}
	if in.Type == nil {
		return
	}
	u.add(u.s.validateResize(u.c, *in.Type, u.c.Size != before.Size))
	if *in.Type == u.c.Type {
		return
	}
	if to, ok := u.s.Catalog.Plan(*in.Type); ok {
		u.add(poolsFit(u.c, to))
	}
	u.params.OldType, u.params.Type = u.c.Type, *in.Type
	u.c.Type, u.action = *in.Type, operation.Resize
}

// upgrade moves to another series, which nothing else that takes work may go with.
func (u *planned) upgrade(version string) {
	u.add(u.s.upgradeFaults(u.c, version))
	if u.action != "" {
		u.faults.Add("version", "Can't be changed together with what servers are changed for; send one after the other")
	}
	u.params.Series, u.params.OldSeries, u.action = u.s.Catalog.Series(u.c.Engine, version), u.was.Series, operation.Upgrade
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

// awakeForJobs names what keeps jobs from running when they are due.
func awakeForJobs(spec cluster.Spec) fault.Faults {
	if spec.AutoSuspend > 0 && spec.Config.RunsJobs() {
		return fault.Faults{fault.NewInvalid("auto_suspend.idle_minutes", "Must be 0: the database runs jobs by engine_config, and a database that sleeps runs none")}
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
