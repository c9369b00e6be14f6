package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/netns"
	"steward/internal/platform"
	"steward/internal/process"
)

// Options are what a Driver is made of.
type Options struct {
	// DataDir holds all that must be kept, RunDir sockets (a short path),
	// KeysDir, in memory, keys that must never be on the data disk.
	DataDir, RunDir, KeysDir string

	Engines map[cluster.Engine]engine.Driver
	// EngineFolders are searched for engine.json files beside what the
	// distribution installed. Installations, when not nil, are used instead of searching.
	EngineFolders []string
	Installations []engine.Installation
	// DiscoverEvery is the time between two searches; 5 min unless set.
	DiscoverEvery time.Duration

	Gateway Gateway
	Secrets platform.Secrets

	// Ports are the first and the last port of clusters.
	Ports [2]int
	// PrimaryAddress and SecondaryAddress are the gateway's.
	PrimaryAddress, SecondaryAddress netip.Addr
	// Hostnames are further names for certificates.
	Hostnames []string
	// UIDBase and a cluster's port add up to the user it runs as, when root.
	UIDBase int

	Isolation Isolation
	// Networks are servers' own, for a gateway that leads there; nil has all listen on loopback.
	Networks *netns.Network
	// Internet lets servers in networks of their own connect to the world outside.
	Internet bool
	// Continuous turns continuous archiving on for engines that can do it.
	Continuous bool
	// PoolSize is how many clones wait for the next create, per template; 0 is none.
	PoolSize int
	// CheckTime is how long a table or an index of a backup that is verified may
	// take, whatever its size; 30 s unless set.
	CheckTime time.Duration

	// CompareEvery is how often each replica's rows are compared with the primary's,
	// where replicas may differ unseen; a day when 0.
	CompareEvery time.Duration

	// LookAtSessions is how often it is looked who is connected; 5 s unless set, and no
	// less often than Minute, which idle minutes are measured in: a minute unless set.
	LookAtSessions, Minute time.Duration

	Logger *slog.Logger
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Isolation says which isolation to use: "auto" for what is available, or "off".
type Isolation struct {
	Bubblewrap string
	Cgroups    string
}

func (o Options) validate() error {
	var errs []error
	for name, dir := range map[string]string{"data": o.DataDir, "run": o.RunDir, "keys": o.KeysDir} {
		if !filepath.IsAbs(dir) {
			errs = append(errs, fmt.Errorf("%s folder %q must be an absolute path", name, dir))
		}
	}
	if o.Ports[0] < 1 || o.Ports[1] > 65535 || o.Ports[0] > o.Ports[1] {
		errs = append(errs, fmt.Errorf("ports %d-%d are no range", o.Ports[0], o.Ports[1]))
	}
	if os.Geteuid() == 0 && o.UIDBase < 1000 {
		errs = append(errs, fmt.Errorf("first user id %d is one of the system's", o.UIDBase))
	}
	// A socket's path has at most 107 bytes; this is the longest name below.
	if longest := filepath.Join(o.RunDir, "9999999999-2", ".s.PGSQL.65535.lock"); len(longest) > 107 {
		errs = append(errs, fmt.Errorf("run folder %s: path is too long for sockets", o.RunDir))
	}
	if n, ports := o.Networks, o.Ports[1]-o.Ports[0]+1; n != nil && ports > n.Clusters() {
		errs = append(errs, fmt.Errorf("isolation.network %s has addresses for %d databases, gateway.ports has %d", n.Prefix(), n.Clusters(), ports))
	}
	return errors.Join(errs...)
}

// checkReach checks that the users that database servers run as can get to the folder.
func checkReach(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return process.CheckReach(dir)
}

// Discover finds the installations of all engines; unusable ones come back as notes.
func Discover(ctx context.Context, engines map[cluster.Engine]engine.Driver, folders []string) (found []engine.Installation, notes []error) {
	for _, family := range []cluster.Engine{cluster.MySQL, cluster.PostgreSQL} {
		driver := engines[family]
		if driver == nil {
			continue
		}
		f, n := driver.Discover(ctx, folders)
		found, notes = append(found, f...), append(notes, n...)
	}
	return found, notes
}
