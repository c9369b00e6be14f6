package kubernetes_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/archive/archivetest"
	"steward/internal/await"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/engine/enginetest"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes"
	"steward/internal/platform/kubernetes/mariadb"
	"steward/internal/platform/kubernetes/simulator"
	"steward/internal/testdir"
)

// holdMariaDB makes a cluster hold data, and heldMariaDB is what it holds.
func (b *bench) holdMariaDB(t *testing.T, c cluster.Cluster, data string) {
	t.Helper()
	err := b.mariaDBServer(t.Context(), c, netip.MustParseAddr("127.0.0.1"), b.secrets.Text(c.ID, platform.RootPassword), func(db *sql.Conn) error {
		for _, statement := range []string{"CREATE TABLE IF NOT EXISTS held (data text)", "DELETE FROM held", "INSERT INTO held VALUES ('" + data + "')"} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) heldMariaDB(t *testing.T, c cluster.Cluster) string {
	t.Helper()
	text, err := b.text(t.Context(), c, "SELECT GROUP_CONCAT(data) FROM held")
	if err != nil {
		t.Errorf("what it holds: %v", err)
	}
	return text
}

// mustBeAloneMariaDB demands that a cluster has one generation, and nothing of another or of a scratch server.
func (b *bench) mustBeAloneMariaDB(t *testing.T, want platform.Wanted) {
	t.Helper()
	var left []string
	defer func() {
		if t.Failed() {
			t.Logf("there is: %v", left)
		}
	}()
	await.True(t, "nothing but the cluster is there", func() bool {
		left = b.leftovers(t, want.ID)
		count := func(kind string) int {
			return len(slices.DeleteFunc(slices.Clone(left), func(o string) bool { return !strings.HasPrefix(o, kind+" ") }))
		}
		// The way in, and what it is secured by: root, authority, certificate and files.
		return count("*mariadb.MariaDB") == 1 && count("*v1.Pod") == 1 && count("*v1.PersistentVolumeClaim") == 1 && count("*v1.Secret") == 4 &&
			count("*mariadb.PhysicalBackup") == 0
	})
}

// TestMariaDBKeptFaultsThorough: what the operator or the bucket does to backups of MariaDB, and to what begins with one, is told, and costs no data.
// Most of it goes as with PostgreSQL (TestKeptFaults).
func TestMariaDBKeptFaultsThorough(t *testing.T) {
	t.Parallel()
	b := newMariaDBBench(t)
	b.keep(t)
	b.server.Grant(t, b.namespace, "steward", kubernetes.Rights())
	b.config = b.server.User(t, "steward")
	d := b.open(t)
	t.Cleanup(func() { d.Close() })
	want := b.mariaDBWanted(t, 821)
	settle(t, d, &want)
	b.holdMariaDB(t, want.Cluster, "one")
	// giveUp gives up what is stuck once it has made a server.
	giveUp := func(t *testing.T, what func(context.Context) error) error {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		said := make(chan error, 1)
		go func() { said <- what(ctx) }()
		await.True(t, "there is a second server", func() bool {
			var servers mariadb.List
			err := b.c.List(t.Context(), &servers, kube.InNamespace(b.namespace), kube.MatchingLabels{"steward/cluster": "821"})
			return err == nil && len(servers.Items) == 2
		})
		cancel()
		return <-said
	}

	t.Run("a backup that fails says why, though the operator calls it complete, and the next attempt is a new one", func(t *testing.T) {
		b.mdb.Fail(simulator.Faults{BackupFails: "the disk is on fire"})
		if _, err := d.TakeBackup(t.Context(), want, 1, cluster.Primary); err == nil || !strings.Contains(err.Error(), "the disk is on fire") {
			t.Errorf("got %v", err)
		}
		b.mdb.Fail(simulator.Faults{BackupWaits: 5})
	})
	first, err := d.TakeBackup(t.Context(), want, 1, cluster.Primary)
	if err != nil {
		t.Fatal(err)
	}
	if keys := b.stored(t, want.Cluster); len(keys) != 1 || !strings.Contains(keys[0], "-b1/physicalbackup-") {
		t.Errorf("in the bucket: %v", keys)
	}
	from := platform.KeptSource{Backup: 1, Ref: first.Ref, Of: want.Cluster, Token: "1"}
	b.mustBeAloneMariaDB(t, want)

	t.Run("a backup that is said to be complete, with nothing in the bucket", func(t *testing.T) {
		b.mdb.Fail(simulator.Faults{ArchiveStuck: true})
		if _, err := d.TakeBackup(t.Context(), want, 2, cluster.Primary); err == nil || !strings.Contains(err.Error(), "nothing of it is in the bucket") {
			t.Errorf("got %v", err)
		}
		b.mdb.Fail(simulator.Faults{})
		if _, err := d.TakeBackup(t.Context(), want, 2, cluster.Primary); err != nil {
			t.Error(err)
		}
	})

	t.Run("a backup that vanishes", func(t *testing.T) {
		b.mdb.Fail(simulator.Faults{BackupVanishes: true})
		if _, err := d.TakeBackup(t.Context(), want, 3, cluster.Primary); err == nil || !strings.Contains(err.Error(), "not found") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("a backup that hangs is gone on with by the next driver", func(t *testing.T) {
		b.mdb.Fail(simulator.Faults{BackupStuck: true})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := d.TakeBackup(ctx, want, 3, cluster.Primary); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		b.mdb.Fail(simulator.Faults{})
		if _, err := d.TakeBackup(t.Context(), want, 3, cluster.Primary); err != nil {
			t.Error(err)
		}
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
		other.ID = 822
		if err := d.DropBackup(t.Context(), other, 1, first.Ref); err == nil || !strings.Contains(err.Error(), "no backup of cluster 822") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("what a backup that failed has left in the bucket goes after a day, and what is kept doesn't", func(t *testing.T) {
		before := len(b.stored(t, want.Cluster))
		if err := d.PruneBackups(t.Context(), want.Cluster, []string{first.Ref}); err != nil || len(b.stored(t, want.Cluster)) != before {
			t.Errorf("at once: %v, %v", b.stored(t, want.Cluster), err)
		}
		later := b.openAt(t, func() time.Time { return time.Now().Add(25 * time.Hour) })
		defer later.Close()
		if err := later.PruneBackups(t.Context(), want.Cluster, []string{first.Ref}); err != nil {
			t.Error(err)
		}
		if keys := b.stored(t, want.Cluster); len(keys) != 1 || !strings.Contains(keys[0], "-b1/") {
			t.Errorf("after a day: %v", keys)
		}
	})

	b.holdMariaDB(t, want.Cluster, "two")
	t.Run("no moment between backups can be had", func(t *testing.T) {
		until := time.Now()
		moment := from
		moment.Until = &until
		if _, err := d.RestoreKept(t.Context(), want, moment, func() error { return nil }); !errors.Is(err, platform.ErrGap) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("a recovery that fails leaves the data, and nothing behind", func(t *testing.T) {
		b.mdb.Fail(simulator.Faults{RecoveryFails: true})
		defer b.mdb.Fail(simulator.Faults{})
		_, err := d.RestoreKept(t.Context(), want, from, func() error { t.Error("it is placed"); return nil })
		if !errors.Is(err, platform.ErrRestoreFails) {
			t.Errorf("got %v", err)
		}
		if err := d.VerifyKept(t.Context(), want, from); !errors.Is(err, platform.ErrRestoreFails) || errors.Is(err, platform.ErrUnverified) {
			t.Errorf("verified: %v", err)
		}
		b.mustBeAloneMariaDB(t, want)
		if got := b.heldMariaDB(t, want.Cluster); got != "two" {
			t.Errorf("it holds %q", got)
		}
	})

	t.Run("a verification that takes too long says nothing of the backup", func(t *testing.T) {
		b.mdb.Fail(simulator.Faults{RecoveryStuck: true})
		defer b.mdb.Fail(simulator.Faults{})
		err := giveUp(t, func(ctx context.Context) error { return d.VerifyKept(ctx, want, from) })
		if !errors.Is(err, platform.ErrUnverified) {
			t.Errorf("got %v", err)
		}
		b.mustBeAloneMariaDB(t, want)
	})

	t.Run("a proof leaves the server as it is, and customers' way in open", func(t *testing.T) {
		want.AllowList = cluster.AllowList{"127.0.0.1", "127.0.0.6"} // the first is where steward is, too
		before := settle(t, d, &want)
		if err := d.VerifyKept(t.Context(), want, from); err != nil {
			t.Error(err)
		}
		b.mustBeAloneMariaDB(t, want)
		after, err := d.Observe(t.Context(), want.ID)
		if err != nil || after.Nodes[0].Started != before.Nodes[0].Started || !after.Serving {
			t.Errorf("the server was started anew: %+v, %v", after, err)
		}
		var policy networkingv1.NetworkPolicy
		if err := b.c.Get(t.Context(), kube.ObjectKey{Namespace: b.namespace, Name: way(want.ID)}, &policy); err != nil {
			t.Fatal(err)
		}
		if said := fmt.Sprint(policy.Spec.Ingress); !strings.Contains(said, "127.0.0.6/32") {
			t.Errorf("who is let in: %s", said)
		}
	})

	t.Run("what a restore that was given up has left goes with the next Apply", func(t *testing.T) {
		b.mdb.Fail(simulator.Faults{RecoveryStuck: true})
		defer b.mdb.Fail(simulator.Faults{})
		err := giveUp(t, func(ctx context.Context) error {
			_, err := d.RestoreKept(ctx, want, from, func() error { return nil })
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		settle(t, d, &want)
		b.mustBeAloneMariaDB(t, want)
	})

	t.Run("a dropped table comes back, with today's password", func(t *testing.T) {
		password := b.secrets.Text(want.ID, platform.RootPassword)
		err := b.mariaDBServer(t.Context(), want.Cluster, netip.MustParseAddr("127.0.0.1"), password, func(db *sql.Conn) error {
			_, err := db.ExecContext(t.Context(), "DROP TABLE held")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.secrets.SaveSecret(t.Context(), want.ID, platform.RootPassword, []byte("another-of-today-1")); err != nil {
			t.Fatal(err)
		}
		if err := d.SetPassword(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if _, err := d.RestoreKept(t.Context(), want, from, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		settle(t, d, &want)
		if got := b.heldMariaDB(t, want.Cluster); got != "one" {
			t.Errorf("it holds %q", got)
		}
	})

	t.Run("what is aside for a day goes", func(t *testing.T) {
		from.Token = "2"
		if _, err := d.RestoreKept(t.Context(), want, from, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		orphan := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db-821-v77-tls", Namespace: b.namespace, Labels: map[string]string{"steward/cluster": "821"}}}
		if err := b.c.Create(t.Context(), orphan); err != nil { // steward died before it made the server of a proof
			t.Fatal(err)
		}
		later := b.openAt(t, func() time.Time { return time.Now().Add(25 * time.Hour) })
		defer later.Close()
		if err := later.Undo(t.Context(), want); !errors.Is(err, platform.ErrNothingAside) {
			t.Errorf("undone after a day: %v", err)
		}
		if err := later.Reconcile(t.Context(), func(context.Context) ([]cluster.Cluster, error) { return []cluster.Cluster{want.Cluster}, nil }); err != nil {
			t.Error(err)
		}
		settle(t, d, &want)
		b.mustBeAloneMariaDB(t, want)
	})

	t.Run("a database whose object is gone comes back from its backup", func(t *testing.T) {
		now := &mariadb.MariaDB{}
		if err := b.c.Get(t.Context(), kube.ObjectKey{Namespace: b.namespace, Name: "db-821-g3"}, now); err != nil {
			t.Fatal(err)
		}
		if err := b.c.Delete(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		from.Token = "3"
		if _, err := d.RestoreKept(t.Context(), want, from, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		settle(t, d, &want)
		if got := b.heldMariaDB(t, want.Cluster); got != "one" {
			t.Errorf("it holds %q", got)
		}
		if err := d.Remove(t.Context(), want.Cluster); err != nil {
			t.Error(err)
		}
		if left := b.leftovers(t, want.ID); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// openAt is open with another clock.
func (b *bench) openAt(t *testing.T, now func() time.Time) *kubernetes.Driver {
	t.Helper()
	o := b.options()
	o.Now = now
	d, err := kubernetes.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// dying is a driver whose process dies once it has written so many times: nothing that it asks afterwards comes to anything.
func (b *bench) dying(t *testing.T, writes int) (*kubernetes.Driver, func() bool) {
	t.Helper()
	var left, dead atomic.Int64
	left.Store(int64(writes))
	var armed atomic.Bool // what it asks first is no matter
	o := b.options()
	o.Config = rest.CopyConfig(b.config)
	o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if armed.Load() && dead.Load() > 0 {
				return nil, errors.New("it is gone")
			}
			if armed.Load() && r.Method != http.MethodGet && left.Add(-1) < 0 {
				dead.Store(1)
				return nil, errors.New("it is gone")
			}
			return next.RoundTrip(r)
		})
	})
	d, err := kubernetes.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	return d, func() bool { return dead.Load() > 0 }
}

// TestMariaDBKeptKilledThorough: steward dies after a write of a backup, a restore, a fork, a proof and a removal, another each time. The next one brings
// it to its end, and of what was begun nothing is left. All writes are tried where time is no matter.
func TestMariaDBKeptKilledThorough(t *testing.T) {
	t.Parallel()
	b := newMariaDBBench(t)
	b.keep(t)
	d := b.open(t)
	t.Cleanup(func() { d.Close() })
	want, fork := b.mariaDBWanted(t, 831), b.mariaDBWanted(t, 832)
	settle(t, d, &want)
	b.holdMariaDB(t, want.Cluster, "one")
	id, token := backup.ID(1), 0
	var from platform.KeptSource
	take := func(ctx context.Context, d *kubernetes.Driver) error {
		kept, err := d.TakeBackup(ctx, want, id, cluster.Primary)
		from = platform.KeptSource{Backup: id, Ref: kept.Ref, Of: want.Cluster}
		return err
	}
	if err := take(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	first := from
	begin := func() { token++; from = first; from.Token = fmt.Sprint(token) }
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T)
		do      func(ctx context.Context, d *kubernetes.Driver) error
		check   func(t *testing.T)
	}{
		{"backup", func(*testing.T) { id++ }, take, func(t *testing.T) {
			if err := d.VerifyKept(t.Context(), want, from); err != nil {
				t.Errorf("what was taken: %v", err)
			}
			b.mustBeAloneMariaDB(t, want)
		}},
		{"restore", func(t *testing.T) { begin(); b.holdMariaDB(t, want.Cluster, "two") }, func(ctx context.Context, d *kubernetes.Driver) error {
			_, err := d.RestoreKept(ctx, want, from, func() error { return nil })
			return err
		}, func(t *testing.T) {
			settle(t, d, &want)
			if got := b.heldMariaDB(t, want.Cluster); got != "one" {
				t.Errorf("it holds %q", got)
			}
			if err := d.Undo(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			settle(t, d, &want)
			if got := b.heldMariaDB(t, want.Cluster); got != "two" {
				t.Errorf("undone, it holds %q", got)
			}
			b.mustBeAloneMariaDB(t, want)
		}},
		{"fork", func(*testing.T) {
			begin()
			from.AdminPassword = b.secrets.Text(want.ID, platform.AdminPassword)
		}, func(ctx context.Context, d *kubernetes.Driver) error {
			_, err := d.ForkKept(ctx, fork, from)
			return err
		}, func(t *testing.T) {
			settle(t, d, &fork)
			if got := b.heldMariaDB(t, fork.Cluster); got != "one" {
				t.Errorf("it holds %q", got)
			}
			b.mustBeAloneMariaDB(t, fork)
			if err := d.Remove(t.Context(), fork.Cluster); err != nil {
				t.Fatal(err)
			}
			fork.Hosts = cluster.Hosts{}
		}},
		{"proof", func(*testing.T) { begin() }, func(ctx context.Context, d *kubernetes.Driver) error { return d.VerifyKept(ctx, want, from) }, func(t *testing.T) {
			b.mustBeAloneMariaDB(t, want)
		}},
		{"removal", func(t *testing.T) { settle(t, d, &fork) }, func(ctx context.Context, d *kubernetes.Driver) error {
			return d.Remove(ctx, fork.Cluster)
		}, func(t *testing.T) {
			if left := b.leftovers(t, fork.ID); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			fork.Hosts = cluster.Hosts{}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tries := []int{testdir.Rand(t, "writes").IntN(7), 0} // one, another each time; the first of all where there are fewer
			if enginetest.Thorough() {
				tries = nil
				for writes := range 100 {
					tries = append(tries, writes)
				}
			}
			for _, writes := range tries {
				c.prepare(t)
				dies, dead := b.dying(t, writes)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				err := c.do(ctx, dies)
				cancel()
				dies.Close()
				if !dead() && err != nil {
					t.Fatalf("after %d writes, alive: %v", writes, err)
				}
				if err := c.do(t.Context(), d); err != nil {
					t.Fatalf("once steward died after %d writes: %v", writes, err)
				}
				c.check(t)
				if t.Failed() {
					t.Fatalf("steward died after %d writes", writes)
				}
				if dead() != enginetest.Thorough() {
					return
				}
			}
		})
	}
}
