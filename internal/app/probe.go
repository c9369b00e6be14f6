package app

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/monitor"
	"steward/internal/platform/host"
	"steward/internal/probe"
)

// openProbe makes what checks services, and the rules of where it may go.
func (a *App) openProbe(ctx context.Context) error {
	roots, err := a.o.Monitor.Roots()
	if err != nil {
		return fmt.Errorf("monitor.ca_file: %w", err)
	}
	a.networks = &monitor.Networks{Regions: a.catalog.Networks(), Forbidden: host.ServerNetworks(a.serverNetworks)}
	for _, text := range a.o.Monitor.ForbiddenNetworks {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("monitor.forbidden_networks: %w", err)
		}
		a.networks.Forbidden = append(a.networks.Forbidden, p)
	}
	for _, port := range a.o.Monitor.ForbiddenPorts {
		a.networks.Guards = append(a.networks.Guards, monitor.Guard{First: uint16(port), Last: uint16(port), TCP: true})
	}
	own, err := a.guards(ctx)
	if err != nil {
		return err
	}
	a.networks.Guards = append(a.networks.Guards, own...)
	gateway, _ := a.gateway.(probe.Gateway)
	a.prober = probe.New(probe.Options{Networks: a.networks, Roots: roots, UserAgent: a.o.Monitor.UserAgent(), Gateway: gateway})
	return nil
}

// guards keep checks off steward's own ports: that customers' ends are open may be
// looked at, but nothing is requested of them, and the store is left alone.
func (a *App) guards(ctx context.Context) ([]monitor.Guard, error) {
	var guards []monitor.Guard
	for _, l := range []net.Listener{a.listener, a.metrics} {
		if l == nil {
			continue
		}
		guard, err := guardOf(l)
		if err != nil {
			return nil, err
		}
		guards = append(guards, guard)
	}
	ports, err := a.o.Gateway.PortRange()
	if err != nil {
		return nil, err
	}
	primary, secondary, err := a.o.Gateway.Addresses()
	if err != nil {
		return nil, err
	}
	guards = append(guards, monitor.Guard{
		Networks: []netip.Prefix{single(primary), single(secondary)}, First: uint16(ports[0]), Last: uint16(ports[1]), TCP: true,
	})
	guards = append(guards, a.regionGuards(ctx)...)
	if a.o.Store == "" {
		return guards, nil // on a unix socket
	}
	store, err := a.storeGuards(ctx)
	return append(guards, store...), err
}

// guardOf keeps requests off a listener of steward's.
func guardOf(l net.Listener) (monitor.Guard, error) {
	address, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		return monitor.Guard{}, fmt.Errorf("address of the listener: %w", err)
	}
	at, err := machineAddresses(address.Addr().Unmap())
	return monitor.Guard{Networks: at, First: address.Port(), Last: address.Port(), TCP: true}, err
}

// machineAddresses are those that a listener's address stands for.
func machineAddresses(listener netip.Addr) ([]netip.Prefix, error) {
	if !listener.IsUnspecified() {
		return []netip.Prefix{single(listener)}, nil
	}
	found := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of this machine: %w", err)
	}
	for _, address := range all {
		if p, err := netip.ParsePrefix(address.String()); err == nil {
			found = append(found, single(p.Addr()))
		}
	}
	return found, nil
}

func single(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen())
}

// storeGuards are for the servers of a store that isn't steward's own. A name is
// looked up once; who moves the store forbids its network.
func (a *App) storeGuards(ctx context.Context) ([]monitor.Guard, error) {
	config, err := pgconn.ParseConfig(a.o.Store)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	servers := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port}}, config.Fallbacks...)
	var guards []monitor.Guard
	for _, server := range servers {
		if strings.HasPrefix(server.Host, "/") {
			continue
		}
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", server.Host)
		if err != nil {
			return nil, fmt.Errorf("look up the store's server: %w", err)
		}
		for _, address := range found {
			guards = append(guards, monitor.Guard{Networks: []netip.Prefix{single(address)}, First: server.Port, Last: server.Port})
		}
	}
	return guards, nil
}
