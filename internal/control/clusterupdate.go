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
	known := true
	if in.AllowList != nil && !c.AllowList.Equal(*in.AllowList) { // what was taken in earlier times isn't checked anew
		list, err := cluster.ParseAllowList(*in.AllowList)
		faults, known = append(faults, faultsIn(err)...), err == nil
		if err == nil && !list.Equal(c.AllowList) {
			c.AllowList, action, params.AllowList = list, operation.Update, true
		}
	}
	c.AllowNotes = c.AllowNotes.Of(c.AllowList)
	if in.AllowNotes != nil && known {
		notes, err := cluster.ParseAllowNotes(*in.AllowNotes, c.AllowList)
		c.AllowNotes, faults = notes, append(faults, faultsIn(err)...)
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
	faults = append(faults, awakeForJobs(c.Spec)...)
	if c.Config.Text() != was.Config.Text() {
		params.ConfigChanged, params.OldConfig, params.Note = true, was.Config, restartNote(was, c.Spec)
		action = cmp.Or(action, operation.Update)
	}
	if in.Version != nil && !isSeries(*in.Version, was.Series) {
		faults = append(faults, s.upgradeFaults(c, *in.Version)...)
		if action != "" {
			faults.Add("version", "Can't be changed together with what servers are changed for; send one after the other")
		}
		params.Series, params.OldSeries, action = s.Catalog.Series(c.Engine, *in.Version), was.Series, operation.Upgrade
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
