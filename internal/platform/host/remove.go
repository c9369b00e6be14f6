package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/platform/host/state"
	"steward/internal/process"
)

// Remove implements platform.Driver.
func (d *Driver) Remove(ctx context.Context, want cluster.Cluster) error {
	cs := d.clusterState(want.ID)
	if err := cs.lock(ctx); err != nil {
		return err
	}
	defer cs.unlock()
	defer d.activity.begin()()
	if err := d.remove(ctx, cs, want.Port); err != nil {
		return fmt.Errorf("remove cluster %d: %w", want.ID, err)
	}
	return nil
}

// remove takes everything of a cluster away; port is 0 when it isn't known.
func (d *Driver) remove(ctx context.Context, cs *clusterState, port int) error {
	ordinals, err := d.ordinals(cs.id)
	if err != nil {
		return err
	}
	for _, ordinal := range ordinals {
		if rec, err := state.ReadNode(d.layout.node(cs.id, ordinal)); err == nil && rec != nil {
			port = rec.Port
		}
	}
	failpoint.Here("host: before removing the route")
	if err := d.removeRoutes(ctx, cs.id); err != nil {
		return err
	}
	if err := d.removePooler(ctx, cs); err != nil {
		return err
	}
	failpoint.Here("host: before killing the server")
	for _, ordinal := range ordinals {
		if err := d.removeProcesses(ctx, cs.node(ordinal), port); err != nil {
			return err
		}
	}
	if err := errors.Join(d.verifications.end(ctx, cs.id), d.removeScratch(ctx, cs.id)); err != nil {
		return err
	}
	if err := d.removeNetworks(ctx, port, allOrdinals()...); err != nil {
		return err
	}
	failpoint.Here("host: before removing files")
	// The keys first: without them encrypted data is gone, whatever comes next.
	for _, ordinal := range ordinals {
		for _, dir := range []string{d.layout.keysNode(cs.id, ordinal), d.layout.runNode(cs.id, ordinal)} {
			if err := os.RemoveAll(dir); err != nil {
				return fmt.Errorf("remove folder: %w", err)
			}
		}
	}
	if err := os.Remove(d.layout.replication(cs.id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove replication status: %w", err)
	}
	if err := d.trash.Put(d.layout.cluster(cs.id)); err != nil {
		return err
	}
	failpoint.Here("host: after removing files")
	cs.setProblem("", false)
	cs.forgetSecrets()
	d.expectNoMore(cs)
	return nil
}

// removeProcesses ends all processes of a node and takes its limits away.
func (d *Driver) removeProcesses(ctx context.Context, ns *nodeState, port int) error {
	ns.setProcess(nil)
	id := d.identity(&state.Node{Cluster: ns.id, Ordinal: ns.ordinal, Port: port})
	if port == 0 {
		id.UID = 0
	}
	group := d.groups.Find(nodeName(ns.id, ns.ordinal))
	if err := process.KillAll(ctx, id, group); err != nil {
		return err
	}
	if group == nil {
		return nil
	}
	return group.Remove(ctx)
}

// ordinals are those of all nodes that a cluster has, or may have left something of.
func (d *Driver) ordinals(id cluster.ID) ([]int, error) {
	found := map[int]bool{0: true}
	for _, dir := range []string{d.layout.cluster(id), d.layout.run, d.layout.keys} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			for ordinal := range state.MaxNodes {
				if e.Name() == nodeName(id, ordinal) || dir == d.layout.cluster(id) && e.Name() == filepath.Base(d.layout.node(id, ordinal)) {
					found[ordinal] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func (d *Driver) removeRoutes(ctx context.Context, id cluster.ID) error {
	routes, err := d.o.Gateway.Routes(ctx)
	if err != nil {
		return fmt.Errorf("look at the gateway: %w", err)
	}
	for _, r := range routes {
		if r.Cluster != id {
			continue
		}
		if err := d.o.Gateway.Remove(ctx, r.Port); err != nil {
			return fmt.Errorf("remove route: %w", err)
		}
	}
	return nil
}

// Reconcile implements platform.Reconciler.
func (d *Driver) Reconcile(ctx context.Context, known func(context.Context) ([]cluster.Cluster, error)) error {
	there, err := d.existingClusters(ctx)
	if err != nil {
		return fmt.Errorf("look for orphans: %w", err)
	}
	numbers, err := d.networkNumbers()
	if err != nil {
		return fmt.Errorf("look for orphans: %w", err)
	}
	rows, err := known(ctx)
	if err != nil {
		return fmt.Errorf("look for orphans: %w", err)
	}
	var errs []error
	for _, id := range there {
		if slices.ContainsFunc(rows, func(c cluster.Cluster) bool { return c.ID == id }) {
			continue
		}
		d.log.Warn("removing what no database owns", "cluster_id", id)
		errs = append(errs, d.Remove(ctx, cluster.Cluster{ID: id}))
	}
	return errors.Join(append(errs, d.removeStrayNetworks(ctx, numbers, rows))...)
}

// existingClusters returns the clusters of which anything exists on this machine.
func (d *Driver) existingClusters(ctx context.Context) ([]cluster.ID, error) {
	names, err := d.existingNodes()
	if err != nil {
		return nil, err
	}
	folders, err := namesIn(d.layout.clusters())
	if err != nil {
		return nil, err
	}
	var ids []cluster.ID
	for _, name := range folders {
		if id, err := strconv.ParseInt(name, 10, 64); err == nil {
			ids = append(ids, cluster.ID(id))
		}
	}
	for _, name := range append(names, folders...) {
		if id, ok := clusterOf(name); ok {
			ids = append(ids, id)
		}
	}
	routes, err := d.o.Gateway.Routes(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		ids = append(ids, r.Cluster)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// existingNodes names the nodes of which there are processes, limits, sockets or keys.
func (d *Driver) existingNodes() ([]string, error) {
	sockets, err := namesIn(d.layout.run)
	if err != nil {
		return nil, err
	}
	keys, err := namesIn(d.layout.keys)
	if err != nil {
		return nil, err
	}
	groups, err := d.groups.Names()
	if err != nil {
		return nil, err
	}
	marked, err := process.Marked(d.scope + "/")
	if err != nil {
		return nil, err
	}
	names := slices.Concat(sockets, keys, groups)
	for mark := range marked {
		names = append(names, strings.TrimPrefix(mark, d.scope+"/"))
	}
	return names, nil
}

// namesIn names what is in a folder; nothing when it isn't there.
func namesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// StopAll stops every server cleanly, also those of clusters that this process
// knows nothing of, and tells how many there were.
func (d *Driver) StopAll(ctx context.Context) (int, error) {
	records, err := d.records()
	if err != nil {
		return 0, fmt.Errorf("stop servers: %w", err)
	}
	if err := d.stopPoolers(ctx); err != nil {
		return 0, fmt.Errorf("stop poolers: %w", err)
	}
	type result struct {
		stopped bool
		err     error
	}
	results := make(chan result, len(records))
	slots := make(chan struct{}, 4)
	for _, rec := range records {
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			stopped, err := d.stopOne(ctx, rec)
			results <- result{stopped, err}
		}()
	}
	count := 0
	var errs []error
	for range records {
		r := <-results
		errs = append(errs, r.err)
		if r.stopped {
			count++
		}
	}
	errs = append(errs, d.removeScratches(ctx), d.removeImports())
	// Nothing is left to be limited: the folder of all groups goes, unless
	// somebody put something of their own there.
	if errors.Join(errs...) == nil {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := d.groups.Close(short); err != nil {
			d.log.Debug("control groups stay", "error", err)
		}
	}
	return count, errors.Join(errs...)
}

func (d *Driver) stopOne(ctx context.Context, rec *state.Node) (bool, error) {
	cs, ns := d.clusterState(rec.Cluster), d.clusterState(rec.Cluster).node(rec.Ordinal)
	if err := cs.lock(ctx); err != nil {
		return false, err
	}
	defer cs.unlock()
	eng, err := d.engine(rec.Engine)
	if err != nil {
		return false, err
	}
	group := d.groups.Find(nodeName(rec.Cluster, rec.Ordinal))
	p := ns.process()
	ns.setProcess(nil)
	running := p != nil && p.Running()
	if running {
		err = p.Stop(ctx, stopRequest(eng), group)
	} else {
		err = process.KillAll(ctx, d.identity(rec), group)
	}
	if err == nil && group != nil {
		err = group.Remove(ctx)
	}
	if err != nil {
		return false, fmt.Errorf("cluster %d: %w", rec.Cluster, err)
	}
	return running, nil
}
