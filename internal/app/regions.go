package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/datadir"
	"steward/internal/monitor"
	"steward/internal/platform/kubernetes"
	"steward/internal/platform/regions"
)

// openRegions makes one platform of this host and of those that regions have.
func (a *App) openRegions(ctx context.Context) error {
	if err := a.checkRegions(ctx); err != nil {
		return err
	}
	o := regions.Options{Host: a.host, Cluster: a.store.ClusterForWork, Logger: a.log}
	for _, r := range a.elsewhere() {
		o.Regions = append(o.Regions, regions.Region{ID: r.ID, Platform: r.Platform.Name(), Open: a.opener(r.Platform, a.log.With("region", r.ID))})
	}
	if len(o.Regions) > 0 {
		kubernetes.LogTo(a.log.With("client", "kubernetes"))
	}
	a.regions = regions.New(o)
	a.catalog.Elsewhere = a.regions
	a.regions.Start(ctx)
	return nil
}

// elsewhere are the regions whose platform isn't this host.
func (a *App) elsewhere() []catalog.Region {
	return slices.DeleteFunc(slices.Clone(a.catalog.Regions), func(r catalog.Region) bool { return r.Platform.OnHost() })
}

func (a *App) opener(p catalog.Platform, log *slog.Logger) func(context.Context) (regions.Driver, error) {
	return func(ctx context.Context) (regions.Driver, error) {
		o, err := datadir.KubernetesOptions(p, log)
		if err != nil {
			return nil, err
		}
		if o.Owner, err = a.store.Identity(ctx); err != nil {
			return nil, err
		}
		o.Secrets = a.store
		d, err := kubernetes.New(ctx, o)
		if err != nil {
			return nil, err
		}
		return d, nil
	}
}

// checkRegions refuses a catalog without the region of a database that exists, or with another platform for it: what the
// database is made of is where it was made.
func (a *App) checkRegions(ctx context.Context) error {
	all, err := a.store.ClustersForWork(ctx)
	if err != nil {
		return err
	}
	lost := map[string][]string{}
	for _, c := range all {
		region, there := a.catalog.Region(c.Region)
		if there && region.Platform.Name() == c.Platform {
			continue
		}
		if gone, err := a.isGone(ctx, c); err != nil || gone {
			if err != nil {
				return err
			}
			continue
		}
		why := fmt.Sprintf("regions: %s is missing, and has", c.Region)
		if there {
			why = fmt.Sprintf("regions: %s: platform is %s, but was %s for", c.Region, region.Platform.Name(), c.Platform)
		}
		lost[why] = append(lost[why], fmt.Sprintf("database %d (%s)", c.ID, c.Label))
	}
	var errs []error
	for _, why := range slices.Sorted(maps.Keys(lost)) {
		errs = append(errs, fmt.Errorf("catalog.file %s: %s %s: put it back, or delete them first", a.o.Catalog.File, why, strings.Join(lost[why], ", ")))
	}
	return errors.Join(errs...)
}

// isGone reports whether nothing is left of a database but its backups.
func (a *App) isGone(ctx context.Context, c cluster.Cluster) (bool, error) {
	if c.Deleted == nil {
		return false, nil
	}
	going, err := a.store.UnfinishedOperations(ctx, c.ID)
	return err == nil && len(going) == 0, err
}

// regionGuards keep requests off the API servers of regions. A name is looked up once; while it can't be, its port is
// guarded everywhere.
func (a *App) regionGuards(ctx context.Context) []monitor.Guard {
	var guards []monitor.Guard
	for _, r := range a.elsewhere() {
		o, err := datadir.KubernetesOptions(r.Platform, a.log)
		if err != nil {
			continue // its region is degraded, and says why
		}
		host, port := hostPort(o.Config.Host)
		guard := monitor.Guard{First: port, Last: port}
		found, err := lookUp(ctx, host)
		if err != nil {
			a.log.WarnContext(ctx, "an API server's address isn't known: nobody's checks may go to its port", "region", r.ID, "port", port, "error", err)
		}
		for _, address := range found {
			guard.Networks = append(guard.Networks, netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()))
		}
		guards = append(guards, guard)
	}
	return guards
}

// lookUp finds the addresses of a host, for so long that a name server that hangs holds up no start.
func lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// hostPort is where an API server is, by its URL or by host and port alone.
func hostPort(server string) (host string, port uint16) {
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", 0
	}
	n, err := strconv.ParseUint(cmp.Or(u.Port(), map[string]string{"http": "80"}[u.Scheme], "443"), 10, 16)
	if err != nil {
		return "", 0
	}
	return u.Hostname(), uint16(n)
}
