package recovery_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/operation"
	"steward/internal/parameter"
	"steward/internal/pgtest"
	"steward/internal/platform"
	"steward/internal/recovery"
	"steward/internal/seal"
	"steward/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var ports = [2]int{21000, 21010}

// world is a server that is going to be lost, and what it leaves.
type world struct {
	t       *testing.T
	dir     string
	store   *store.Store
	archive *archive.Archive
	sealer  *seal.Sealer
	keeper  *recovery.Keeper
	key     []byte
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), store: pgtest.Store(t), sealer: newSealer(t)}
	var err error
	if w.archive, err = archive.Open(t.Context(), archive.Options{URL: "file://" + w.dir, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if w.key, err = archive.NewKey(); err != nil {
		t.Fatal(err)
	}
	w.keeper = recovery.NewKeeper(w.store, w.archive, w.sealer)
	return w
}

func newSealer(t *testing.T) *seal.Sealer {
	t.Helper()
	s, err := seal.Open(t.Context(), filepath.Join(t.TempDir(), "seal.key"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// database makes one of a label, granted to a user, whose CA is its own.
func (w *world) database(label string) cluster.Cluster {
	w.t.Helper()
	var c cluster.Cluster
	err := w.store.InTx(w.t.Context(), func(tx *store.Tx) error {
		admin, err := tx.EnsureAdmin(w.t.Context())
		if err != nil {
			return err
		}
		c, err = tx.CreateCluster(w.t.Context(), cluster.Cluster{Account: admin.Account, Spec: cluster.Spec{
			Label: label, Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: "small", Size: 1, Replication: cluster.ReplicationNone,
			Commit: cluster.CommitLocal, AllowList: cluster.AllowList{"10.0.0.0/8"}, Updates: cluster.DefaultWindow(1),
			Config: parameter.Config{"work_mem": int64(8), "pg.jit": true},
		}}, map[platform.SecretName][]byte{
			platform.RootPassword: []byte("root of " + label), platform.CACert: []byte("CA of " + label + time.Now().String()),
			platform.BackupKey: w.key, platform.Keyring: []byte("ring"),
		}, store.Ports{First: ports[0], Last: ports[1]})
		if err != nil {
			return err
		}
		u, err := tx.CreateUser(w.t.Context(), account.User{Account: admin.Account, Username: "reads-" + label, Email: "r@example.com", Restricted: true})
		if err != nil {
			return err
		}
		return tx.SetGrant(w.t.Context(), u, c.ID, account.ReadOnly)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// backUp puts a backup into the bucket and the record beside it.
func (w *world) backUp(c cluster.Cluster, id backup.ID, label string) {
	w.t.Helper()
	m := archive.Manifest{
		Cluster: c.ID, Backup: id, Database: c.Label, Label: label, Type: backup.Snapshot, Engine: c.Engine, Series: c.Series, Created: time.Now(),
	}
	_, err := w.archive.Put(w.t.Context(), m, w.key, func(out io.Writer) (platform.Copy, error) {
		_, err := io.WriteString(out, strings.Repeat(label, 1000))
		return platform.Copy{Installation: "postgresql-15.18-debian", ServerVersion: "15.18"}, err
	})
	if err == nil {
		err = w.keeper.Save(w.t.Context(), c.ID)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// recoverer is that of another server, empty unless a store is given.
func (w *world) recoverer(s *store.Store, change ...func(*recovery.Options)) *recovery.Recoverer {
	o := recovery.Options{
		Store: s, Archive: w.archive, Sealer: w.sealer, Ports: ports,
		Catalog: &catalog.Catalog{Plans: []catalog.Plan{{ID: "small"}}, Regions: []catalog.Region{{ID: "local"}}},
		Runs:    func(cluster.Engine, string, string) error { return nil },
	}
	for _, c := range change {
		c(&o)
	}
	return recovery.New(o)
}

func (w *world) only(r *recovery.Recoverer) recovery.Found {
	w.t.Helper()
	all, err := r.List(w.t.Context())
	if err != nil || len(all) != 1 {
		w.t.Fatalf("%+v, %v", all, err)
	}
	return all[0]
}

func TestRecover(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.database("another")
	c := w.database("one")
	w.backUp(c, 5, "older")
	w.backUp(c, 9, "newer")
	fresh := pgtest.Store(t)
	r := w.recoverer(fresh)
	o, err := r.Recover(t.Context(), w.only(r), 0)
	if err != nil || !o.Begun || o.Backup != 9 || o.ID != c.ID || o.Port != c.Port || o.Status != cluster.Restoring || o.Label != "one" {
		t.Fatalf("%+v, %v", o, err)
	}
	if got := o.Config.Text(); got != `{"pg.jit":true,"work_mem":8}` {
		t.Errorf("settings: %s", got)
	}
	if got, err := fresh.Secrets(t.Context(), c.ID); err != nil || string(got[platform.RootPassword]) != "root of one" || got[platform.Keyring] != nil {
		t.Errorf("secrets: %q, %v", got, err)
	}
	if kept, err := fresh.BackupsOf(t.Context(), c.ID); err != nil || len(kept) != 2 || kept[0].Label != "newer" {
		t.Errorf("backups: %+v, %v", kept, err)
	}
	if users, err := fresh.Grantees(t.Context(), c.ID); err != nil || len(users) != 1 || users[0].Username != "reads-one" || !users[0].Restricted {
		t.Errorf("users: %+v, %v", users, err)
	}
	again, err := r.Recover(t.Context(), w.only(r), 0)
	if err != nil || again.Begun || again.Status != cluster.Restoring {
		t.Errorf("while it is being restored: %+v, %v", again, err)
	}
	going, err := fresh.UnfinishedOperations(t.Context(), c.ID)
	if err != nil || len(going) != 1 || going[0].Params.Backup != 9 || !going[0].Params.Recovered {
		t.Fatalf("%+v, %v", going, err)
	}

	// A restore that was given up is begun anew, from another backup.
	err = fresh.InTx(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Transition(t.Context(), o.Cluster, cluster.GiveUp)
		return errors.Join(err, tx.FinishOperation(t.Context(), going[0].ID, operation.FailedStatus, "no"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if o, err = r.Recover(t.Context(), w.only(r), 5); err != nil || !o.Begun || o.Backup != 5 || o.Status != cluster.Restoring {
		t.Errorf("after a failure: %+v, %v", o, err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.database("one")
	w.backUp(c, 5, "older")
	w.backUp(c, 9, "newer")
	object := filepath.Join(w.dir, "clusters", "1", "backups", "9", "data.zst.age")
	content, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	for name, refuse := range map[string]struct {
		change func(*recovery.Options)
		with   string
		damage bool
	}{
		"another key": {func(o *recovery.Options) { o.Sealer = newSealer(t) }, "another server's key", false},
		"not installed": {func(o *recovery.Options) {
			o.Runs = func(cluster.Engine, string, string) error { return errors.New("isn't installed") }
		}, "isn't installed", false},
		"unknown type":   {func(o *recovery.Options) { o.Catalog.Plans = nil }, "its type small is not in this server's catalog", false},
		"unknown region": {func(o *recovery.Options) { o.Catalog.Regions = nil }, "its region local is not in this server's catalog", false},
		"a region elsewhere": {func(o *recovery.Options) {
			o.Catalog.Regions[0].Platform.Kind = catalog.Kubernetes
		}, "its region local isn't on this host", false},
		"quota":          {func(o *recovery.Options) { o.Quotas.Databases = new(0) }, "(max_databases) would be exceeded: it is 0,", false},
		"damaged backup": {nil, "backup 9 is damaged", true},
		"label taken":    {func(o *recovery.Options) { o.Store = occupied(t, 3) }, "another database one", false},
		"id taken":       {func(o *recovery.Options) { o.Store = occupied(t, 1) }, "another database of the id 1", false},
	} {
		t.Run(name, func(t *testing.T) {
			if refuse.damage {
				damaged := append([]byte{}, content...)
				damaged[len(damaged)-1] ^= 1
				write(t, object, damaged)
				defer write(t, object, content)
			}
			fresh := pgtest.Store(t)
			r := w.recoverer(fresh, func(o *recovery.Options) {
				if refuse.change != nil {
					refuse.change(o)
				}
			})
			if _, err := r.Recover(t.Context(), w.only(r), 0); err == nil || !strings.Contains(err.Error(), refuse.with) {
				t.Errorf("%v", err)
			}
			if all, err := fresh.ClustersForWork(t.Context()); err != nil || len(all) > 0 {
				t.Errorf("left: %+v, %v", all, err)
			}
		})
	}
	write(t, object, content[:10])
	r := w.recoverer(pgtest.Store(t))
	if o, err := r.Recover(t.Context(), w.only(r), 5); err != nil || o.Backup != 5 {
		t.Errorf("from the older one: %+v, %v", o, err)
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// occupied is a store with a database "one" of an id.
func occupied(t *testing.T, id cluster.ID) *store.Store {
	t.Helper()
	w := &world{t: t, store: pgtest.Store(t)}
	if err := w.store.ReserveIDs(t.Context(), id-1, 0); err != nil {
		t.Fatal(err)
	}
	if c := w.database("one"); c.ID != id {
		t.Fatalf("the database got the id %d", c.ID)
	}
	return w.store
}

// TestKeeper: a record is written when it says something else, and only then.
func TestKeeper(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.database("one")
	w.backUp(c, 5, "older")
	record := func() string {
		sealed, err := w.archive.Recovery(t.Context(), c.ID)
		if err != nil {
			t.Fatal(err)
		}
		return string(sealed)
	}
	save := func(context.Context) error { return w.keeper.Save(t.Context(), c.ID) }
	first := record()
	if strings.Contains(first, "root of one") {
		t.Error("the record isn't sealed")
	}
	if err := save(t.Context()); err != nil || record() != first {
		t.Errorf("the same was written again, %v", err)
	}
	if err := w.store.SaveSecret(t.Context(), c.ID, platform.RootPassword, []byte("changed")); err != nil {
		t.Fatal(err)
	}
	if err := save(t.Context()); err != nil || record() == first {
		t.Errorf("a change wasn't written, %v", err)
	}
	if r, err := recovery.Read(t.Context(), w.archive, w.sealer, c.ID); err != nil || string(r.Secrets[platform.RootPassword]) != "changed" {
		t.Errorf("%+v, %v", r.Label, err)
	}
	// One that another key sealed is of no use to this server.
	if err := w.archive.SaveRecovery(t.Context(), c.ID, []byte(first[:len(first)-1])); err != nil {
		t.Fatal(err)
	}
	if err := w.keeper.Refresh(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := recovery.Read(t.Context(), w.archive, w.sealer, c.ID); err != nil {
		t.Error(err)
	}
	kept := record()
	if err := w.store.SaveSecret(t.Context(), c.ID, platform.RootPassword, []byte("again")); err != nil {
		t.Fatal(err)
	}
	if err := w.keeper.Refresh(t.Context(), c); err != nil || record() != kept {
		t.Errorf("a database of the same generation was looked at, %v", err)
	}
}
