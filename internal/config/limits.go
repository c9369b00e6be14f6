package config

import (
	"fmt"

	"steward/internal/account"
)

// Limits are bounds per minute; 0 switches one off. Servers that share a
// store count together.
type Limits struct {
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

func (l Limits) all() []int {
	return []int{l.RequestsPerMinute, l.StatsPerMinute, l.FailedLoginsPerMinute, l.LoginsPerMinute, l.ChecksPerMinute, l.HostChecksPerMinute}
}

// Quotas bounds what an account may have. What is nil isn't bounded.
type Quotas struct {
	Databases *int `koanf:"databases"`
	Nodes     *int `koanf:"nodes"`
	// MemoryGB and DiskGB are those of the plans of all nodes.
	MemoryGB *int `koanf:"memory_gb"`
	DiskGB   *int `koanf:"disk_gb"`
	Services *int `koanf:"services"`
}

// DefaultQuotas are those of accounts that have none of their own.
func (c Config) DefaultQuotas() account.Quotas { return account.Quotas(c.Quotas) }

func (q Quotas) validate() []error {
	var errs []error
	for key, value := range map[string]*int{"databases": q.Databases, "nodes": q.Nodes, "memory_gb": q.MemoryGB, "disk_gb": q.DiskGB, "services": q.Services} {
		if value != nil && (*value < 0 || *value > account.MostQuota) {
			errs = append(errs, fmt.Errorf("quotas.%s: must be 0-%d; leave it out for no bound", key, account.MostQuota))
		}
	}
	return errs
}
