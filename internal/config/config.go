package config

import (
	"fmt"
	"net/netip"
	"time"

	"steward/internal/monitor"
)

// Config is what an operator can set in the file given with --config, or in
// the environment: STEWARD_GATEWAY__PORTS is gateway.ports. The zero value of a
// key means its default. Unknown keys are refused: a typing mistake must not
// pass for a setting.
type Config struct {
	Server  Server  `koanf:"server"`
	Gateway Gateway `koanf:"gateway"`
	Catalog Catalog `koanf:"catalog"`
	Engines Engines `koanf:"engines"`
	Limits  Limits  `koanf:"limits"`
	// Quotas are those of accounts that have none of their own.
	Quotas    Quotas    `koanf:"quotas"`
	Seal      Seal      `koanf:"seal"`
	Isolation Isolation `koanf:"isolation"`
	Pool      Pool      `koanf:"pool"`
	CORS      CORS      `koanf:"cors"`
	Console   Console   `koanf:"console"`
	Backups   Backups   `koanf:"backups"`
	// Maintenance is what is done in databases' maintenance windows.
	Maintenance Maintenance `koanf:"maintenance"`
	AutoSuspend AutoSuspend `koanf:"auto_suspend"`
	Restore     Restore     `koanf:"restore"`
	Monitor     Monitor     `koanf:"monitor"`
	Imports     Imports     `koanf:"imports"`
	Audit       Audit       `koanf:"audit"`
	Metrics     Metrics     `koanf:"metrics"`
	SMTP        SMTP        `koanf:"smtp"`
	Notify      Notify      `koanf:"notify"`
}

// Server is how the API is reached.
type Server struct {
	// TrustedProxies are the addresses and prefixes of the proxies in front of it: their
	// X-Forwarded-For says who a request comes from.
	TrustedProxies []string `koanf:"trusted_proxies"`
}

// Proxies are TrustedProxies, parsed.
func (c Server) Proxies() ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range c.TrustedProxies {
		p, err := netip.ParsePrefix(text)
		if at, bad := netip.ParseAddr(text); bad == nil && at.Zone() == "" {
			p, err = netip.PrefixFrom(at, at.BitLen()), nil
		}
		if err != nil || p != p.Masked() || p.Addr().Is4In6() {
			return nil, fmt.Errorf("server.trusted_proxies: %s is no address and no network such as 10.1.0.0/16", text)
		}
		list = append(list, p)
	}
	return list, nil
}

// Imports is where databases may be brought over from.
type Imports struct {
	// Networks are prefixes of private addresses that sources may have, beside all public ones.
	Networks []string `koanf:"networks"`
}

func (c Imports) validate() []error {
	var errs []error
	for _, text := range c.Networks {
		err := checkNetwork(text)
		if err == nil && !monitor.AllowedNetwork(netip.MustParsePrefix(text)) {
			err = fmt.Errorf("%s isn't a private network as a whole", text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("imports.networks: %w", err))
		}
	}
	return errs
}

// Engines names folders to search for engine.json files, beside what the
// distribution installed.
type Engines struct {
	Folders []string `koanf:"folders"`
	// DiscoverEvery is the time between two searches for builds that came or went.
	DiscoverEvery time.Duration `koanf:"discover_every"`
}

// Maintenance is what is done in databases' maintenance windows.
type Maintenance struct {
	// AtOnce is how many databases are worked on at the same time, by all servers
	// that share a store.
	AtOnce int `koanf:"at_once"`
	// Notify has contacts and the operator's channels told what is to come, when it
	// begins and how it ends.
	Notify bool `koanf:"notify"`
}

// AutoSuspend is when databases fall asleep that nobody uses and that don't say.
type AutoSuspend struct {
	// IdleMinutes is after how many minutes without a session; 0 for never.
	IdleMinutes int `koanf:"idle_minutes"`
}

// Seal is the key service for secrets: a gocloud.dev/secrets URL; empty:
// a key file below the data folder.
type Seal struct {
	URL string `koanf:"url"`
}

// Isolation is how customers' servers are isolated. "auto" uses what is there.
type Isolation struct {
	Bubblewrap string `koanf:"bubblewrap"`
	Cgroups    string `koanf:"cgroups"`
	// UIDBase plus its port is the user id that a cluster runs as when steward is root.
	UIDBase int `koanf:"uid_base"`
	// Network is a range of private addresses for database servers, "" for one that is free: only with the kernel's gateway.
	Network string `koanf:"network"`
	// Internet lets database servers connect to the world outside.
	Internet bool `koanf:"internet"`
}

// Range is Network; invalid for one that is free.
func (i Isolation) Range() (netip.Prefix, error) {
	if i.Network == "" {
		return netip.Prefix{}, nil
	}
	p, err := netip.ParsePrefix(i.Network)
	if err != nil {
		return p, fmt.Errorf("isolation.network: %w", err)
	}
	if !p.Addr().Is4() || !p.Addr().IsPrivate() && !sharedRange.Contains(p.Addr()) || p.Bits() > smallestRange {
		return p, fmt.Errorf("isolation.network: %s must be a range of private IPv4 addresses, /%d or larger", p, smallestRange)
	}
	return p.Masked(), nil
}

// sharedRange is for networks of providers (RFC 6598), which serves the purpose as well.
var sharedRange = netip.MustParsePrefix("100.64.0.0/10")

// smallestRange has room for a few databases.
const smallestRange = 26

// Pool is how many clones of a template wait for the next create, per engine.
type Pool struct {
	Size int `koanf:"size"`
}

// CORS is which origins browsers may call the API from.
type CORS struct {
	Origin string `koanf:"origin"`
}

// Console is the web console.
type Console struct {
	// Enabled serves it at the API's address.
	Enabled bool `koanf:"enabled"`
	// URL is where browsers reach it, such as https://steward.example.org; "" for the API's
	// own address where that is this machine's loopback.
	URL string `koanf:"url"`
}

// Audit is how long lines of the audit trail are kept.
type Audit struct {
	Keep time.Duration `koanf:"keep"`
}

// leastAudit is what the store keeps of the audit trail whatever it is told.
const leastAudit = 30 * 24 * time.Hour

// Metrics is where Prometheus finds the server's metrics, and whether databases are measured.
type Metrics struct {
	// Listen is an address of its own, since they name all customers' databases to
	// whoever asks; empty: nowhere.
	Listen string `koanf:"listen"`
	// Databases has all databases measured every ten seconds.
	Databases bool `koanf:"databases"`
}
