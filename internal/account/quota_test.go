package account_test

import (
	"slices"
	"testing"

	"steward/internal/account"
)

func TestExceeded(t *testing.T) {
	t.Parallel()
	most := account.Quotas{Databases: new(2), MemoryGB: new(4), DiskGB: new(0), Services: new(account.Unlimited)}
	for _, c := range []struct {
		name       string
		used, more account.Amounts
		want       []string
	}{
		{"the last place", account.Amounts{Databases: 1, MemoryMB: 2048}, account.Amounts{Databases: 1, Nodes: 99, MemoryMB: 2048}, nil},
		{
			"one too many",
			account.Amounts{Databases: 2, MemoryMB: 1536},
			account.Amounts{Databases: 1, MemoryMB: 3072},
			[]string{
				"The account's quota of databases (max_databases) would be exceeded: it is 2, used is 2, and this takes 1 more. Give some back, or ask the operator for a higher quota.",
				"The account's quota of memory of databases' nodes in GB (max_memory_gb) would be exceeded: it is 4, used is 1.5, and this takes 3 more. Give some back, or ask the operator for a higher quota.",
			},
		},
		{"none at all", account.Amounts{}, account.Amounts{DiskMB: 1}, []string{
			"The account's quota of disk of databases' nodes in GB (max_disk_gb) would be exceeded: it is 0, used is 0, and this takes 0.0009765625 more. Give some back, or ask the operator for a higher quota.",
		}},
		{"beyond a lowered quota, growing elsewhere", account.Amounts{Databases: 9, MemoryMB: 9 << 10}, account.Amounts{Nodes: 2, Services: 1 << 20}, nil},
		{"giving back", account.Amounts{Databases: 9, MemoryMB: 9 << 10}, account.Amounts{Databases: -1, MemoryMB: -1024}, nil},
	} {
		var got []string
		for _, f := range most.Exceeded(c.used, c.more) {
			got = append(got, f.Error())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// TestDefaultQuotas: an account's own quota counts, also where it is no bound, and the
// operator's where it has none.
func TestDefaultQuotas(t *testing.T) {
	t.Parallel()
	own := account.Quotas{Databases: new(1), Nodes: new(account.Unlimited), DiskGB: new(0)}
	inForce := own.Or(account.Quotas{Databases: new(5), Nodes: new(5), MemoryGB: new(5), DiskGB: new(5)})
	if *inForce.Databases != 1 || *inForce.Nodes != account.Unlimited || *inForce.MemoryGB != 5 || *inForce.DiskGB != 0 || inForce.Services != nil {
		t.Errorf("%+v", inForce)
	}
}
