package api_test

import (
	"strings"
	"testing"

	"steward/internal/api"
	"steward/internal/catalog"
	"steward/internal/cluster"
)

// elsewhere is what another platform than this host can.
type elsewhere struct{ can catalog.Abilities }

func (e *elsewhere) Abilities(string) catalog.Abilities { return e.can }

// TestRegions: each says what databases there can have, as it is now.
func TestRegions(t *testing.T) {
	t.Parallel()
	place := &elsewhere{catalog.Abilities{Engines: []catalog.Engine{{Engine: cluster.PostgreSQL, Series: "17"}}}}
	b := newBench(t, func(o *api.Options) {
		kube := catalog.Region{ID: "kube", Label: "Over there", Country: "DE", Status: "ok", Platform: catalog.Platform{Kind: catalog.Kubernetes}}
		o.Catalog.Regions, o.Catalog.Elsewhere = append(o.Catalog.Regions, kube), place
	})
	look := func(path string, want ...string) {
		t.Helper()
		r := b.send("GET", path, "", "")
		for _, w := range want {
			if r.StatusCode != 200 || !strings.Contains(r.body, w) {
				t.Errorf("%s doesn't say %s: %d %s", path, w, r.StatusCode, r.body)
			}
		}
	}
	const host = `"capabilities":["Managed Databases","PostgreSQL Databases","MySQL Databases","Disk Encryption","Database Backups","Database Logs",` +
		`"Database Restart","Database Switchover","Database Upgrade","Database Connection Pools","Database Migrations","Database Sleep"],"status":"ok"`
	const kube = `"capabilities":["Managed Databases","PostgreSQL Databases","Disk Encryption"],"status":"ok"`
	look("/v4/regions/local", host)
	look("/v4/regions/kube", kube, `"country":"de"`)
	look("/v4/regions", host, kube, `"results":2`)
	look("/v4/databases/engines", `"id":"postgresql/17"`, `"results":3`)
	look("/v4/databases/engines/postgresql/17", `"version":"17"`)
	place.can.Backups, place.can.Logs = true, true
	place.can.Engines = append(place.can.Engines, catalog.Engine{Engine: cluster.MySQL, Series: "10.11", Lacks: catalog.Lacks{Backups: true, Logs: true, Nodes: true}})
	look("/v4/regions/kube", `"capabilities":["Managed Databases","PostgreSQL Databases","MySQL Databases","Disk Encryption","PostgreSQL Database Backups",`+
		`"PostgreSQL Database Logs","PostgreSQL Database Clusters"]`)
	place.can.Engines[len(place.can.Engines)-1].Lacks = catalog.Lacks{Moments: true, Logs: true, Nodes: true}
	look("/v4/regions/kube", `"capabilities":["Managed Databases","PostgreSQL Databases","MySQL Databases","Disk Encryption","Database Backups",`+
		`"PostgreSQL Database Point-in-Time Recovery","PostgreSQL Database Logs","PostgreSQL Database Clusters"]`)
	place.can.Away = "It is away"
	look("/v4/regions/kube", `"status":"degraded"`)
	look("/v4/regions/local", `"status":"ok"`)
	r := b.send("POST", "/v4/databases/postgresql/instances", b.full, `{"label":"shop","engine":"postgresql/17","region":"kube","type":"g6-nanode-1"}`)
	if r.StatusCode != 400 || !strings.Contains(r.body, `{"field":"region","reason":"It is away"}`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}
