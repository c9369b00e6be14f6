package kubernetes_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"steward/internal/archive/archivetest"
	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes"
	"steward/internal/platform/kubernetes/simulator"
)

// TestKeptFaults: what an operator, its plugin or the bucket does to backups and recoveries is told, and costs no data. One cluster goes through all of it.
func TestKeptFaults(t *testing.T) { keptFaults(t, false) }

// TestKeptFaultsThorough tries further moments to fail at, too.
func TestKeptFaultsThorough(t *testing.T) { keptFaults(t, true) }

func keptFaults(t *testing.T, thorough bool) {
	t.Helper()
	t.Parallel()
	further := func(name string, try func(t *testing.T)) {
		if thorough {
			t.Run(name, try)
		}
	}
	b := newBench(t)
	b.keep(t)
	d := b.open(t)
	t.Cleanup(func() { d.Close() })
	want := b.wanted(t, 601)
	settle(t, d, &want)
	b.hold(t, want.Cluster, "one")
	short := func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), 3*time.Second) }

	t.Run("a backup that fails says why, and the next attempt is a new one", func(t *testing.T) {
		b.op.Fail(simulator.Faults{BackupFails: "the disk is on fire"})
		if _, err := d.TakeBackup(t.Context(), want, 1, cluster.Primary); err == nil || !strings.Contains(err.Error(), "the disk is on fire") {
			t.Errorf("got %v", err)
		}
		b.op.Fail(simulator.Faults{BackupWaits: 5})
	})
	first, err := d.TakeBackup(t.Context(), want, 1, cluster.Primary)
	if err != nil {
		t.Fatal(err)
	}
	from := platform.KeptSource{Backup: 1, Ref: first.Ref, Of: want.Cluster, Token: "1"}

	further("a backup that vanishes", func(t *testing.T) {
		b.op.Fail(simulator.Faults{BackupVanishes: true})
		if _, err := d.TakeBackup(t.Context(), want, 2, cluster.Primary); err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("a backup that hangs is gone on with by the next driver", func(t *testing.T) {
		b.op.Fail(simulator.Faults{BackupStuck: true})
		ctx, cancel := short()
		defer cancel()
		if _, err := d.TakeBackup(ctx, want, 3, cluster.Primary); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		b.op.Fail(simulator.Faults{})
		if _, err := d.TakeBackup(t.Context(), want, 3, cluster.Primary); err != nil {
			t.Error(err)
		}
	})

	t.Run("a backup that is said to be completed before its WAL is archived", func(t *testing.T) {
		b.op.Fail(simulator.Faults{ArchiveStuck: true})
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		if _, err := d.TakeBackup(ctx, want, 4, cluster.Primary); err == nil || !strings.Contains(err.Error(), "isn't archived") {
			t.Errorf("got %v", err)
		}
		b.op.Fail(simulator.Faults{})
	})

	t.Run("a bucket that lets nobody in", func(t *testing.T) {
		b.bucket.Break(archivetest.Trouble{Status: 403})
		defer b.bucket.Mend()
		if err := d.DropBackup(t.Context(), want.Cluster, 1, first.Ref); err == nil {
			t.Error("it was removed")
		}
	})

	t.Run("another cluster's backup is neither read nor removed", func(t *testing.T) {
		other := want.Cluster
		other.ID = 602
		if err := d.DropBackup(t.Context(), other, 1, first.Ref); err == nil || !strings.Contains(err.Error(), "no backup of cluster 602") {
			t.Errorf("got %v", err)
		}
	})

	b.hold(t, want.Cluster, "two")
	t.Run("a recovery that fails leaves the data, and nothing behind", func(t *testing.T) {
		b.op.Fail(simulator.Faults{RecoveryFails: true})
		defer b.op.Fail(simulator.Faults{})
		_, err := d.RestoreKept(t.Context(), want, from, func() error { t.Error("it is placed"); return nil })
		if !errors.Is(err, platform.ErrRestoreFails) {
			t.Errorf("got %v", err)
		}
		if err := d.VerifyKept(t.Context(), want, from); !errors.Is(err, platform.ErrRestoreFails) || errors.Is(err, platform.ErrUnverified) {
			t.Errorf("verified: %v", err)
		}
		b.mustBeAlone(t, want)
		if got := b.held(t, want.Cluster); got != "two" {
			t.Errorf("it holds %q", got)
		}
	})

	further("a verification that takes too long says nothing of the backup", func(t *testing.T) {
		b.op.Fail(simulator.Faults{RecoveryStuck: true})
		defer b.op.Fail(simulator.Faults{})
		ctx, cancel := short()
		defer cancel()
		if err := d.VerifyKept(ctx, want, from); !errors.Is(err, platform.ErrUnverified) {
			t.Errorf("got %v", err)
		}
		b.mustBeAlone(t, want)
	})

	t.Run("what a restore that was given up has left goes with the next Apply", func(t *testing.T) {
		b.op.Fail(simulator.Faults{RecoveryStuck: true})
		defer b.op.Fail(simulator.Faults{})
		ctx, cancel := short()
		defer cancel()
		if _, err := d.RestoreKept(ctx, want, from, func() error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		settle(t, d, &want)
		b.mustBeAlone(t, want)
	})

	t.Run("a database whose object is gone comes back from its backup", func(t *testing.T) {
		if err := b.c.Delete(t.Context(), b.get(t, 601)); err != nil {
			t.Fatal(err)
		}
		if _, err := d.RestoreKept(t.Context(), want, from, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		settle(t, d, &want)
		if got := b.held(t, want.Cluster); got != "one" {
			t.Errorf("it holds %q", got)
		}
	})

	further("an undo that ends once it has led back is gone on with", func(t *testing.T) {
		b.hold(t, want.Cluster, "two")
		from.Token = "undone"
		if _, err := d.RestoreKept(t.Context(), want, from, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		var led atomic.Bool
		o := b.options()
		o.Config = rest.CopyConfig(b.config)
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if led.Load() {
					return nil, errors.New("it is gone")
				}
				if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/services/db-601") {
					led.Store(true)
				}
				return next.RoundTrip(r)
			})
		})
		dies, err := kubernetes.New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer dies.Close()
		if err := dies.Undo(t.Context(), want); err == nil || !led.Load() {
			t.Errorf("it came to its end: %v", err)
		}
		if err := d.Undo(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		settle(t, d, &want)
		if got := b.held(t, want.Cluster); got != "two" {
			t.Errorf("it holds %q", got)
		}
		b.mustBeAlone(t, want)
	})

	t.Run("what is aside for a day goes", func(t *testing.T) {
		from.Token = "2"
		if _, err := d.RestoreKept(t.Context(), want, from, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		o := b.options()
		o.Now = func() time.Time { return time.Now().Add(25 * time.Hour) }
		later, err := kubernetes.New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer later.Close()
		if err := later.Undo(t.Context(), want); !errors.Is(err, platform.ErrNothingAside) {
			t.Errorf("undone after a day: %v", err)
		}
		if err := later.Reconcile(t.Context(), func(context.Context) ([]cluster.Cluster, error) { return []cluster.Cluster{want.Cluster}, nil }); err != nil {
			t.Error(err)
		}
		b.mustBeAlone(t, want)
		settle(t, d, &want)
	})
}

// mustBeAlone demands that a cluster has one generation, and no scratch server.
func (b *bench) mustBeAlone(t *testing.T, want platform.Wanted) {
	t.Helper()
	await.True(t, "nothing but the cluster is there", func() bool {
		clusters := 0
		for _, left := range b.leftovers(t, want.ID) {
			if strings.HasPrefix(left, "*cnpg.Cluster ") {
				clusters++
			}
		}
		return clusters == 1
	})
}
