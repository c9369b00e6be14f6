// Package catalog is what can be ordered: plans (the API's types), regions and
// engines. Plans and regions have built-in defaults that an operator's file
// replaces; engines are what the platform found on the machine.
package catalog

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"steward/internal/cluster"
)

// Plan is the size of a node: the API's type. Memory and disk are in MB.
type Plan struct {
	ID         string `yaml:"id"`
	Label      string `yaml:"label"`
	Class      string `yaml:"class"`
	MemoryMB   int    `yaml:"memory"`
	DiskMB     int    `yaml:"disk"`
	VCPUs      int    `yaml:"vcpus"`
	Deprecated bool   `yaml:"deprecated"`
	// Hourly and Monthly are the price of one node.
	Hourly  float64 `yaml:"hourly"`
	Monthly float64 `yaml:"monthly"`
}

// DiskBytes is the plan's disk limit in bytes.
func (p Plan) DiskBytes() int64 { return int64(p.DiskMB) << 20 }

// DiskGB is the plan's disk as the API shows it.
func (p Plan) DiskGB() int { return p.DiskMB / 1024 }

// RoomPercent is how much of a plan's disk data may take that moves to it from a larger one: as much as is left alone before a
// database is looked at often, well below where it becomes read-only.
const RoomPercent = 80

// HasRoomFor reports whether data of so many bytes may move to the plan from a larger one.
func (p Plan) HasRoomFor(bytes int64) bool { return bytes <= p.DiskBytes()/100*RoomPercent }

// NoRoom says why it may not, with the figures.
func (p Plan) NoRoom(bytes int64) string {
	const mb = 1 << 20
	return fmt.Sprintf("the data takes %d MB, and may take %d MB, %d %% of the %d GB of %s", (bytes+mb-1)/mb, p.DiskMB*RoomPercent/100, RoomPercent, p.DiskGB(), p.ID)
}

// LessThan reports whether a plan has less of anything than another one.
func (p Plan) LessThan(other Plan) bool {
	return p.MemoryMB < other.MemoryMB || p.DiskMB < other.DiskMB || p.VCPUs < other.VCPUs
}

// Size is memory and disk of a node of a plan, in MB; none of one that isn't there.
func (c *Catalog) Size(plan string) (memoryMB, diskMB int) {
	p, _ := c.Plan(plan)
	return p.MemoryMB, p.DiskMB
}

// Region is a place where databases run and services are watched.
type Region struct {
	ID        string   `yaml:"id"`
	Label     string   `yaml:"label"`
	Country   string   `yaml:"country"`
	Status    string   `yaml:"status"`
	Resolvers Resolver `yaml:"resolvers"`
	// Networks are the private ones that monitored services of the region may be in.
	Networks []netip.Prefix `yaml:"networks"`
	// Platform is where its databases run; this host unless it says otherwise.
	Platform Platform `yaml:"platform"`
}

// Resolver holds a region's DNS servers as comma-separated lists, as clients expect.
type Resolver struct {
	IPv4 string `yaml:"ipv4"`
	IPv6 string `yaml:"ipv6"`
}

// Engine is a release series that can be run somewhere.
type Engine struct {
	Engine cluster.Engine
	Series string
	// Disk is size and use of the server's programs on this host; nil elsewhere. It is found out when it is asked for: there are
	// thousands of files.
	Disk func() (total, used int64)
	// EncryptionMissing is why data can't be encrypted at rest, "" when it can.
	EncryptionMissing string
	// Lacks is what can't be done with its databases, where it can with those of other engines.
	Lacks Lacks
	// Upgrades say of each build of an older series, by its id, why its data can't be moved to this one; "" when it can.
	Upgrades map[string]string
	// Libraries are those that settings can have loaded, Extensions all that come with the server, by name; only PostgreSQL has any.
	Libraries  []string
	Extensions []Extension
}

// Lacks is what can't be done with databases of an engine: their backups, restores to moments between those, what needs their logs, and having several nodes.
type Lacks struct{ Backups, Moments, Logs, Nodes bool }

// ID is "engine/series".
func (e Engine) ID() string { return string(e.Engine) + "/" + e.Series }

// DiskBytes are size and use of the server's programs, 0 where it isn't this host that has them.
func (e Engine) DiskBytes() (total, used int64) {
	if e.Disk == nil {
		return 0, 0
	}
	return e.Disk()
}

// Catalog is all of it. But for what other platforms than this host can do, it does not change while the server runs.
type Catalog struct {
	Plans   []Plan
	Regions []Region
	// Engines are those of this host.
	Engines []Engine
	// Elsewhere says what regions can do whose platform isn't this host; nil while there are none.
	Elsewhere Elsewhere
}

// Plan finds a plan by id.
func (c *Catalog) Plan(id string) (Plan, bool) {
	return find(c.Plans, func(p Plan) bool { return p.ID == id })
}

// Region finds a region by id.
func (c *Catalog) Region(id string) (Region, bool) {
	return find(c.Regions, func(r Region) bool { return r.ID == id })
}

// Networks are the private networks that each region reaches.
func (c *Catalog) Networks() map[string][]netip.Prefix {
	networks := make(map[string][]netip.Prefix, len(c.Regions))
	for _, r := range c.Regions {
		networks[r.ID] = r.Networks
	}
	return networks
}

// Offered are the engines of all regions, each once.
func (c *Catalog) Offered() []Engine {
	all := slices.Clone(c.Engines)
	for _, r := range c.Regions {
		if r.Platform.OnHost() {
			continue
		}
		for _, e := range c.Abilities(r.ID).Engines {
			if !slices.ContainsFunc(all, func(o Engine) bool { return o.ID() == e.ID() }) {
				all = append(all, e)
			}
		}
	}
	return all
}

// Engine finds an engine by family and series.
func (c *Catalog) Engine(engine cluster.Engine, series string) (Engine, bool) {
	return find(c.Offered(), func(e Engine) bool { return e.Engine == engine && e.Series == series })
}

// Series is the release series that a version asks for: the version itself where
// it is offered, for a major version such as 10 the newest of its series that
// are. What is neither stays as it is.
func (c *Catalog) Series(engine cluster.Engine, version string) string {
	if _, ok := c.Engine(engine, version); ok {
		return version
	}
	newest := version
	for _, e := range c.Offered() {
		if e.Engine == engine && cluster.Major(e.Series) == version && (newest == version || minor(e.Series) > minor(newest)) {
			newest = e.Series
		}
	}
	return newest
}

// minor is the number after a series' major version; 0 without any.
func minor(series string) int {
	_, rest, _ := strings.Cut(series, ".")
	n, _ := strconv.Atoi(rest)
	return n
}

func find[T any](items []T, match func(T) bool) (T, bool) {
	if i := slices.IndexFunc(items, match); i >= 0 {
		return items[i], true
	}
	var none T
	return none, false
}

// Next is the plan that a database grows into: of those that are offered for it with more disk, no less of anything else, and
// nothing beyond the largest allowed, the one with the least disk; false when there is none.
func (c *Catalog) Next(now, largest string, engine cluster.Engine, size int) (next Plan, ok bool) {
	from, known := c.Plan(now)
	most, allowed := c.Plan(largest)
	if !known || !allowed {
		return next, false
	}
	for _, p := range c.Plans {
		fits := p.DiskMB > from.DiskMB && !p.LessThan(from) && p.MemoryMB <= most.MemoryMB && p.DiskMB <= most.DiskMB && p.VCPUs <= most.VCPUs
		if !fits || !c.HasType(p.ID, engine, size) {
			continue
		}
		if !ok || p.DiskMB < next.DiskMB || p.DiskMB == next.DiskMB && p.MemoryMB < next.MemoryMB {
			next, ok = p, true
		}
	}
	return next, ok
}
