package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"steward/internal/catalog"
	"steward/internal/config"
	"steward/internal/control"
	"steward/internal/gateway"
	"steward/internal/gateway/kernel"
	"steward/internal/netns"
	"steward/internal/platform/host"
)

// openedGateway is a gateway of either driver.
type openedGateway interface {
	host.Gateway
	Close()
}

// noGateway is that of a server none of whose regions is its host.
type noGateway struct{}

func (noGateway) Set(context.Context, gateway.Route) error {
	return errors.New("no region is this host: there is no gateway")
}

func (noGateway) Remove(context.Context, int) error { return nil }

func (noGateway) Usable(int) error { return nil }

func (noGateway) Routes(context.Context) ([]gateway.Recorded, error) { return nil, nil }

func (noGateway) Close() {}

// openGateway opens the gateway that serves here, and ends the other one: both listen on the same ports.
func (a *App) openGateway(ctx context.Context) error {
	offered, err := a.o.Catalog.Load(nil)
	if err != nil {
		return err
	}
	a.onHost = slices.ContainsFunc(offered.Regions, func(r catalog.Region) bool { return r.Platform.OnHost() })
	if !a.onHost {
		a.gateway = noGateway{}
		a.log.InfoContext(ctx, "no region is this host: its engines and a gateway aren't needed")
		return nil
	}
	driver, why, err := a.dir.GatewayDriver(a.o.Config)
	if err != nil {
		return err
	}
	a.log.InfoContext(ctx, "the gateway", "driver", driver, "why", why)
	if driver == config.GatewayKernel {
		return a.openKernel(ctx)
	}
	if a.dir.HasNetworks() {
		if err := a.dir.EndKernel(ctx, a.o.Config, a.log); err != nil {
			return err
		}
	}
	options, err := a.dir.GatewayOptions(a.o.Config, a.log)
	if err != nil {
		return err
	}
	opened, err := gateway.Open(ctx, options)
	if err == nil {
		a.gateway = opened
	}
	return err
}

func (a *App) openKernel(ctx context.Context) error {
	if err := gateway.End(ctx, a.dir.Gateway(), a.dir.Run); err != nil {
		return err
	}
	network, err := a.dir.NetworkOptions(a.o.Config, a.log)
	if err != nil {
		return err
	}
	options, err := a.dir.KernelOptions(a.o.Config, a.log)
	if err != nil {
		return err
	}
	if a.serverNetworks, err = netns.Open(ctx, network); err != nil {
		return err
	}
	options.Namespace = a.serverNetworks.PathOf
	options.End = func(ctx context.Context, sessions []kernel.Session) {
		if d := a.sessionEnder.Load(); d != nil {
			d.EndSessions(ctx, sessions)
		}
	}
	options.Retire = func(ctx context.Context, sessions []kernel.Session, idle time.Duration) {
		if d := a.sessionEnder.Load(); d != nil {
			d.RetireSessions(ctx, sessions, idle)
		}
	}
	options.Waiting = func(port, held int) {
		if d := a.sessionEnder.Load(); d != nil {
			d.Waiting(port, held)
		}
	}
	opened, err := kernel.Open(ctx, options)
	if err != nil {
		a.serverNetworks.Close()
		return err
	}
	a.gateway = opened
	return nil
}

func (a *App) closeGateway() {
	a.gateway.Close()
	if a.serverNetworks != nil {
		a.serverNetworks.Close()
	}
}

func (a *App) openHost(ctx context.Context) error {
	options, err := a.dir.HostOptions(a.o.Config, a.log)
	if err != nil {
		return err
	}
	if a.continuous, err = a.dir.Continuous(a.o.Config, a.o.Archive); err != nil {
		return err
	}
	a.log.InfoContext(ctx, "what servers write between backups", "archived", a.continuous)
	options.Continuous = a.continuous
	options.Gateway, options.Secrets, options.Networks = a.gateway, a.store, a.serverNetworks
	if a.host, err = host.New(ctx, options); err != nil {
		return err
	}
	a.sessionEnder.Store(a.host)
	return nil
}

// openCatalog reads what is offered, of which the host can run the engines.
func (a *App) openCatalog(ctx context.Context) error {
	if a.onHost {
		for _, note := range a.host.Notes() {
			a.log.WarnContext(ctx, "an engine can't be used", "error", note)
		}
	}
	var err error
	if a.catalog, err = a.o.Catalog.Load(a.host.Engines()); err != nil {
		return err
	}
	return a.checkPorts(ctx)
}

// checkPorts refuses a range that leaves out databases that exist: their
// addresses and users follow from it.
func (a *App) checkPorts(ctx context.Context) error {
	ports, err := a.o.Gateway.PortRange()
	if err != nil {
		return err
	}
	all, err := a.store.ClustersForWork(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.Port < ports[0] || c.Port > ports[1] {
			return fmt.Errorf("gateway.ports %d-%d leaves out database %d (%s) at port %d: widen the range", ports[0], ports[1], c.ID, c.Label, c.Port)
		}
	}
	return nil
}

// pools is what connection pools databases of this host can have.
func (a *App) pools() (can control.PoolAbility) {
	can.Prepares, can.Missing = a.host.Pools()
	if can.Missing != nil {
		a.log.Info("databases can't be given connection pools", "why", can.Missing)
	}
	return can
}
