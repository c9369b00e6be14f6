package kubernetes

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"steward/internal/cluster"
	"steward/internal/engine/postgresql"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes/cnpg"
)

// TestNobodyIsLetInUnasked: whatever is asked for, no field is left empty that would let everybody in, and all ways in say
// the same.
func TestNobodyIsLetInUnasked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfN(rapid.SampledFrom([]string{"192.0.2.1", "198.51.100.0/24", "2001:db8::/32", "0.0.0.0/0"}), 0, 3).Draw(t, "list")
		kind := rapid.SampledFrom([]corev1.ServiceType{corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP}).Draw(t, "type")
		made := desired{
			names: names{id: 7, namespace: "test", generation: 1}, op: cloudNativePG{told: postgresql.New()}, image: "registry/postgresql:17.2", diskMB: 1024,
			o: &Options{ServiceType: kind, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
			want: platform.Wanted{Cluster: cluster.Cluster{LockedOut: rapid.Bool().Draw(t, "locked out"), Port: 5432, Spec: cluster.Spec{
				Series: "17", Size: rapid.SampledFrom([]int{1, 3}).Draw(t, "size"), AllowList: items, SSLConnection: rapid.Bool().Draw(t, "TLS"),
			}}},
		}
		nobody := len(items) == 0 || made.want.LockedOut
		s := made.service("db-7", cluster.Primary)
		if kind == corev1.ServiceTypeLoadBalancer && (len(s.Spec.LoadBalancerSourceRanges) == 0 || nobody && s.Spec.LoadBalancerSourceRanges[0] != "255.255.255.255/32") {
			t.Errorf("ranges: %v", s.Spec.LoadBalancerSourceRanges)
		}
		if (s.Spec.Selector[closedLabel] != "") != nobody {
			t.Errorf("nobody %v, selector %v", nobody, s.Spec.Selector)
		}
		for _, rule := range made.policy().Spec.Ingress {
			if len(rule.From) == 0 || len(rule.Ports) == 0 {
				t.Errorf("a rule for everybody, or everything: %+v", rule)
			}
		}
		object, err := made.op.object(made)
		if err != nil {
			t.Fatal(err)
		}
		c := object.(*cnpg.Cluster)
		hba := c.Spec.PostgreSQL.PgHBA
		if hba[len(hba)-1] != "host all all all reject" {
			t.Errorf("the last rule: %s", hba[len(hba)-1])
		}
		customers := 0
		for _, p := range cluster.AllowList(items).Prefixes() {
			if slices.Contains(hba, "hostssl all all "+p.String()+" scram-sha-256") || slices.Contains(hba, "host all all "+p.String()+" scram-sha-256") {
				customers++
			}
		}
		if nobody != (customers == 0) {
			t.Errorf("nobody %v, rules %q", nobody, hba)
		}
		for name := range c.Spec.PostgreSQL.Parameters {
			if cnpg.Decides(name) {
				t.Errorf("%s is the operator's", name)
			}
		}
	})
}

func TestVersionOf(t *testing.T) {
	for image, want := range map[string]string{
		"registry.example/a/postgresql:15.18":                       "15.18",
		"registry.example:5000/postgresql:15.18-bookworm@sha256:ab": "15.18",
		"postgresql:17":                        "17",
		"registry.example:5000/postgresql":     "",
		"registry.example/postgresql:latest":   "",
		"registry.example/postgresql@sha256:a": "",
		"":                                     "",
	} {
		if got := versionOf(image); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}
