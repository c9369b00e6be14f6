package app

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"

	"steward/internal/account"
	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/embeddedpg"
	"steward/internal/monitor"
)

// Config is what an operator can set in the file given with --config, or in
// the environment: STEWARD_GATEWAY__PORTS is gateway.ports. The zero value of a
// key means its default. Unknown keys are refused: a typing mistake must not
// pass for a setting.
type Config struct {
	Server  ServerConfig  `koanf:"server"`
	Gateway GatewayConfig `koanf:"gateway"`
	Catalog CatalogConfig `koanf:"catalog"`
	Engines EnginesConfig `koanf:"engines"`
	Limits  LimitsConfig  `koanf:"limits"`
	// Quotas are those of accounts that have none of their own.
	Quotas    QuotasConfig    `koanf:"quotas"`
	Seal      SealConfig      `koanf:"seal"`
	Isolation IsolationConfig `koanf:"isolation"`
	Pool      PoolConfig      `koanf:"pool"`
	CORS      CORSConfig      `koanf:"cors"`
	Backups   BackupsConfig   `koanf:"backups"`
	// Maintenance is what is done in databases' maintenance windows.
	Maintenance MaintenanceConfig `koanf:"maintenance"`
	Restore     RestoreConfig     `koanf:"restore"`
	Monitor     MonitorConfig     `koanf:"monitor"`
	Audit       AuditConfig       `koanf:"audit"`
	Metrics     MetricsConfig     `koanf:"metrics"`
	SMTP        SMTPConfig        `koanf:"smtp"`
	Notify      NotifyConfig      `koanf:"notify"`
}

// ServerConfig is how the API is reached.
type ServerConfig struct {
	// TrustedProxies are the addresses and prefixes of the proxies in front of it: their
	// X-Forwarded-For says who a request comes from.
	TrustedProxies []string `koanf:"trusted_proxies"`
}

func (c ServerConfig) proxies() ([]netip.Prefix, error) {
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

// GatewayConfig is where customers reach their databases.
type GatewayConfig struct {
	PrimaryAddress   string `koanf:"primary_address"`
	SecondaryAddress string `koanf:"secondary_address"`
	// Ports is "first-last"; a database takes one port, on both addresses.
	Ports string `koanf:"ports"`
	// Hostnames are further names for the databases' certificates.
	Hostnames []string `koanf:"hostnames"`
}

// CatalogConfig names the file with plans and regions; empty: the built-in ones.
type CatalogConfig struct {
	File string `koanf:"file"`
}

// EnginesConfig names folders to search for engine.json files, beside what the
// distribution installed.
type EnginesConfig struct {
	Folders []string `koanf:"folders"`
	// DiscoverEvery is the time between two searches for builds that came or went.
	DiscoverEvery time.Duration `koanf:"discover_every"`
}

// MaintenanceConfig is what is done in databases' maintenance windows.
type MaintenanceConfig struct {
	// AtOnce is how many databases are worked on at the same time, by all servers
	// that share a store.
	AtOnce int `koanf:"at_once"`
	// Notify has contacts and the operator's channels told what is to come, when it
	// begins and how it ends.
	Notify bool `koanf:"notify"`
}

// LimitsConfig are bounds per minute; 0 switches one off. Servers that share a
// store count together.
type LimitsConfig struct {
	// RequestsPerMinute is per token, and per address for requests without one.
	RequestsPerMinute int `koanf:"requests_per_minute"`
	// StatsPerMinute is for requests for statistics, per token.
	StatsPerMinute int `koanf:"stats_per_minute"`
	// FailedLoginsPerMinute is per client address.
	FailedLoginsPerMinute int `koanf:"failed_logins_per_minute"`
	// LoginsPerMinute is per user, of attempts with a password.
	LoginsPerMinute int `koanf:"logins_per_minute"`
	// ChecksPerMinute are those of an account's services, HostChecksPerMinute those
	// of all accounts' services at one host.
	ChecksPerMinute     int `koanf:"checks_per_minute"`
	HostChecksPerMinute int `koanf:"host_checks_per_minute"`
}

func (l LimitsConfig) all() []int {
	return []int{l.RequestsPerMinute, l.StatsPerMinute, l.FailedLoginsPerMinute, l.LoginsPerMinute, l.ChecksPerMinute, l.HostChecksPerMinute}
}

// QuotasConfig bounds what an account may have. What is nil isn't bounded.
type QuotasConfig struct {
	Databases *int `koanf:"databases"`
	Nodes     *int `koanf:"nodes"`
	// MemoryGB and DiskGB are those of the plans of all nodes.
	MemoryGB *int `koanf:"memory_gb"`
	DiskGB   *int `koanf:"disk_gb"`
	Services *int `koanf:"services"`
}

func (q QuotasConfig) quotas() account.Quotas {
	return account.Quotas{Databases: q.Databases, Nodes: q.Nodes, MemoryGB: q.MemoryGB, DiskGB: q.DiskGB, Services: q.Services}
}

func (q QuotasConfig) validate() []error {
	var errs []error
	for key, value := range map[string]*int{"databases": q.Databases, "nodes": q.Nodes, "memory_gb": q.MemoryGB, "disk_gb": q.DiskGB, "services": q.Services} {
		if value != nil && (*value < 0 || *value > account.MostQuota) {
			errs = append(errs, fmt.Errorf("quotas.%s: must be 0-%d; leave it out for no bound", key, account.MostQuota))
		}
	}
	return errs
}

// SealConfig is the key service for secrets: a gocloud.dev/secrets URL; empty:
// a key file below the data folder.
type SealConfig struct {
	URL string `koanf:"url"`
}

// IsolationConfig is how customers' servers are walled in. "auto" uses what is there.
type IsolationConfig struct {
	Bubblewrap string `koanf:"bubblewrap"`
	Cgroups    string `koanf:"cgroups"`
	// UIDBase plus its port is the user id that a cluster runs as when steward is root.
	UIDBase int `koanf:"uid_base"`
}

// PoolConfig is how many clones of a template wait for the next create, per engine.
type PoolConfig struct {
	Size int `koanf:"size"`
}

// CORSConfig is which origins browsers may call the API from.
type CORSConfig struct {
	Origin string `koanf:"origin"`
}

// BackupsConfig is where backups are kept, when they are taken and for how long.
type BackupsConfig struct {
	// URL is a gocloud.dev/blob URL; empty: a folder below the data folder.
	URL      string `koanf:"url"`
	Schedule string `koanf:"schedule"`
	// Keep is how many automatic ones are kept.
	Keep int `koanf:"keep"`
	// Verify has each backup restored into a scratch server, once.
	Verify bool `koanf:"verify"`
	// Continuous has what servers write between backups archived as well.
	Continuous bool `koanf:"continuous"`
	// KeepAfterDelete is how long those of deleted databases are kept; 0: not at all.
	KeepAfterDelete time.Duration `koanf:"keep_after_delete"`
	// Timeout is how long the bucket may leave a request without moving a byte.
	Timeout time.Duration `koanf:"timeout"`
	// RetryFor is how long a backup, a restore or a fork that fails is tried again.
	RetryFor time.Duration `koanf:"retry_for"`
}

// RestoreConfig says which root password a restored database has: "keep" is that
// of the time of the backup, "reapply" today's.
type RestoreConfig struct {
	Credentials string `koanf:"credentials"`
}

// MonitorConfig is how services are watched.
type MonitorConfig struct {
	// Interval is between two checks of a service that has none of its own,
	// ConfirmAfter the time to the looks that confirm an outage or its end.
	Interval     time.Duration `koanf:"interval"`
	ConfirmAfter time.Duration `koanf:"confirm_after"`
	// Canaries are addresses that answer unless this server's own network is down:
	// while none does, checks that fail say nothing.
	Canaries []string `koanf:"canaries"`
	// ForbiddenNetworks are prefixes that no check may go to, whatever a region allows.
	ForbiddenNetworks []string `koanf:"forbidden_networks"`
	// ForbiddenPorts are those that url services may not be at.
	ForbiddenPorts []int `koanf:"forbidden_ports"`
	// CAFile has certificates of authorities that are trusted beside the system's.
	CAFile string `koanf:"ca_file"`
	// AbuseContact is told to the web servers that are checked: a URL or an e-mail address.
	AbuseContact string `koanf:"abuse_contact"`
}

// AuditConfig is how long lines of the audit trail are kept.
type AuditConfig struct {
	Keep time.Duration `koanf:"keep"`
}

// leastAudit is what the store keeps of the audit trail whatever it is told.
const leastAudit = 30 * 24 * time.Hour

// DefaultConfig is steward out of the box.
func DefaultConfig() Config {
	return Config{
		Gateway:     GatewayConfig{PrimaryAddress: "127.0.0.1", SecondaryAddress: "127.0.0.2", Ports: "21000-21255"},
		Limits:      LimitsConfig{RequestsPerMinute: 800, StatsPerMinute: 200, FailedLoginsPerMinute: 60, LoginsPerMinute: 10, ChecksPerMinute: 6000, HostChecksPerMinute: 1200},
		Isolation:   IsolationConfig{Bubblewrap: "auto", Cgroups: "auto", UIDBase: 700000},
		Pool:        PoolConfig{Size: 4},
		CORS:        CORSConfig{Origin: "*"},
		Engines:     EnginesConfig{DiscoverEvery: 5 * time.Minute},
		Maintenance: MaintenanceConfig{AtOnce: 2},
		Backups:     BackupsConfig{Schedule: "00:00", Keep: backup.Autos, Verify: true, Timeout: archive.DefaultTimeout, RetryFor: 10 * time.Minute},
		Restore:     RestoreConfig{Credentials: "keep"},
		// SMTP: a request by HTTP must not pass for mail.
		Monitor: MonitorConfig{Interval: time.Minute, ConfirmAfter: monitor.DefaultRules().Confirm, ForbiddenPorts: []int{25, 465, 587}},
		Audit:   AuditConfig{Keep: 400 * 24 * time.Hour},
		Metrics: MetricsConfig{Listen: "127.0.0.1:9180"},
	}
}

const envPrefix = "STEWARD_"

// LoadConfig reads the defaults, the file (none when path is empty) and the
// environment, in rising order of weight.
func LoadConfig(path string) (Config, error) {
	config := DefaultConfig()
	k := koanf.New(".")
	if path != "" {
		if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
			return config, fmt.Errorf("read configuration %s: %w", path, err)
		}
	}
	known := knownKeys()
	// Only names with a double underscore are settings: STEWARD_URL, STEWARD_TOKEN
	// and the like belong to the command line.
	fromEnv := env.Provider(".", env.Opt{Prefix: envPrefix, TransformFunc: func(key, value string) (string, any) {
		name := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(key, envPrefix)), "__", ".")
		if !strings.Contains(name, ".") {
			return "", nil
		}
		if slices.Contains([]string{"gateway.hostnames", "engines.folders", "monitor.forbidden_networks", "monitor.forbidden_ports", "monitor.canaries", "server.trusted_proxies"}, name) {
			return name, strings.FieldsFunc(value, func(r rune) bool { return r == ',' })
		}
		return name, value
	}})
	if err := k.Load(fromEnv, nil); err != nil {
		return config, fmt.Errorf("read configuration from the environment: %w", err)
	}
	var errs []error
	for _, key := range k.Keys() {
		if !slices.Contains(known, key) && !strings.HasPrefix(key, channelKey) {
			errs = append(errs, fmt.Errorf("unknown key %q (known: %s)", key, strings.Join(known, ", ")))
		}
	}
	if err := k.Unmarshal("", &config); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, config.validate()...)
	if len(errs) > 0 {
		return config, fmt.Errorf("configuration: %w", errors.Join(errs...))
	}
	return config, nil
}

func knownKeys() []string {
	return []string{
		"server.trusted_proxies",
		"gateway.primary_address", "gateway.secondary_address", "gateway.ports", "gateway.hostnames",
		"catalog.file", "engines.folders", "engines.discover_every",
		"limits.requests_per_minute", "limits.stats_per_minute", "limits.failed_logins_per_minute", "limits.logins_per_minute",
		"limits.checks_per_minute", "limits.host_checks_per_minute",
		"quotas.databases", "quotas.nodes", "quotas.memory_gb", "quotas.disk_gb", "quotas.services",
		"seal.url", "isolation.bubblewrap", "isolation.cgroups", "isolation.uid_base", "pool.size", "cors.origin",
		"monitor.interval", "monitor.confirm_after", "monitor.canaries", "monitor.forbidden_networks", "monitor.forbidden_ports", "monitor.ca_file", "monitor.abuse_contact",
		"smtp.url", "smtp.from", "smtp.ca_file", "smtp.hello", channelKey + "NAME",
		"backups.url", "backups.schedule", "backups.keep", "backups.verify", "backups.continuous", "backups.keep_after_delete",
		"backups.timeout", "backups.retry_for", "restore.credentials",
		"audit.keep", "metrics.listen", "maintenance.at_once", "maintenance.notify",
	}
}

func (c Config) validate() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	primary, err := netip.ParseAddr(c.Gateway.PrimaryAddress)
	if err != nil {
		bad("gateway.primary_address: %w", err)
	}
	secondary, err := netip.ParseAddr(c.Gateway.SecondaryAddress)
	if err != nil {
		bad("gateway.secondary_address: %w", err)
	}
	if primary.IsUnspecified() || secondary.IsUnspecified() || primary == secondary {
		bad("gateway: primary_address and secondary_address must be two different addresses of this machine")
	}
	if _, err := c.Gateway.PortRange(); err != nil {
		bad("gateway.ports: %w", err)
	}
	for key, value := range map[string]string{"isolation.bubblewrap": c.Isolation.Bubblewrap, "isolation.cgroups": c.Isolation.Cgroups} {
		if value != "auto" && value != "off" {
			bad("%s: must be auto or off", key)
		}
	}
	if _, err := c.Server.proxies(); err != nil {
		bad("%w", err)
	}
	if l := c.Limits.all(); slices.Min(l) < 0 || slices.Max(l) > 1_000_000 {
		bad("limits: must be 0-1000000; 0 switches a limit off")
	}
	errs = append(errs, c.Quotas.validate()...)
	if c.Audit.Keep < leastAudit {
		bad("audit.keep: must be at least %s", leastAudit)
	}
	if c.Pool.Size < 0 || c.Pool.Size > 100 {
		bad("pool.size: must be 0-100")
	}
	if c.Engines.DiscoverEvery < time.Second || c.Engines.DiscoverEvery > 24*time.Hour {
		bad("engines.discover_every: must be 1s-24h")
	}
	if c.Maintenance.AtOnce < 1 || c.Maintenance.AtOnce > 100 {
		bad("maintenance.at_once: must be 1-100")
	}
	errs = append(errs, c.validateBackups()...)
	errs = append(errs, c.Monitor.validate()...)
	errs = append(errs, c.validateNotices()...)
	if c.Isolation.UIDBase < 1000 || c.Isolation.UIDBase > 1<<31 {
		bad("isolation.uid_base: must be 1000-%d", 1<<31)
	}
	if ports, err := c.Gateway.PortRange(); err == nil && c.Isolation.UIDBase+ports[0] <= embeddedpg.UID && c.Isolation.UIDBase+ports[1] >= embeddedpg.UID {
		bad("isolation.uid_base: a database would get the store's user id %d; choose another base", embeddedpg.UID)
	}
	if c.Catalog.File != "" {
		if _, err := os.Stat(c.Catalog.File); err != nil {
			bad("catalog.file: %w", err)
		}
	}
	return errs
}

func (c Config) validateBackups() []error {
	var errs []error
	if _, err := backup.ParseSchedule(c.Backups.Schedule); err != nil {
		errs = append(errs, fmt.Errorf("backups.schedule: %w", err))
	}
	if c.Backups.Keep < 1 || c.Backups.Keep > 1000 {
		errs = append(errs, errors.New("backups.keep: must be 1-1000"))
	}
	if c.Backups.KeepAfterDelete < 0 {
		errs = append(errs, errors.New("backups.keep_after_delete: must not be negative"))
	}
	if c.Backups.Timeout < time.Second || c.Backups.Timeout > time.Hour {
		errs = append(errs, errors.New("backups.timeout: must be 1s-1h"))
	}
	if c.Backups.RetryFor < time.Second || c.Backups.RetryFor > 24*time.Hour {
		errs = append(errs, errors.New("backups.retry_for: must be 1s-24h"))
	}
	if c.Restore.Credentials != "keep" && c.Restore.Credentials != "reapply" {
		errs = append(errs, errors.New("restore.credentials: must be keep or reapply"))
	}
	return errs
}

// PortRange is Ports as numbers, both ends included.
func (g GatewayConfig) PortRange() ([2]int, error) {
	first, last, _ := strings.Cut(g.Ports, "-")
	a, errA := strconv.Atoi(strings.TrimSpace(first))
	b, errB := strconv.Atoi(strings.TrimSpace(last))
	if errA != nil || errB != nil || a < 1024 || b > 65535 || a > b {
		return [2]int{}, fmt.Errorf("%q must be first-last within 1024-65535", g.Ports)
	}
	return [2]int{a, b}, nil
}
