package control_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/monitor"
)

// quotas gives an account quotas of its own.
func (b *bench) quotas(p account.Principal, q account.Quotas) {
	b.t.Helper()
	if _, err := b.Accounts.Update(b.t.Context(), p.User.Username, control.AccountChange{Quotas: q}, nil, account.Audit{}); err != nil {
		b.t.Fatal(err)
	}
}

// refused demands that an error names a quota, its value and what is used of it.
func refused(t *testing.T, what string, err error, quota string, allows, used int) {
	t.Helper()
	if !fault.IsKind(err, fault.Precondition) || !strings.Contains(err.Error(), fmt.Sprintf("(%s) would be exceeded: it is %d, used is %d,", quota, allows, used)) {
		t.Errorf("%s beyond %s: %v", what, quota, err)
	}
}

func TestQuotasOfDatabases(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("acme")
	c := b.in(p, cluster.Active)
	one := func(change func(*cluster.Spec)) error {
		spec := b.spec()
		change(&spec)
		_, err := b.Clusters.Create(t.Context(), p, spec, nil)
		return err
	}
	update := func(in control.UpdateCluster) error {
		_, err := b.Clusters.Update(t.Context(), p, "", c.ID, in, nil)
		return err
	}
	b.quotas(p, account.Quotas{Databases: new(1), Nodes: new(3), DiskGB: new(75)})
	refused(t, "a create", one(func(*cluster.Spec) {}), "max_databases", 1, 1)
	refused(t, "a create beside another fault", one(func(s *cluster.Spec) { s.Region = "mars" }), "max_databases", 1, 1)
	b.kept(p, c, "one")
	refused(t, "a fork", one(func(s *cluster.Spec) { s.Fork = &cluster.Fork{Source: c.ID} }), "max_databases", 1, 1)

	b.quotas(p, account.Quotas{Databases: new(account.Unlimited)})
	refused(t, "a create of three nodes", one(func(s *cluster.Spec) { s.Size = 3 }), "max_nodes", 3, 1)
	b.quotas(p, account.Quotas{Nodes: new(2), DiskGB: new(account.Unlimited)})
	refused(t, "a cluster_size", update(control.UpdateCluster{Size: new(3)}), "max_nodes", 2, 1)
	b.quotas(p, account.Quotas{DiskGB: new(79)})
	refused(t, "a resize", update(control.UpdateCluster{Type: new("large")}), "max_disk_gb", 79, 25)
	refused(t, "a resize beside another fault", update(control.UpdateCluster{Type: new("large"), Label: new("?")}), "max_disk_gb", 79, 25)

	b.quotas(p, account.Quotas{Databases: new(0), Nodes: new(0), DiskGB: new(0)})
	if err := update(control.UpdateCluster{Label: new("renamed")}); err != nil {
		t.Errorf("a new label of a database beyond its quotas: %v", err)
	}
	b.quotas(p, account.Quotas{DiskGB: new(80), Nodes: new(1)})
	if err := update(control.UpdateCluster{Type: new("large")}); err != nil {
		t.Errorf("a resize up to the quota, of one database of none that may be made: %v", err)
	}
}

func TestQuotaOfServices(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Services.Networks = &monitor.Networks{}
	p, other := b.tenant("acme"), b.tenant("else")
	create := func(p account.Principal) error {
		_, err := b.Services.Create(t.Context(), p, watching("https://shop.example/", 60), nil)
		return err
	}
	b.quotas(p, account.Quotas{Services: new(1)})
	if err := create(p); err != nil {
		t.Fatal(err)
	}
	refused(t, "a service", create(p), "max_services", 1, 1)
	if err := create(other); err != nil {
		t.Errorf("another account's service: %v", err)
	}
}

// TestLastPlace: of many who ask at once for what is left of a quota, as many get it
// as there is room for.
func TestLastPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Services.Networks = &monitor.Networks{}
	p := b.tenant("acme")
	b.create(p)
	const room, asking = 2, 8
	b.quotas(p, account.Quotas{Nodes: new(1 + room), Services: new(room)})
	specs := make([]cluster.Spec, asking)
	for i := range specs {
		specs[i] = b.spec()
	}
	databases, services := make([]error, asking), make([]error, asking)
	var all sync.WaitGroup
	for i := range asking {
		all.Go(func() { _, databases[i] = b.Clusters.Create(t.Context(), p, specs[i], nil) })
		all.Go(func() { _, services[i] = b.Services.Create(t.Context(), p, watching("https://shop.example/", 60), nil) })
	}
	all.Wait()
	for what, errs := range map[string][]error{"databases": databases, "services": services} {
		made := 0
		for _, err := range errs {
			if err == nil {
				made++
			} else if kind(err) != fault.Precondition {
				t.Errorf("%s: %v", what, err)
			}
		}
		if made != room {
			t.Errorf("%d %s were made where there was room for %d", made, what, room)
		}
	}
}
