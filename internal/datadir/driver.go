package datadir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"

	"steward/internal/config"
	"steward/internal/gateway/kernel"
	"steward/internal/netns"
	"steward/internal/platform/host"
)

// GatewayDriver says which gateway serves the folder, and why. It stays what it is while servers run: they
// listen in networks of their own, or on loopback.
func (d Dir) GatewayDriver(c config.Config) (driver, why string, err error) {
	running, err := host.RunningServers(d.Data)
	if err != nil {
		return "", "", err
	}
	available := errors.New("it isn't asked for")
	if c.Gateway.Driver != config.GatewayHAProxy {
		if available = kernel.Available(); available == nil && !d.HasNetworks() { // where there are some, more can be made
			available = netns.Available()
		}
	}
	return chooseDriver(c.Gateway.Driver, available, running)
}

// chooseDriver chooses by what is asked for, whether the kernel's tables can be used, and what runs.
func chooseDriver(asked string, available error, running host.Running) (driver, why string, err error) {
	switch {
	case asked == config.GatewayKernel && available != nil:
		return "", "", fmt.Errorf("gateway.driver is kernel: %w", available)
	case asked == config.GatewayKernel && running.OnLoopback > 0:
		return "", "", fmt.Errorf("gateway.driver is kernel, but %d database servers run without a network of their own: `steward stop --all` first", running.OnLoopback)
	case asked == config.GatewayHAProxy && running.Networked > 0:
		return "", "", fmt.Errorf("gateway.driver is haproxy, but %d database servers run in networks of their own: `steward stop --all` first", running.Networked)
	case asked != config.GatewayAuto:
		return asked, "it is configured (gateway.driver)", nil
	case available != nil && running.Networked > 0:
		return "", "", fmt.Errorf("%d database servers run in networks of their own: %w", running.Networked, available)
	case available != nil:
		return config.GatewayHAProxy, available.Error(), nil
	case running.OnLoopback > 0:
		return config.GatewayHAProxy, fmt.Sprintf("%d database servers were started for it; once all were stopped (`steward stop --all`) the kernel takes over", running.OnLoopback), nil
	}
	return config.GatewayKernel, "this process is root and the kernel allows it", nil
}

// KernelOptions are those of the kernel's gateway of this folder, but for what is asked of servers.
func (d Dir) KernelOptions(c config.Config, log *slog.Logger) (kernel.Options, error) {
	ports, err := c.Gateway.PortRange()
	if err != nil {
		return kernel.Options{}, err
	}
	o := kernel.Options{Dir: d.Gateway(), Ports: ports, HoldLimit: c.Gateway.Hold, Logger: log}
	o.PrimaryAddr, o.SecondaryAddr, err = c.Gateway.Addresses()
	return o, err
}

// NetworkOptions are those of the networks of this folder's servers.
func (d Dir) NetworkOptions(c config.Config, log *slog.Logger) (netns.Options, error) {
	network, err := c.Isolation.Range()
	return netns.Options{Dir: d.Networks(), RunDir: d.Namespaces(), Network: network, Logger: log}, err
}

// HasNetworks reports whether the kernel's gateway was used since all was last stopped.
func (d Dir) HasNetworks() bool {
	_, err := os.Stat(d.Networks())
	return err == nil
}

// EndKernel removes the kernel's gateway of the folder, and the networks of its servers, which have ended.
func (d Dir) EndKernel(ctx context.Context, c config.Config, log *slog.Logger) error {
	options, err := d.KernelOptions(c, log)
	if err != nil {
		return err
	}
	network, err := d.NetworkOptions(c, log)
	if err != nil {
		return err
	}
	network.Network = netip.Prefix{} // whatever it was
	if err := kernel.End(ctx, options); err != nil {
		return err
	}
	networks, err := netns.Open(ctx, network)
	if err != nil {
		return err
	}
	return networks.Clear(ctx)
}
