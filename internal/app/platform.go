package app

import (
	"context"
	"fmt"

	"steward/internal/gateway"
	"steward/internal/platform/host"
)

func (a *App) openGateway(ctx context.Context) error {
	options, err := a.dir.GatewayOptions(a.o.Config, a.log)
	if err != nil {
		return err
	}
	a.gateway, err = gateway.Open(ctx, options)
	return err
}

func (a *App) openHost(ctx context.Context) error {
	options, err := a.dir.HostOptions(a.o.Config, a.log)
	if err != nil {
		return err
	}
	options.Gateway, options.Secrets = a.gateway, a.store
	a.host, err = host.New(ctx, options)
	return err
}

// openCatalog reads what is offered, of which the host can run the engines.
func (a *App) openCatalog(ctx context.Context) error {
	for _, note := range a.host.Notes() {
		a.log.WarnContext(ctx, "an engine can't be used", "error", note)
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
