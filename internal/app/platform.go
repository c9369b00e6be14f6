package app

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/user"
	"strconv"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/mysql"
	"steward/internal/engine/postgresql"
	"steward/internal/failpoint"
	"steward/internal/gateway"
	"steward/internal/platform/host"
)

func addresses(c Config) (primary, secondary netip.Addr, err error) {
	if primary, err = netip.ParseAddr(c.Gateway.PrimaryAddress); err != nil {
		return primary, secondary, fmt.Errorf("gateway.primary_address: %w", err)
	}
	if secondary, err = netip.ParseAddr(c.Gateway.SecondaryAddress); err != nil {
		return primary, secondary, fmt.Errorf("gateway.secondary_address: %w", err)
	}
	return primary, secondary, nil
}

func gatewayOptions(p paths, c Config, log *slog.Logger) (gateway.Options, error) {
	ports, err := c.Gateway.PortRange()
	if err != nil {
		return gateway.Options{}, err
	}
	o := gateway.Options{Dir: p.gateway(), RunDir: p.Run, Ports: ports, Logger: log}
	if o.PrimaryAddr, o.SecondaryAddr, err = addresses(c); err != nil {
		return o, err
	}
	o.UID, o.GID, err = gatewayUser()
	return o, err
}

// gatewayUser is whom HAProxy becomes when steward is root.
func gatewayUser() (uid, gid int, err error) {
	if os.Geteuid() != 0 {
		return 0, 0, nil
	}
	u, err := user.Lookup("haproxy")
	if err != nil {
		return 0, 0, fmt.Errorf("the user haproxy is missing, install the package haproxy: %w", err)
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, 0, fmt.Errorf("user haproxy: %w", err)
	}
	if gid, err = strconv.Atoi(u.Gid); err != nil {
		return 0, 0, fmt.Errorf("user haproxy: %w", err)
	}
	return uid, gid, nil
}

func engineDrivers(log *slog.Logger) map[cluster.Engine]engine.Driver {
	return map[cluster.Engine]engine.Driver{cluster.PostgreSQL: postgresql.New(), cluster.MySQL: mysql.New(log)}
}

func hostOptions(p paths, c Config, log *slog.Logger) (host.Options, error) {
	ports, err := c.Gateway.PortRange()
	if err != nil {
		return host.Options{}, err
	}
	o := host.Options{
		DataDir: p.Data, RunDir: p.Run, KeysDir: p.Keys, Engines: engineDrivers(log), EngineFolders: c.Engines.Folders, DiscoverEvery: c.Engines.DiscoverEvery, Now: failpoint.Now,
		Ports: ports, Hostnames: c.Gateway.Hostnames, UIDBase: c.Isolation.UIDBase, PoolSize: c.Pool.Size, Logger: log,
		Continuous: c.Backups.Continuous,
		Isolation:  host.Isolation{Bubblewrap: c.Isolation.Bubblewrap, Cgroups: c.Isolation.Cgroups},
	}
	o.PrimaryAddress, o.SecondaryAddress, err = addresses(c)
	return o, err
}
