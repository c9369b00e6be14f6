package catalog

import (
	"strings"
	"testing"

	"steward/internal/cluster"
)

func TestPlatforms(t *testing.T) {
	t.Parallel()
	const kube = "regions:\n  - {id: local}\n  - {id: kube, platform: {kind: kubernetes, namespace: databases, images: postgresql, from: [10.244.0.0/16]"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"a region on Kubernetes", kube + ", kubeconfig: /etc/kube, storage_class: fast, encrypted_storage_class: safe, service_type: ClusterIP}}\n", nil},
		{"this host, said", "regions:\n  - {id: a, platform: {kind: host}}\n", nil},
		{
			"all that is required", "regions:\n  - {id: kube, platform: {kind: kubernetes}}\n",
			[]string{"regions[0] (kube): platform.namespace: is required", "platform.images: is required", "platform.from: is required"},
		},
		{
			"what isn't known", "regions:\n  - {id: a, platform: {kind: nomad}}\n  - {id: b, platform: {namespace: x}}\n",
			[]string{`regions[0] (a): platform.kind: "nomad" must be host or kubernetes`, "regions[1] (b): platform.kind: must be kubernetes"},
		},
		{
			"bad values", "regions:\n  - {id: a, platform: {kind: kubernetes, namespace: x, images: y, service_type: NodePort, from: [10.1.2.3/16]}}\n",
			[]string{`platform.service_type: "NodePort"`, "platform.from: 10.1.2.3/16"},
		},
		{
			"one place for two regions", kube + "}}\n  - {id: other, platform: {kind: kubernetes, namespace: databases, images: postgresql, from: [10.244.0.0/16]}}\n",
			[]string{"regions[2] (other): platform.namespace: it is the region kube's already"},
		},
		{"unknown key", kube + ", storageclass: fast}}\n", []string{"storageclass"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := New([]byte(c.text), nil)
			if len(c.want) == 0 && err != nil {
				t.Error(err)
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the error doesn't say %q: %v", want, err)
				}
			}
		})
	}
}

func TestNamesOfPlatforms(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Platform{
		"host": {}, "kubernetes/databases": {Kind: Kubernetes, Namespace: "databases", Kubeconfig: "may move"},
	} {
		if got := p.Name(); got != want {
			t.Errorf("%+v is %s, want %s", p, got, want)
		}
	}
}

// elsewhere is what regions on other platforms can.
type elsewhere map[string]Abilities

func (e elsewhere) Abilities(region string) Abilities { return e[region] }

func TestLacks(t *testing.T) {
	t.Parallel()
	c := &Catalog{
		Regions: []Region{{ID: "local"}, {ID: "kube", Platform: Platform{Kind: Kubernetes}}, {ID: "away", Platform: Platform{Kind: Kubernetes}}},
		Engines: []Engine{{Engine: cluster.MySQL, Series: "10.11"}, {Engine: cluster.PostgreSQL, Series: "15", EncryptionMissing: "not on this host"}},
		Elsewhere: elsewhere{
			"kube": {Engines: []Engine{{Engine: cluster.PostgreSQL, Series: "15"}, {Engine: cluster.PostgreSQL, Series: "17", EncryptionMissing: "no such class"}}},
			"away": {Away: "It is away"},
		},
	}
	for _, v := range []struct {
		region, series string
		engine         cluster.Engine
		encrypted      bool
		want           string
	}{
		{"local", "15", cluster.PostgreSQL, false, ""},
		{"local", "15", cluster.PostgreSQL, true, "encrypted: not on this host"},
		{"kube", "15", cluster.PostgreSQL, true, ""},
		{"kube", "17", cluster.PostgreSQL, true, "encrypted: no such class"},
		{"kube", "10.11", cluster.MySQL, false, "engine: Must be one that the region kube has: postgresql/15, postgresql/17"},
		{"local", "17", cluster.PostgreSQL, false, "engine: Must be one that the region local has: mysql/10.11, postgresql/15"},
		{"kube", "9", cluster.PostgreSQL, false, ""}, // which nobody has: another fault says so
		{"away", "15", cluster.PostgreSQL, false, "region: It is away"},
		{"nowhere", "15", cluster.PostgreSQL, true, "encrypted: not on this host"},
	} {
		var got []string
		for _, f := range c.Lacks(cluster.Spec{Region: v.region, Engine: v.engine, Series: v.series, Encrypted: v.encrypted}) {
			got = append(got, f.Error())
		}
		if strings.Join(got, "\n") != v.want {
			t.Errorf("%+v: %q", v, got)
		}
	}
	if all := c.Offered(); len(all) != 3 {
		t.Errorf("offered: %+v", all)
	}
	if got := c.Series(cluster.PostgreSQL, "17"); got != "17" || !c.HasEngine(cluster.PostgreSQL, "17") {
		t.Errorf("a series that only another platform has: %s", got)
	}
}

// TestFor: what databases of one engine lack in a region isn't among what those can.
func TestFor(t *testing.T) {
	t.Parallel()
	c := &Catalog{
		Regions: []Region{{ID: "kube", Platform: Platform{Kind: Kubernetes}}},
		Elsewhere: elsewhere{"kube": {Backups: true, KeepsBackups: true, Logs: true, Engines: []Engine{
			{Engine: cluster.PostgreSQL, Series: "15"}, {Engine: cluster.MySQL, Series: "10.11", Lacks: Lacks{Moments: true, Logs: true}},
		}}},
	}
	if can := c.For("kube", cluster.PostgreSQL); !can.Backups || !can.KeepsBackups || !can.Moments || !can.Logs {
		t.Errorf("postgresql: %+v", can)
	}
	if can := c.For("kube", cluster.MySQL); !can.Backups || !can.KeepsBackups || can.Moments || can.Logs {
		t.Errorf("mysql: %+v", can)
	}
	c.Elsewhere.(elsewhere)["kube"].Engines[1].Lacks.Backups = true
	if can := c.For("kube", cluster.MySQL); can.Backups || can.KeepsBackups || can.Moments {
		t.Errorf("without backups: %+v", can)
	}
	if can := c.For("local", cluster.MySQL); can.KeepsBackups || can.Moments {
		t.Errorf("on the host: %+v", can)
	}
}
