package host

import (
	"context"
	"slices"
	"sync"
	"time"

	"steward/internal/engine"
	"steward/internal/wait"
)

// discovery is which server builds there are on this machine.
type discovery struct {
	// looking is held while somebody searches.
	looking sync.Mutex

	mu    sync.Mutex
	found []engine.Installation
	at    time.Time
	// missed are those that the last search didn't find.
	missed map[string]bool
}

// freshDiscovery is how old a search may be for a patch to go by it.
const freshDiscovery = 10 * time.Second

// Installations are the server builds found.
func (d *Driver) Installations() []engine.Installation {
	d.discovery.mu.Lock()
	defer d.discovery.mu.Unlock()
	return d.discovery.found
}

// keepDiscovering searches again now and then: the distribution brings newer
// builds, and takes older ones away, while steward runs.
func (d *Driver) keepDiscovering() {
	wait.Every(d.quit, d.o.DiscoverEvery, func() { d.discoverAgain(d.quit, 0) })
}

// discoverAgain searches unless that was done within age. Builds that were given
// to the driver stay as they are.
func (d *Driver) discoverAgain(ctx context.Context, age time.Duration) {
	if d.o.Installations != nil {
		return
	}
	d.discovery.looking.Lock()
	defer d.discovery.looking.Unlock()
	if d.discovery.within(age) {
		return
	}
	found, notes := Discover(ctx, d.o.Engines, d.o.EngineFolders)
	if ctx.Err() != nil {
		return // what wasn't asked in time isn't gone
	}
	added, gone := d.discovery.take(found, time.Now())
	for _, note := range notes {
		d.log.Debug("an engine can't be used", "error", note)
	}
	for _, i := range added {
		d.log.Info("found a server build", "installation", i.ID())
	}
	for _, i := range gone {
		d.log.Info("a server build is gone", "installation", i.ID())
	}
	if len(added) > 0 {
		d.templates.Wake()
	}
}

func (s *discovery) within(age time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.at) < age
}

// take makes found what there is. A build that isn't found once is kept, since
// its files may just be being replaced; the second time it is gone.
func (s *discovery) take(found []engine.Installation, now time.Time) (added, gone []engine.Installation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	missed := map[string]bool{}
	all := slices.Clone(found)
	for _, old := range s.found {
		switch {
		case contains(found, old):
		case s.missed[old.ID()]:
			gone = append(gone, old)
		default:
			missed[old.ID()] = true
			all = append(all, old)
		}
	}
	for _, i := range found {
		if !contains(s.found, i) {
			added = append(added, i)
		}
	}
	s.found, s.missed, s.at = all, missed, now
	return added, gone
}

func contains(all []engine.Installation, one engine.Installation) bool {
	return slices.ContainsFunc(all, func(i engine.Installation) bool { return i.ID() == one.ID() })
}
