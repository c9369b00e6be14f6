package regions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/platform"
)

// startTime is how long a start waits for regions to be reached for the first time.
const startTime = 5 * time.Second

// Driver is a platform that may be away.
type Driver interface {
	platform.Driver
	// Check asks whether it can be reached, and for what it offers.
	Check(ctx context.Context) error
	// Abilities are what it can do, as was known at the last Check.
	Abilities() catalog.Abilities
	Close()
}

// Region has a platform of its own.
type Region struct {
	ID string
	// Platform is the name of the platform, as clusters have it that were made there.
	Platform string
	// Open connects to the platform.
	Open func(ctx context.Context) (Driver, error)
}

// Options are what a Router is made of.
type Options struct {
	// Host has all regions that are none of Regions.
	Host    platform.Driver
	Regions []Region
	// Cluster reads what is kept of a cluster, of which the region and the platform count.
	Cluster func(ctx context.Context, id cluster.ID) (cluster.Cluster, error)
	Logger  *slog.Logger
	// Every is the time between two looks whether a region can be reached; 10 s unless set.
	Every time.Duration
}

// Router is a platform.Driver that asks the platform of each cluster's region.
type Router struct {
	o       Options
	host    platform.Driver
	remotes map[string]*remote
	changes chan cluster.ID
	// known are the places of clusters, which stay the same.
	known sync.Map

	end     context.CancelFunc
	running sync.WaitGroup
}

var (
	_ platform.Driver   = (*Router)(nil)
	_ catalog.Elsewhere = (*Router)(nil)
)

// New makes a Router; Start has it look for its regions.
func New(o Options) *Router {
	if o.Every == 0 {
		o.Every = 10 * time.Second
	}
	r := &Router{o: o, host: o.Host, remotes: map[string]*remote{}, changes: make(chan cluster.ID, 64)}
	for _, region := range o.Regions {
		r.remotes[region.ID] = &remote{
			Region: region, every: o.Every, log: o.Logger.With("region", region.ID), away: errNotYet, since: time.Now(), looked: make(chan struct{}),
		}
	}
	return r
}

// Start looks for the regions until Close. It returns when each was reached once, or couldn't be, or after a few seconds.
func (r *Router) Start(ctx context.Context) {
	if len(r.remotes) == 0 {
		return
	}
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	r.end = end
	r.running.Go(func() { r.forward(background, r.host.Changes()) })
	for _, m := range r.remotes {
		r.running.Go(func() {
			m.run(background, func(d Driver) { r.running.Go(func() { r.forward(background, d.Changes()) }) })
		})
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for _, m := range r.remotes {
		select {
		case <-m.looked:
		case <-ctx.Done():
		}
	}
}

// Close ends the looks and the connections to the regions; the host is its owner's to end.
func (r *Router) Close() {
	if r.end == nil {
		return
	}
	r.end()
	r.running.Wait()
	for _, m := range r.remotes {
		m.close()
	}
}

func (r *Router) forward(ctx context.Context, from <-chan cluster.ID) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-from:
			select {
			case r.changes <- id:
			case <-ctx.Done():
				return
			}
		}
	}
}

// Changes implements platform.Driver.
func (r *Router) Changes() <-chan cluster.ID {
	if len(r.remotes) == 0 {
		return r.host.Changes()
	}
	return r.changes
}

// Engines implements platform.Driver: those of the host.
func (r *Router) Engines() []catalog.Engine { return r.host.Engines() }

// Abilities implements catalog.Elsewhere.
func (r *Router) Abilities(region string) catalog.Abilities {
	m := r.remotes[region]
	if m == nil {
		return catalog.Abilities{Away: "There is no such region here."}
	}
	return m.abilities()
}

// State is how a region is that has a platform of its own.
type State struct {
	Region string
	// Away is why it can't be reached; nil while it can. Since is since when it is as it is.
	Away  error
	Since time.Time
}

// States are those of all such regions, in the order of their names.
func (r *Router) States() []State {
	var all []State
	for _, id := range slices.Sorted(maps.Keys(r.remotes)) {
		all = append(all, r.remotes[id].state())
	}
	return all
}

// place is where a cluster was made.
type place struct{ region, platform string }

// reached is the platform that a cluster is on, or why it can't be asked.
type reached struct {
	driver platform.Driver
	err    error
}

// get asks it for something.
func get[T any](at reached, ask func(platform.Driver) (T, error)) (T, error) {
	if at.err != nil {
		var none T
		return none, at.err
	}
	return ask(at.driver)
}

// do has it do something.
func (at reached) do(work func(platform.Driver) error) error {
	if at.err != nil {
		return at.err
	}
	return work(at.driver)
}

// look is the platform to ask about a cluster, also while what is there can't be changed.
func (r *Router) look(ctx context.Context, id cluster.ID) reached {
	at, known := r.known.Load(id)
	if !known {
		c, err := r.o.Cluster(ctx, id)
		if err != nil {
			return reached{err: fmt.Errorf("look for the region of cluster %d: %w", id, err)}
		}
		at = place{c.Region, c.Platform}
		r.known.Store(id, at)
	}
	return r.on(at.(place), (*remote).forLooks) // nothing else is kept there
}

// change is the platform to change a cluster on.
func (r *Router) change(c cluster.Cluster) reached {
	return r.on(place{c.Region, c.Platform}, (*remote).forChanges)
}

// on is the platform at a place, the host unless it is in a region with one of its own.
func (r *Router) on(p place, of func(*remote) (platform.Driver, error)) reached {
	m, err := r.at(p)
	switch {
	case err != nil:
		return reached{err: err}
	case m == nil:
		return reached{driver: r.host}
	}
	d, err := of(m)
	return reached{d, err}
}

// at is the region that a cluster is in, nil for the host. A server that shares its store with others may have an older catalog
// than they: what it doesn't have is away for it, and never taken for something else.
func (r *Router) at(p place) (*remote, error) {
	m, here := r.remotes[p.region], catalog.Host
	if m != nil {
		here = m.Platform
	}
	if p.platform != here {
		return nil, fmt.Errorf("region %s: %w: it is on %s for this server, and on %s for who made the database", p.region, platform.ErrAway, here, p.platform)
	}
	return m, nil
}

// reachable are all platforms that can be changed now.
func (r *Router) reachable() []platform.Driver {
	all := []platform.Driver{r.host}
	for _, m := range r.remotes {
		if d, err := m.forChanges(); err == nil {
			all = append(all, d)
		}
	}
	return all
}

// Reconcile implements platform.Reconciler. No platform holds up another, and none is told which clusters are its own:
// what is known anywhere is spared everywhere.
func (r *Router) Reconcile(ctx context.Context, known func(context.Context) ([]cluster.Cluster, error)) error {
	all := r.reachable()
	errs := make([]error, len(all))
	var work sync.WaitGroup
	for i, d := range all {
		work.Go(func() { errs[i] = d.Reconcile(ctx, known) })
	}
	work.Wait()
	return errors.Join(errs...)
}
