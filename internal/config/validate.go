package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"steward/internal/cluster"
	"steward/internal/embeddedpg"
)

// validate is all that is wrong, not just the first.
func (c Config) validate() []error {
	return slices.Concat(
		c.Gateway.validate(), c.Server.validate(), c.Limits.validate(), c.Quotas.validate(), c.validateIsolation(),
		c.validateBackups(), c.Monitor.validate(), c.Imports.validate(), c.validateNotices(), c.Catalog.validate(), c.Console.validate(),
		failing(
			check{c.Audit.Keep < leastAudit, fmt.Sprintf("audit.keep: must be at least %s", leastAudit)},
			check{c.Pool.Size < 0 || c.Pool.Size > 100, "pool.size: must be 0-100"},
			check{c.Engines.DiscoverEvery < time.Second || c.Engines.DiscoverEvery > 24*time.Hour, "engines.discover_every: must be 1s-24h"},
			check{c.AutoSuspend.IdleMinutes < 0 || c.AutoSuspend.IdleMinutes > cluster.MaxAutoSuspend, fmt.Sprintf("auto_suspend.idle_minutes: must be 0-%d", cluster.MaxAutoSuspend)},
			check{c.Maintenance.AtOnce < 1 || c.Maintenance.AtOnce > 100, "maintenance.at_once: must be 1-100"},
		),
	)
}

// check is a condition that must not hold, and what to say when it does.
type check struct {
	wrong bool
	text  string
}

func failing(checks ...check) (errs []error) {
	for _, c := range checks {
		if c.wrong {
			errs = append(errs, errors.New(c.text))
		}
	}
	return errs
}

func (g Gateway) validate() (errs []error) {
	primary, err := netip.ParseAddr(g.PrimaryAddress)
	if err != nil {
		errs = append(errs, fmt.Errorf("gateway.primary_address: %w", err))
	}
	secondary, err := netip.ParseAddr(g.SecondaryAddress)
	if err != nil {
		errs = append(errs, fmt.Errorf("gateway.secondary_address: %w", err))
	}
	if primary.IsUnspecified() || secondary.IsUnspecified() || primary == secondary {
		errs = append(errs, errors.New("gateway: primary_address and secondary_address must be two different addresses of this machine"))
	}
	if _, err := g.PortRange(); err != nil {
		errs = append(errs, fmt.Errorf("gateway.ports: %w", err))
	}
	return append(errs, failing(
		check{!slices.Contains([]string{GatewayAuto, GatewayKernel, GatewayHAProxy}, g.Driver), fmt.Sprintf("gateway.driver: %q must be auto, kernel or haproxy", g.Driver)},
		check{g.Hold < time.Second || g.Hold > 10*time.Minute, "gateway.hold: must be 1s-10m"},
	)...)
}

func (c Server) validate() []error {
	if _, err := c.Proxies(); err != nil {
		return []error{err}
	}
	return nil
}

// validate wants an origin that keeps passwords from the network's eyes.
func (c Console) validate() []error {
	if c.URL == "" {
		return nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return []error{fmt.Errorf("console.url: %q must be an address without a path, such as https://steward.example.org", c.URL)}
	}
	loopback := slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname())
	if u.Scheme != "https" && !(u.Scheme == "http" && loopback) {
		return []error{errors.New("console.url: must begin with https://, or with http:// for this machine's loopback only")}
	}
	return nil
}

func (l Limits) validate() []error {
	all := l.all()
	return failing(check{slices.Min(all) < 0 || slices.Max(all) > 1_000_000, "limits: must be 0-1000000; 0 switches a limit off"})
}

func (c Config) validateIsolation() []error {
	i := c.Isolation
	ports, err := c.Gateway.PortRange()
	_, network := i.Range()
	storesUser := err == nil && i.UIDBase+ports[0] <= embeddedpg.UID && i.UIDBase+ports[1] >= embeddedpg.UID
	var errs []error
	if network != nil {
		errs = append(errs, network)
	}
	return append(errs, failing(
		check{i.Bubblewrap != "auto" && i.Bubblewrap != "off", "isolation.bubblewrap: must be auto or off"},
		check{i.Cgroups != "auto" && i.Cgroups != "off", "isolation.cgroups: must be auto or off"},
		check{i.UIDBase < 1000 || i.UIDBase > 1<<31, fmt.Sprintf("isolation.uid_base: must be 1000-%d", 1<<31)},
		check{storesUser, fmt.Sprintf("isolation.uid_base: a database would get the store's user id %d; choose another base", embeddedpg.UID)},
	)...)
}

func (c Catalog) validate() []error {
	if c.File == "" {
		return nil
	}
	if _, err := os.Stat(c.File); err != nil {
		return []error{fmt.Errorf("catalog.file: %w", err)}
	}
	return nil
}
