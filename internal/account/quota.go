package account

import (
	"strconv"

	"steward/internal/fault"
)

// Amounts are how much there is, or is asked for, of what quotas bound. Memory and
// disk are those of the plans of all nodes, in MB.
type Amounts struct {
	Databases, Nodes, MemoryMB, DiskMB, Services int
}

// Plus are both together.
func (a Amounts) Plus(b Amounts) Amounts {
	return Amounts{a.Databases + b.Databases, a.Nodes + b.Nodes, a.MemoryMB + b.MemoryMB, a.DiskMB + b.DiskMB, a.Services + b.Services}
}

// Minus is what is left of a without b.
func (a Amounts) Minus(b Amounts) Amounts {
	return Amounts{a.Databases - b.Databases, a.Nodes - b.Nodes, a.MemoryMB - b.MemoryMB, a.DiskMB - b.DiskMB, a.Services - b.Services}
}

// Grow reports whether any of them is more than nothing.
func (a Amounts) Grow() bool {
	return max(a.Databases, a.Nodes, a.MemoryMB, a.DiskMB, a.Services) > 0
}

// Unlimited is a quota that bounds nothing, whatever the operator's default is.
const Unlimited = -1

// MostQuota is the highest that can be set.
const MostQuota = 1_000_000

// Quotas bound what an account may have. nil leaves it to the operator's default,
// which is no bound when it is nil, too.
type Quotas struct {
	Databases *int `json:"max_databases"`
	Nodes     *int `json:"max_nodes"`
	MemoryGB  *int `json:"max_memory_gb"`
	DiskGB    *int `json:"max_disk_gb"`
	Services  *int `json:"max_services"`
}

// Or are the quotas, with those of others where they say nothing.
func (q Quotas) Or(others Quotas) Quotas {
	or := func(own, other *int) *int {
		if own == nil {
			return other
		}
		return own
	}
	return Quotas{or(q.Databases, others.Databases), or(q.Nodes, others.Nodes), or(q.MemoryGB, others.MemoryGB), or(q.DiskGB, others.DiskGB), or(q.Services, others.Services)}
}

// quota is one of them, and what there is and is asked for of it. unit is how many
// of the amounts make one of what it counts.
type quota struct {
	name, of string
	most     *int
	unit     int
	used     int
	more     int
}

// Exceeded names each quota that having so much more would exceed. What isn't to
// grow may be beyond its quota: a quota that was lowered takes nothing away.
func (q Quotas) Exceeded(used, more Amounts) fault.Faults {
	const megabytes = 1024
	var faults fault.Faults
	for _, one := range []quota{
		{"max_databases", "databases", q.Databases, 1, used.Databases, more.Databases},
		{"max_nodes", "nodes of databases", q.Nodes, 1, used.Nodes, more.Nodes},
		{"max_memory_gb", "memory of databases' nodes in GB", q.MemoryGB, megabytes, used.MemoryMB, more.MemoryMB},
		{"max_disk_gb", "disk of databases' nodes in GB", q.DiskGB, megabytes, used.DiskMB, more.DiskMB},
		{"max_services", "monitored services", q.Services, 1, used.Services, more.Services},
	} {
		if one.most == nil || *one.most == Unlimited || one.more <= 0 || one.used+one.more <= *one.most*one.unit {
			continue
		}
		faults = append(faults, fault.NewPrecondition("The account's quota of %s (%s) would be exceeded: it is %d, used is %s, and this takes %s more. Give some back, or ask the operator for a higher quota.",
			one.of, one.name, *one.most, one.amount(one.used), one.amount(one.more)))
	}
	return faults
}

// amount is one in the quota's unit, without zeros after the point.
func (q quota) amount(n int) string {
	return strconv.FormatFloat(float64(n)/float64(q.unit), 'f', -1, 64)
}
