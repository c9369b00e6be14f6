package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/simulator"
	"steward/internal/platform/platformtest"
)

// clustersDefinition is the name of the definition of the operator's clusters.
const clustersDefinition = "clusters.postgresql.cnpg.io"

// field is what a version of a definition says of a field of the specification.
func field(version map[string]any, path ...string) map[string]any {
	is := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	for _, name := range append([]string{"spec"}, path...) {
		is = is["properties"].(map[string]any)[name].(map[string]any)
	}
	return is
}

// told applies until it is refused for good, and demands that the database serves meanwhile.
func (b *bench) told(t *testing.T, d *kubernetes.Driver, want platform.Wanted, why ...string) {
	t.Helper()
	await.NoError(t, strings.Join(why, ", ")+" is told", func() error {
		seen, err := d.Apply(t.Context(), want)
		if err != nil || !seen.Permanent || seen.Settled {
			return fmt.Errorf("%+v: %w", seen, err)
		}
		for _, part := range why {
			if !strings.Contains(seen.Problem, part) {
				t.Errorf("it doesn't say %q: %s", part, seen.Problem)
			}
		}
		if !seen.Serving || !seen.Exists {
			t.Errorf("taken for lost: %+v", seen)
		}
		return nil
	})
}

// TestUpgradedUnderUs: while the operator is replaced by another version, and with what that one does, nothing is taken for done that isn't, and all goes on
// by itself. One cluster goes through all of it.
func TestUpgradedUnderUs(t *testing.T) {
	b := newBench(t)
	webhook := simulator.StartWebhook(t, b.c, b.namespace)
	d := b.open(t)
	t.Cleanup(func() { d.Close() })
	want := b.wanted(t, 701)
	settle(t, d, &want)
	b.hold(t, want.Cluster, "one")

	t.Run("nobody answers for the operator", func(t *testing.T) {
		b.op.Pause()
		webhook.Away(true)
		changed := want
		changed.Plan = platformtest.Large
		await.True(t, "its webhook is asked", func() bool {
			seen, err := d.Apply(t.Context(), changed)
			if err == nil && (seen.Settled || seen.Permanent) {
				t.Errorf("taken for done, or for final: %+v", seen)
			}
			return err != nil && strings.Contains(err.Error(), "webhook")
		})
		if seen, err := d.Observe(t.Context(), want.ID); err != nil || !seen.Serving || !seen.Settled {
			t.Errorf("what nobody changed: %+v, %v", seen, err)
		}
		webhook.Away(false)
		b.op.Upgrade("1.31.0")
		b.op.Resume()
		want.Plan = changed.Plan
		settle(t, d, &want)
	})

	t.Run("all Pods are made anew", func(t *testing.T) {
		b.op.Pause()
		before := b.pod(t, want.ID).UID
		b.op.Upgrade("1.31.1")
		b.op.Resume()
		await.True(t, "it was", func() bool {
			pod := b.pod(t, want.ID)
			return pod != nil && pod.UID != before
		})
		settle(t, d, &want)
		if held := b.held(t, want.Cluster); held != "one" {
			t.Errorf("it holds %q", held)
		}
	})

	t.Run("the new version refuses what the old one took", func(t *testing.T) {
		webhook.Refuse("spec.postgresql.parameters: jit is a fixed parameter")
		want.ReadOnly = true
		b.told(t, d, want, "jit is a fixed parameter")
		webhook.Refuse("")
		if seen := settle(t, d, &want); !seen.ReadOnly {
			t.Errorf("seen: %+v", seen)
		}
		want.ReadOnly = false
		settle(t, d, &want)
	})

	t.Run("a field is gone", func(t *testing.T) { b.fieldGone(t, d, &want) })
	t.Run("there are fields more", func(t *testing.T) { b.fieldsMore(t, d, &want) })
}

// pod is that of a cluster's first instance; nil while there is none.
func (b *bench) pod(t *testing.T, id cluster.ID) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := b.c.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: object(id) + "-1"}, p); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	} else if err != nil {
		return nil
	}
	return p
}

// raw is a cluster's object with all fields that it has.
func (b *bench) raw(t *testing.T, id cluster.ID) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(cnpg.GroupVersion.WithKind("Cluster"))
	if err := b.c.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: object(id)}, o); err != nil {
		t.Fatal(err)
	}
	return o
}

// fieldGone: an object is written whole or not at all, and which field keeps it from that is told; doctor tells it, too.
func (b *bench) fieldGone(t *testing.T, d *kubernetes.Driver, want *platform.Wanted) {
	back := simulator.Redefine(t, b.c, clustersDefinition, func(version map[string]any) {
		delete(field(version)["properties"].(map[string]any), "switchoverDelay")
	})
	changed := *want
	changed.AllowList = cluster.AllowList{"127.0.0.1/32", "192.0.2.7/32"}
	b.told(t, d, changed, "switchoverDelay", "not declared")
	for _, rule := range b.get(t, want.ID).Spec.PostgreSQL.PgHBA {
		if strings.Contains(rule, "192.0.2.7") {
			t.Errorf("half of it was written: %s", rule)
		}
	}
	if seen, err := d.Observe(t.Context(), want.ID); err != nil || !seen.Serving || !seen.Settled {
		t.Errorf("seen: %+v, %v", seen, err)
	}
	found, err := kubernetes.Examine(t.Context(), b.options())
	if text := fmt.Sprint(found.Missing); err != nil || !strings.Contains(text, "switchoverDelay") || !strings.Contains(text, "kubectl explain") {
		t.Errorf("doctor: %s, %v", text, err)
	}
	back()
	*want = changed
	settle(t, d, want)
}

// fieldsMore: what a definition has beside what we write is left alone, and what it demands is told.
func (b *bench) fieldsMore(t *testing.T, d *kubernetes.Driver, want *platform.Wanted) {
	back := simulator.Redefine(t, b.c, clustersDefinition, func(version map[string]any) {
		field(version)["properties"].(map[string]any)["probes"] = map[string]any{"type": "string", "default": "all"}
		item := field(version, "bootstrap", "initdb", "postInitSQLRefs", "secretRefs")["items"].(map[string]any)
		item["properties"].(map[string]any)["optional"] = map[string]any{"type": "boolean", "default": false}
	})
	await.True(t, "the new default is there", func() bool {
		raw := b.raw(t, want.ID)
		value, _, _ := unstructured.NestedString(raw.Object, "spec", "probes")
		return value == "all"
	})
	b.writtenOnce(t, *want)
	back()
	back = simulator.Redefine(t, b.c, clustersDefinition, func(version map[string]any) {
		field(version)["properties"].(map[string]any)["tenant"] = map[string]any{"type": "string"}
		field(version)["required"] = []any{"instances", "tenant"}
	})
	changed := *want
	changed.ReadOnly = true
	b.told(t, d, changed, "tenant", "Required")
	back()
	*want = changed
	settle(t, d, want)
}

// TestDefinitionsMissing: without the operator's definitions nothing is begun, and none of what is there is taken for gone, as long as it isn't.
func TestDefinitionsMissing(t *testing.T) {
	b := newBench(t)
	unserved := func(version map[string]any) { version["served"] = false }
	missing := func(t *testing.T, of func() error) {
		t.Helper()
		await.NoError(t, "that the kind is missing is told", func() error {
			if err := of(); err == nil || !strings.Contains(err.Error(), "its kind isn't defined") {
				return fmt.Errorf("it says %w", err)
			}
			return nil
		})
	}
	served := func(t *testing.T, d *kubernetes.Driver) {
		t.Helper()
		await.NoError(t, "the kind is there again", func() error { return d.Check(t.Context()) })
	}

	t.Run("at the start", func(t *testing.T) {
		for _, name := range []string{"imagecatalogs.postgresql.cnpg.io", clustersDefinition} {
			back := simulator.Redefine(t, b.c, name, unserved)
			missing(t, func() error {
				d, err := kubernetes.New(t.Context(), b.options())
				if err == nil {
					d.Close()
				}
				return err
			})
			found, err := kubernetes.Examine(t.Context(), b.options())
			if text := fmt.Sprint(found.Missing); err != nil || !strings.Contains(text, "kubectl apply --server-side -f cnpg-") {
				t.Errorf("doctor: %s, %v", text, err)
			}
			back()
			await.NoError(t, "it comes up", func() error {
				d, err := kubernetes.New(t.Context(), b.options())
				if err == nil {
					d.Close()
				}
				return err
			})
		}
	})

	d := b.open(t)
	t.Cleanup(func() { d.Close() })
	want := b.wanted(t, 702)
	settle(t, d, &want)
	b.hold(t, want.Cluster, "one")

	t.Run("while a database serves", func(t *testing.T) {
		back := simulator.Redefine(t, b.c, clustersDefinition, unserved)
		missing(t, func() error { return d.Check(t.Context()) })
		missing(t, func() error {
			seen, err := d.Apply(t.Context(), want)
			if seen.Problem != "" {
				t.Errorf("it is judged unseen: %+v", seen)
			}
			return err
		})
		if seen, err := d.Observe(t.Context(), want.ID); err != nil || !seen.Serving || platform.Lost(want.Cluster, seen) {
			t.Errorf("taken for lost: %+v, %v", seen, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.Remove(ctx, want.Cluster); err == nil {
			t.Error("removed, as it seems")
		}
		if err := d.Reconcile(t.Context(), func(context.Context) ([]cluster.Cluster, error) { return nil, nil }); err == nil {
			t.Error("all that is there was looked through, as it seems")
		}
		back()
		served(t, d)
		settle(t, d, &want)
		if held := b.held(t, want.Cluster); held != "one" {
			t.Errorf("it holds %q", held)
		}
	})

	t.Run("removed, with all objects", func(t *testing.T) { b.undefine(t, d, want, missing, served) })
}

// undefine: with a definition an API server drops all objects of its kind. What is gone with that is told, and nothing empty takes its place.
func (b *bench) undefine(t *testing.T, d *kubernetes.Driver, want platform.Wanted, missing func(*testing.T, func() error), served func(*testing.T, *kubernetes.Driver)) {
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	definition.SetName(clustersDefinition)
	if err := b.c.Delete(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	missing(t, func() error { return d.Check(t.Context()) })
	simulator.Define(t, b.c)
	served(t, d)
	// As a rule that is seen before, but who watches may be cut off before it is told of the last object.
	await.True(t, "it is seen to be gone", func() bool {
		seen, err := d.Observe(t.Context(), want.ID)
		return err == nil && platform.Lost(want.Cluster, seen)
	})
	if seen, err := d.Apply(t.Context(), want); err != nil || !seen.Permanent || seen.Exists || !strings.Contains(seen.Problem, "gone, and its data with it") {
		t.Errorf("got %+v, %v", seen, err)
	}
	err := b.c.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: object(want.ID)}, &cnpg.Cluster{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("an empty one was made: %v", err)
	}
	if err := d.Remove(t.Context(), want.Cluster); err != nil {
		t.Error(err)
	}
	another := b.wanted(t, 703) // of new ones, all is seen again
	settle(t, d, &another)
	await.True(t, "it is seen", func() bool {
		seen, err := d.Observe(t.Context(), another.ID)
		return err == nil && seen.Serving
	})
	b.op.Kill(object(another.ID))
	await.NoError(t, "changes are seen again", func() error {
		seen, err := d.Observe(t.Context(), another.ID)
		if err == nil && (!seen.Serving || seen.Nodes[0].Restarts == 0) {
			err = errors.New(seen.Problem)
		}
		return err
	})
	if err := d.Remove(t.Context(), another.Cluster); err != nil {
		t.Error(err)
	}
}
