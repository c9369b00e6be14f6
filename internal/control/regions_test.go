package control_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/insight"
)

// elsewhere is a region that can have PostgreSQL, and nothing that isn't needed for that.
type elsewhere struct{ away string }

func (e *elsewhere) Abilities(region string) catalog.Abilities {
	if region == "both" {
		return catalog.Abilities{Backups: true, KeepsBackups: true, Logs: true, Engines: []catalog.Engine{
			{Engine: cluster.PostgreSQL, Series: "15"}, {Engine: cluster.MySQL, Series: "10.11", Lacks: catalog.Lacks{Backups: true, Logs: true, Nodes: true}},
		}}
	}
	return catalog.Abilities{Away: e.away, Engines: []catalog.Engine{{Engine: cluster.PostgreSQL, Series: "15", EncryptionMissing: "No encrypted storage"}}}
}

// TestWhatARegionCant: it is refused by the member that asks for it, and nothing is written.
func TestWhatARegionCant(t *testing.T) {
	t.Parallel()
	place := &elsewhere{}
	b := newBench(t, func(d *control.Deps) {
		d.Catalog.Regions = append(d.Catalog.Regions, catalog.Region{ID: "kube", Platform: catalog.Platform{Kind: catalog.Kubernetes, Namespace: "databases"}})
		d.Catalog.Elsewhere = place
		d.CanSleep, d.AutoSuspend = true, 30
	})
	p := b.tenant("acme")
	spec := func(change func(*cluster.Spec)) cluster.Spec {
		s := b.spec()
		s.Region = "kube"
		change(&s)
		return s
	}
	onHost := b.create(p)
	c, err := b.Clusters.Create(t.Context(), p, spec(func(*cluster.Spec) {}), nil)
	if err != nil || c.AutoSuspend != 0 || c.Platform != "kubernetes/databases" || onHost.AutoSuspend != 30 || onHost.Platform != catalog.Host {
		t.Fatalf("%+v, %v; on the host %+v", c, err, onHost)
	}
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = 'active', host_primary = '192.0.2.1' WHERE id = $1", c.ID); err != nil {
		t.Fatal(err)
	}
	if kept := b.view(p, c.ID); kept.Platform != "kubernetes/databases" {
		t.Errorf("it is kept as made on %q", kept.Platform)
	}
	if _, err := b.store.Pool().Exec(t.Context(), `INSERT INTO backups (account_id, cluster_id, type, label, target, state, created, finished)
		SELECT account_id, id, 'snapshot', 'one', 'primary', 'complete', now(), now() FROM clusters WHERE id = $1`, onHost.ID); err != nil {
		t.Fatal(err)
	}
	woken := len(b.woken)
	create := func(change func(*cluster.Spec)) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := b.Clusters.Create(ctx, p, spec(change), nil)
			return err
		}
	}
	for _, v := range []struct {
		name string
		do   func(context.Context) error
		want []string
	}{
		{"another engine, encrypted, that sleeps", create(func(s *cluster.Spec) {
			s.Engine, s.Series, s.Encrypted, s.AskedAutoSuspend = cluster.MySQL, "10.11", true, new(5)
		}), []string{"auto_suspend.idle_minutes: Must be 0: databases of the region kube can't sleep", "engine: Must be one that the region kube has: postgresql/15"}},
		{"encrypted", create(func(s *cluster.Spec) { s.Encrypted = true }), []string{"encrypted: No encrypted storage"}},
		{"a fork of one there", create(func(s *cluster.Spec) { s.Fork = &cluster.Fork{Source: c.ID} }), []string{"fork.source: Databases of the region kube can't be forked"}},
		{"a fork to there", create(func(s *cluster.Spec) {
			s.Fork, s.AskedAutoSuspend = &cluster.Fork{Source: onHost.ID}, new(0)
		}), []string{"region: Databases of the region kube can't be made of others"}},
		{"sleep", func(ctx context.Context) error {
			_, err := b.Clusters.Update(ctx, p, "", c.ID, control.UpdateCluster{AutoSuspend: new(5)}, nil)
			return err
		}, []string{"auto_suspend.idle_minutes: Must be 0: databases of the region kube can't sleep"}},
		{"a snapshot", func(ctx context.Context) error {
			return b.Backups.Create(ctx, p, "", c.ID, control.NewSnapshot{Label: "one"}, nil)
		}, []string{"region: Databases of the region kube can't be backed up"}},
		{"a moment restored", func(ctx context.Context) error {
			return b.Backups.RestoreTo(ctx, p, "", c.ID, new(time.Now()), nil)
		}, []string{"region: Databases of the region kube can't be restored"}},
		{"a restart", func(ctx context.Context) error { return b.Clusters.Restart(ctx, p, "", c.ID) }, []string{"region: Databases of the region kube can't be restarted"}},
		{"a switchover", func(ctx context.Context) error { return b.Clusters.Switchover(ctx, p, "", c.ID) }, []string{"region: Databases of the region kube can't be switched over"}},
		{"another version", func(ctx context.Context) error {
			_, err := b.Clusters.Update(ctx, p, "", c.ID, control.UpdateCluster{Version: new("17")}, nil)
			return err
		}, []string{"version: Can't be changed once the database is made: databases of the region kube can't be moved to another version"}},
		{"another version, tried", func(ctx context.Context) error {
			return b.Clusters.CheckUpgrade(ctx, p, "", c.ID, "17", nil)
		}, []string{
			"version: Can't be changed once the database is made: databases of the region kube can't be moved to another version",
			"The database has no backup of its version to try it on; take one first.",
		}},
		{"a library", func(ctx context.Context) error {
			_, err := b.Clusters.Update(ctx, p, "", c.ID, control.UpdateCluster{Config: map[string]any{"pg": map[string]any{"cron.database_name": "defaultdb"}}}, nil)
			return err
		}, []string{"engine_config.pg.cron.database_name: PostgreSQL 15 has no library pg_cron here"}},
		{"a pool", func(ctx context.Context) error {
			_, err := b.Pools.Create(ctx, p, c.ID, cluster.Pool{Label: "app", Database: "defaultdb", Mode: cluster.PoolSession, Size: 1}, nil)
			return err
		}, []string{"region: Databases of the region kube can't be given connection pools"}},
		{"logs", func(ctx context.Context) error {
			_, _, err := b.Logs.List(ctx, p, "", c.ID, insight.LogQuery{}, nil)
			return err
		}, []string{"region: Databases of the region kube can't be asked for their logs"}},
	} {
		err := v.do(t.Context())
		if got := texts(err); strings.Join(got, "\n") != strings.Join(v.want, "\n") || kind(err) != fault.Invalid {
			t.Errorf("%s: %q (%v)", v.name, got, err)
		}
	}
	if len(b.woken) != woken || b.view(p, c.ID).Status != cluster.Active {
		t.Error("something was begun")
	}
	place.away = "It can't be reached"
	if err := create(func(*cluster.Spec) {})(t.Context()); strings.Join(texts(err), "\n") != "region: It can't be reached" {
		t.Errorf("while it is away: %v", err)
	}
	if _, err := b.Clusters.Update(t.Context(), p, "", c.ID, control.UpdateCluster{AllowList: &[]string{"192.0.2.9"}}, nil); err != nil {
		t.Errorf("what is there can be changed, which is done as soon as it is back: %v", err)
	}
}

// TestWhatAnEngineLacksInARegion: what can be done with databases of one engine there, and not with those of another, is refused of the latter alone.
func TestWhatAnEngineLacksInARegion(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(d *control.Deps) {
		d.Catalog.Regions = append(d.Catalog.Regions, catalog.Region{ID: "both", Platform: catalog.Platform{Kind: catalog.Kubernetes, Namespace: "databases"}})
		d.Catalog.Elsewhere = &elsewhere{}
	})
	p := b.tenant("acme")
	spec := b.spec()
	spec.Region, spec.Engine, spec.Series = "both", cluster.MySQL, "10.11"
	c, err := b.Clusters.Create(t.Context(), p, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = 'active', host_primary = '192.0.2.1' WHERE id = $1", c.ID); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]struct {
		do   func() error
		want string
	}{
		"three nodes": {func() error {
			three := spec
			three.Label, three.Size, three.Replication = "three", 3, cluster.Asynch
			_, err := b.Clusters.Create(t.Context(), p, three, nil)
			return err
		}, "cluster_size: Must be 1 for mysql/10.11 in the region both"},
		"three nodes of one": {func() error {
			_, err := b.Clusters.Update(t.Context(), p, "", c.ID, control.UpdateCluster{Size: new(3), Type: new("large")}, nil)
			return err
		}, "cluster_size: Must be 1 for mysql/10.11 in the region both"},
		"a snapshot": {
			func() error {
				return b.Backups.Create(t.Context(), p, "", c.ID, control.NewSnapshot{Label: "one"}, nil)
			},
			"region: Databases of mysql in the region both can't be backed up",
		},
		"logs": {func() error {
			_, _, err := b.Logs.List(t.Context(), p, "", c.ID, insight.LogQuery{}, nil)
			return err
		}, "region: Databases of mysql in the region both can't be asked for their logs"},
		"what a log would have": {func() error {
			_, err := b.Clusters.Update(t.Context(), p, "", c.ID, control.UpdateCluster{Config: map[string]any{"mysql": map[string]any{"slow_query_log": true}}}, nil)
			return err
		}, "can't be read here"},
		"a fork": {func() error {
			fork := spec
			fork.Label, fork.Fork = "fork", &cluster.Fork{Source: c.ID}
			_, err := b.Clusters.Create(t.Context(), p, fork, nil)
			return err
		}, "fork.source: Databases of the region both can't be forked"},
	} {
		if err := v.do(); !strings.Contains(strings.Join(texts(err), "\n"), v.want) || kind(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
