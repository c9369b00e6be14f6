package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/measure"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/simulator"
	"steward/internal/platform/platformtest"
)

// wanted is a cluster of a bench.
func (b *bench) wanted(t *testing.T, id cluster.ID) platform.Wanted {
	t.Helper()
	return (&platformtest.Bench{Engine: cluster.PostgreSQL, Series: "15", Port: 21000, Secrets: b.secrets}).Wanted(t, id)
}

// settle applies until all is as wanted.
func settle(t *testing.T, d *kubernetes.Driver, want *platform.Wanted) platform.Observed {
	t.Helper()
	var seen platform.Observed
	await.NoError(t, "settled", func() (err error) {
		if seen, err = d.Apply(t.Context(), *want); err == nil && !seen.Settled {
			err = errors.New(seen.Problem)
		}
		return err
	})
	want.Hosts, want.Installation = seen.Hosts, seen.Installation
	return seen
}

// get reads a cluster's object.
func (b *bench) get(t *testing.T, id cluster.ID) *cnpg.Cluster {
	t.Helper()
	c := &cnpg.Cluster{}
	if err := b.c.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: object(id)}, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFaults: what an operator, a cluster of Kubernetes or somebody else in it does is told, and nothing of it is taken for
// what it isn't. One cluster goes through all of it.
func TestFaults(t *testing.T) {
	b := newBench(t)
	d := b.open(t)
	t.Cleanup(func() { d.Close() })
	want := b.wanted(t, 201)
	want.Created = time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	first := settle(t, d, &want)

	t.Run("what is as it should be isn't written again", func(t *testing.T) { b.writtenOnce(t, want) })

	t.Run("an adoption logs in three times", func(t *testing.T) { b.adoptedOften(t, want) })

	t.Run("another steward's namespace, and another database's object", func(t *testing.T) { b.anotherSteward(t, d, &want) })

	t.Run("a server that hangs", func(t *testing.T) { b.hangs(t, d, &want) })

	t.Run("an operator that says all is done before it is", func(t *testing.T) {
		b.op.Pause()
		want.Plan = platformtest.Large
		for range 3 {
			seen, err := d.Apply(t.Context(), want)
			if c := b.get(t, 201); c.Status.Phase != "Cluster in healthy state" {
				t.Fatalf("it says %s", c.Status.Phase)
			}
			if err != nil || seen.Settled || !seen.Serving && seen.Healthy == 1 || !strings.Contains(seen.Problem, "other resources") {
				t.Errorf("taken for done: %+v, %v", seen, err)
			}
		}
		b.op.Resume()
		settle(t, d, &want)
	})

	t.Run("what its Pod uses, while somebody tells", func(t *testing.T) { b.usage(t, d) })

	t.Run("a field that somebody else changed", func(t *testing.T) { b.conflict(t, d, &want) })

	t.Run("an allow list that is empty lets nobody in, on all three ways", func(t *testing.T) {
		open := want.AllowList
		want.AllowList = nil
		if seen := settle(t, d, &want); !seen.Closed || !seen.Serving {
			t.Errorf("seen: %+v", seen)
		}
		var s corev1.Service
		if err := b.c.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "db-201"}, &s); err != nil {
			t.Fatal(err)
		}
		if got := s.Spec.LoadBalancerSourceRanges; len(got) != 1 || got[0] != "255.255.255.255/32" || s.Spec.Selector["steward/closed"] == "" {
			t.Errorf("ranges %v, selector %v", got, s.Spec.Selector)
		}
		var policy networkingv1.NetworkPolicy
		if err := b.c.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "db-201"}, &policy); err != nil {
			t.Fatal(err)
		}
		if from := policy.Spec.Ingress[2].From; len(from) != 1 { // steward's own
			t.Errorf("the policy lets in %+v", from)
		}
		if hba := b.get(t, 201).Spec.PostgreSQL.PgHBA; hba[len(hba)-1] != "host all all all reject" || strings.Contains(strings.Join(hba, "\n"), "all all 127") {
			t.Errorf("rules: %q", hba)
		}
		want.AllowList = open
		if seen := settle(t, d, &want); seen.Hosts != first.Hosts || seen.Closed {
			t.Errorf("its addresses changed: %+v, before %+v", seen.Hosts, first.Hosts)
		}
	})

	t.Run("an API server that is gone for a while", func(t *testing.T) {
		b.server.Crash(t, func() {
			if seen, err := d.Observe(t.Context(), 201); err != nil || !seen.Serving {
				t.Errorf("what was seen of it counts meanwhile: %+v, %v", seen, err)
			}
		})
		settle(t, d, &want)
		b.op.Kill(object(201))
		await.True(t, "changes are seen again", func() bool {
			seen, err := d.Observe(t.Context(), 201)
			return err == nil && seen.Serving && seen.Nodes[0].Restarts > 0
		})
	})

	t.Run("an API server that has a quota", func(t *testing.T) { b.quota(t, d) })

	t.Run("an object that is gone isn't made again, empty", func(t *testing.T) {
		if err := b.c.Delete(t.Context(), b.get(t, 201)); err != nil {
			t.Fatal(err)
		}
		await.True(t, "it is seen to be gone", func() bool {
			seen, err := d.Observe(t.Context(), 201)
			return err == nil && platform.Lost(want.Cluster, seen)
		})
		if seen, err := d.Apply(t.Context(), want); err != nil || !seen.Permanent || seen.Exists || !strings.Contains(seen.Problem, "gone") {
			t.Errorf("got %+v, %v", seen, err)
		}
		if err := d.Remove(t.Context(), want.Cluster); err != nil {
			t.Error(err)
		}
		if left := b.leftovers(t, 201); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// writtenOnce: a driver that starts looks at all objects, and writes those that aren't as they should be.
func (b *bench) writtenOnce(t *testing.T, want platform.Wanted) {
	var writes atomic.Int64
	o := b.options()
	o.Config = rest.CopyConfig(b.config)
	o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch || r.Method == http.MethodPut {
				writes.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	d, err := kubernetes.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	settle(t, d, &want)
	if n := writes.Load(); n > 0 {
		t.Errorf("%d writes", n)
	}
	changed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: way(want.ID) + "-root", Namespace: b.namespace}}
	gone := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: way(want.ID), Namespace: b.namespace}}
	unlabel := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"cnpg.io/reload":null}}}`))
	if err := errors.Join(b.c.Delete(t.Context(), gone), b.c.Patch(t.Context(), changed, unlabel)); err != nil {
		t.Fatal(err)
	}
	settle(t, d, &want)
	if n := writes.Load(); n != 2 {
		t.Errorf("%d writes of two objects", n)
	}
	if err := errors.Join(b.c.Get(t.Context(), client.ObjectKeyFromObject(gone), gone), b.c.Get(t.Context(), client.ObjectKeyFromObject(changed), changed)); err != nil || changed.Labels["cnpg.io/reload"] == "" {
		t.Errorf("%v, %v", err, changed.Labels)
	}
}

type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// usage: processor and memory are what a metrics server says of the server's container, and nothing without one.
func (b *bench) usage(t *testing.T, d *kubernetes.Driver) {
	read := func() measure.Values {
		t.Helper()
		all, err := d.Measure(t.Context(), 201)
		if err != nil || len(all) != 1 {
			t.Fatalf("%d readings, %v", len(all), err)
		}
		var m measure.Meter
		return m.Add(all[0].Reading)
	}
	v := read()
	if !math.IsNaN(v[measure.CPUUsage]) || !math.IsNaN(v[measure.MemoryUsed]) || !(v[measure.CertificateLeft] > 0) || v[measure.ArchiveWaiting] != 0 || v[measure.ArchiveLag] != 0 {
		t.Errorf("nobody tells: processor %v, memory %v; certificate %v, archive %v", v[measure.CPUUsage], v[measure.MemoryUsed], v[measure.CertificateLeft], v[measure.ArchiveLag])
	}
	simulator.TellUsage(t, b.c)
	simulator.SetUsage(t, b.c, b.namespace, object(201)+"-1", cnpg.Container, "500m", "512Mi", map[string]string{"steward/cluster": "201"})
	again := b.open(t) // which asks at once
	defer again.Close()
	d = again
	await.True(t, "what the Pod uses is told", func() bool { v = read(); return !math.IsNaN(v[measure.CPUUsage]) })
	plan := platformtest.Large
	if v[measure.CPUUsage] != 50/float64(plan.VCPUs) || v[measure.MemoryUsed] != 512<<20 || v[measure.MemoryUsage] != 51200/float64(plan.MemoryMB) {
		t.Errorf("processor %v %%, memory %v, %v %%", v[measure.CPUUsage], v[measure.MemoryUsed], v[measure.MemoryUsage])
	}
}

// conflict: another manager's fields are named, not overwritten.
func (b *bench) conflict(t *testing.T, d *kubernetes.Driver, want *platform.Wanted) {
	write := func(stopDelay int64) error {
		other := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": cnpg.GroupVersion.String(), "kind": "Cluster", "metadata": map[string]any{"name": object(want.ID), "namespace": b.namespace},
			"spec": map[string]any{"stopDelay": stopDelay},
		}}
		return b.c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(other), client.FieldOwner("somebody"), client.ForceOwnership)
	}
	if err := write(7); err != nil {
		t.Fatal(err)
	}
	seen, err := d.Apply(t.Context(), *want)
	if err != nil || seen.Settled || !seen.Permanent || !strings.Contains(seen.Problem, "somebody") || !strings.Contains(seen.Problem, "stopDelay") {
		t.Errorf("got %+v, %v", seen, err)
	}
	if c := b.get(t, want.ID); c.Spec.StopDelay != 7 {
		t.Errorf("it was overwritten: %d", c.Spec.StopDelay)
	}
	if !seen.Serving {
		t.Errorf("it serves all the same: %+v", seen)
	}
	if err := write(60); err != nil {
		t.Fatal(err)
	}
	settle(t, d, want) // both have the same: there is nothing to argue about
	b.takeOver(t, d, want, write)
}

// takeOver: who may change an object can have steward take back what somebody else has changed, by the command that is told, and for that once.
func (b *bench) takeOver(t *testing.T, d *kubernetes.Driver, want *platform.Wanted, write func(stopDelay int64) error) {
	ask := "kubectl annotate cluster.postgresql.cnpg.io -n " + b.namespace + " " + object(want.ID) + " steward/take-over=yes"
	for round := range 2 {
		if err := write(8); err != nil {
			t.Fatal(err)
		}
		b.told(t, d, *want, "somebody", "stopDelay", ask)
		if c := b.get(t, want.ID); c.Spec.StopDelay != 8 {
			t.Errorf("round %d: it was taken over unasked: %d", round, c.Spec.StopDelay)
		}
		asked := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"steward/take-over":"yes"}}}`))
		if err := b.c.Patch(t.Context(), b.get(t, want.ID), asked, client.FieldOwner("kubectl-annotate")); err != nil {
			t.Fatal(err)
		}
		settle(t, d, want)
		if c := b.get(t, want.ID); c.Spec.StopDelay != 60 || c.Annotations["steward/take-over"] != "" {
			t.Errorf("round %d: it wasn't taken over for once: %d, %v", round, c.Spec.StopDelay, c.Annotations)
		}
	}
}

// quota: what the API server refuses is told, and made as soon as it no longer does.
func (b *bench) quota(t *testing.T, d *kubernetes.Driver) {
	q := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "few", Namespace: b.namespace},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"services": resource.MustParse("1")}},
	}
	if err := b.c.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: corev1.ResourceList{"services": resource.MustParse("1")}}
	if err := b.c.Status().Update(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	want := b.wanted(t, 202)
	await.True(t, "the quota is told", func() bool {
		seen, err := d.Apply(t.Context(), want)
		if err != nil {
			t.Fatal(err)
		}
		told := seen.Permanent && strings.Contains(seen.Problem, "exceeded quota: few")
		if !told {
			if err := d.Remove(t.Context(), want.Cluster); err != nil { // the server hadn't seen it yet
				t.Fatal(err)
			}
		}
		return told
	})
	if err := b.c.Delete(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(t.Context(), want.Cluster); err != nil {
		t.Error(err)
	}
}

// TestFailover: who is the primary the servers say, whatever the operator does, and however far its clock is ahead. What was asked for is
// told from what happened, and the rights that steward has are enough to ask.
func TestFailover(t *testing.T) {
	b := newBench(t)
	b.op.Skew(26 * time.Hour)
	b.server.Grant(t, b.namespace, "steward", kubernetes.Rights())
	b.config = b.server.User(t, "steward")
	d := b.open(t)
	t.Cleanup(func() { d.Close() })
	want := b.wanted(t, 501)
	want.Size, want.Replication, want.Commit = 3, cluster.Asynch, cluster.CommitRemoteWrite
	before := settle(t, d, &want)
	mustNotBeAhead(t, before)
	if before.Failovers != 0 || !before.LastFailover.IsZero() {
		t.Errorf("a failover that never was: %+v", before)
	}
	if names := b.get(t, 501).Spec.PostgreSQL.Synchronous; names == nil || names.DataDurability != "required" {
		t.Errorf("a commit waits for nobody: %+v", names)
	}
	if err := b.execute(t, want.Cluster, "CREATE TABLE kept AS SELECT 1 AS one"); err != nil {
		t.Fatal(err)
	}
	b.op.LosePrimary(object(501))
	var seen platform.Observed
	await.True(t, "another is the primary", func() bool {
		var err error
		seen, err = d.Observe(t.Context(), 501)
		return err == nil && seen.Failovers == 1 && len(seen.Nodes) == 3 && seen.Settled
	})
	mustNotBeAhead(t, seen)
	if seen.Nodes[0].Address == before.Nodes[0].Address || seen.Hosts != before.Hosts || seen.LastFailover.IsZero() ||
		!strings.Contains(seen.FailoverReason, "no acknowledged write was lost") {
		t.Errorf("seen: %+v", seen)
	}
	if err := b.execute(t, want.Cluster, "INSERT INTO kept SELECT one + 1 FROM kept"); err != nil {
		t.Errorf("what was written before: %v", err)
	}
	if seen.LastChange.Planned {
		t.Errorf("it passes for planned: %+v", seen.LastChange)
	}
	from := seen.Nodes[0].Ordinal
	want.Switchover = &from
	after := settle(t, d, &want)
	mustNotBeAhead(t, after)
	if after.Failovers != 2 || after.LastChange.From != from || after.LastChange.To != after.Nodes[0].Ordinal || !after.LastChange.Planned ||
		!strings.Contains(after.FailoverReason, "as was asked for") {
		t.Errorf("handed over: %+v", after)
	}
	// CloudNativePG has a server that was the primary look into the one that is, as a role of its own and in the database of the
	// administration, before it lets it follow (1.30, recorded: "permission denied for database postgres", for ever).
	if len(after.Nodes) != 3 || after.Healthy != 3 {
		t.Errorf("node %d, which handed over, doesn't follow: %+v", from, after)
	}
	want.Switchover = nil
	b.op.Pause()
	b.op.LosePrimary(object(501))
	b.setsPasswordOfTwo(t, d, want)
	b.op.Resume()
	await.True(t, "a third is the primary", func() bool {
		seen, err := d.Observe(t.Context(), 501)
		return err == nil && seen.Failovers == 3 && seen.Serving && !seen.LastChange.Planned
	})
}

// setsPasswordOfTwo: after the primary is lost another serves long before there are three again (1.30, recorded: minutes), and a database
// that had failed is called degraded only once its password is what the API answers.
func (b *bench) setsPasswordOfTwo(t *testing.T, d *kubernetes.Driver, want platform.Wanted) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.SetPassword(ctx, want); err != nil {
		t.Error(err)
	}
	await.True(t, "it is degraded", func() bool {
		seen, err := d.Observe(ctx, want.ID)
		return err == nil && seen.Serving && seen.Degraded
	})
}

// hangs: a server that doesn't answer holds up nobody for long, and is told.
func (b *bench) hangs(t *testing.T, d *kubernetes.Driver, want *platform.Wanted) {
	b.op.Freeze(object(want.ID), true)
	thaw := sync.OnceFunc(func() { b.op.Freeze(object(want.ID), false) })
	defer thaw()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen, err := d.Apply(ctx, *want)
	if err != nil || seen.Settled || seen.Serving || !strings.Contains(seen.Problem, "doesn't answer") {
		t.Errorf("got %+v, %v", seen, err)
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	thaw()
	settle(t, d, want)
}

// anotherSteward: a namespace is one store's, and an object one database's.
func (b *bench) anotherSteward(t *testing.T, d *kubernetes.Driver, want *platform.Wanted) {
	b.open(t).Close() // another server on the same store
	o := b.options()
	o.Owner = "another store"
	if _, err := kubernetes.New(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the store this store, and this one's is another store") ||
		!strings.Contains(err.Error(), "kubectl delete secret") {
		t.Errorf("somebody else's namespace: %v", err)
	}
	before := b.get(t, want.ID)
	later := *want // a store that was brought back gives the number out again
	later.Created = want.Created.Add(time.Hour)
	if seen, err := d.Apply(t.Context(), later); err != nil || !seen.Permanent || !strings.Contains(seen.Problem, "of another database, made at 2026-01-31T18:00:00Z") {
		t.Errorf("taken for its own: %+v, %v", seen, err)
	}
	if err := d.Remove(t.Context(), later.Cluster); err != nil {
		t.Error(err)
	}
	if after := b.get(t, want.ID); after.ResourceVersion != before.ResourceVersion || len(b.leftovers(t, want.ID)) < 5 {
		t.Errorf("it was changed, and there are %v", b.leftovers(t, want.ID))
	}
	settle(t, d, want)
}

// TestRights: what is in the role that we tell of is enough, and there is nothing in it without which all goes well. TestPlatform has
// no more for all that is done to databases.
func TestRights(t *testing.T) {
	b := newMariaDBBench(t)
	b.keep(t)
	b.server.Grant(t, b.namespace, "steward", kubernetes.Rights())
	b.config = b.server.User(t, "steward")
	d := b.open(t)
	t.Cleanup(func() { d.Close() })
	want := b.wanted(t, 401)
	settle(t, d, &want)
	if _, err := d.Pending(t.Context(), want); err != nil {
		t.Error(err)
	}
	if err := d.SetPassword(t.Context(), want); err != nil {
		t.Error(err)
	}
	all := b.leftovers(t, 401)
	if err := d.Reconcile(t.Context(), func(context.Context) ([]cluster.Cluster, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
	if left := b.leftovers(t, 401); !slices.Equal(left, all) {
		t.Errorf("data that nobody knows isn't left alone: %v of %v", left, all)
	}
	if err := d.Remove(t.Context(), want.Cluster); err != nil {
		t.Error(err)
	}
	if left := b.leftovers(t, 401); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if found, err := kubernetes.Examine(t.Context(), b.options()); err != nil || len(found.Missing) > 0 || len(found.Notes) != 3 || found.Version == "" {
		t.Errorf("found %+v, %v", found, err)
	}
	b.config = b.server.User(t, "stranger")
	found, err := kubernetes.Examine(t.Context(), b.options())
	if err != nil {
		t.Fatal(err)
	}
	findings := fmt.Sprint(found.Missing)
	for _, r := range kubernetes.Rights() {
		for _, verb := range r.Verbs {
			if !strings.Contains(findings, verb+" "+r.Resources[0]) {
				t.Errorf("a stranger isn't told of %s %s: %s", verb, r.Resources[0], findings)
			}
		}
	}
}
