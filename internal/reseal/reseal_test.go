package reseal_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"steward/internal/account"
	"steward/internal/archive"
	"steward/internal/await"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/pgtest"
	"steward/internal/platform"
	"steward/internal/recovery"
	"steward/internal/reseal"
	"steward/internal/seal"
	"steward/internal/store"
	"steward/internal/testdir"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is a server with secrets of every kind, and the operator beside it.
type world struct {
	t       *testing.T
	path    string
	url     string
	server  *store.Store
	sealer  *seal.Sealer
	archive *archive.Archive
	keeper  *recovery.Keeper
	admin   account.User
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "seal.key"), url: pgtest.MigratedURL(t)}
	w.sealer = w.process()
	w.server = w.open(w.sealer)
	var err error
	w.archive, err = archive.Open(t.Context(), archive.Options{URL: "file://" + t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	w.must(err)
	t.Cleanup(func() { w.archive.Close() })
	w.keeper = recovery.NewKeeper(w.server, w.archive, w.sealer)
	w.must(w.server.InTx(t.Context(), func(tx *store.Tx) (err error) {
		w.admin, err = tx.EnsureAdmin(t.Context())
		return err
	}))
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// process opens the keys as a process of its own does.
func (w *world) process() *seal.Sealer {
	w.t.Helper()
	s, err := seal.Open(w.t.Context(), w.path)
	w.must(err)
	return s
}

func (w *world) open(s *seal.Sealer) *store.Store {
	return pgtest.Open(w.t, store.Options{URL: w.url, Sealer: s, MaxConns: 4, Logger: slog.New(slog.DiscardHandler)})
}

// cluster makes a database with secrets, a backup and a record.
func (w *world) cluster(label string, secrets map[platform.SecretName][]byte) cluster.Cluster {
	w.t.Helper()
	var c cluster.Cluster
	w.must(w.server.InTx(w.t.Context(), func(tx *store.Tx) (err error) {
		c, err = tx.CreateCluster(w.t.Context(), cluster.Cluster{Account: w.admin.Account, Spec: cluster.Spec{
			Label: label, Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: "small", Size: 1, Replication: cluster.ReplicationNone,
			Commit: cluster.CommitLocal, AllowList: cluster.AllowList{}, Updates: cluster.DefaultWindow(1),
		}}, secrets, store.Ports{First: 21000, Last: 29000})
		return err
	}))
	return c
}

// backUp lets the archive know of the database, and keeps its record.
func (w *world) backUp(c cluster.Cluster) {
	w.t.Helper()
	key, err := archive.NewKey()
	w.must(err)
	m := archive.Manifest{Cluster: c.ID, Backup: backup.ID(c.ID), Database: c.Label, Engine: c.Engine, Series: c.Series, Created: time.Now()}
	_, err = w.archive.Put(w.t.Context(), m, key, func(out io.Writer) (platform.Copy, error) {
		_, err := io.WriteString(out, "data")
		return platform.Copy{}, err
	})
	w.must(err)
	w.must(w.keeper.Save(w.t.Context(), c.ID))
}

// rotate changes the key and seals all anew, as the operator's process does.
func (w *world) rotate() reseal.Tally {
	w.t.Helper()
	f, err := seal.ReadKeyFile(w.path)
	w.must(err)
	w.must(f.Activate())
	t, err := w.run()
	w.must(err)
	return t
}

func (w *world) run() (reseal.Tally, error) {
	s := w.process()
	r := reseal.Rotator{Store: w.open(s), Archive: w.archive, Sealer: s, Tell: func(reseal.Tally) {}}
	return r.Run(w.t.Context())
}

func (w *world) retire() {
	w.t.Helper()
	f, err := seal.ReadKeyFile(w.path)
	w.must(err)
	w.must(f.Retire())
}

// onlyTheFirstKey wants every sealed value of the store to depend on the first key.
func (w *world) onlyTheFirstKey() {
	w.t.Helper()
	f, err := seal.ReadKeyFile(w.path)
	w.must(err)
	for _, in := range store.AllSealed {
		all, err := w.server.SealedAfter(w.t.Context(), store.SealedValue{In: in}, 10_000)
		w.must(err)
		for _, v := range all {
			if got := w.sealer.Version(v.Value); got != f.IDs()[0] {
				w.t.Errorf("%s depends on %q, not on %s", v.Place(), got, f.IDs()[0])
			}
		}
	}
}

// TestARotationChangesNoValue, whatever the values are, and leaves none to the
// old key.
func TestARotationChangesNoValue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []platform.SecretName{platform.RootPassword, platform.CAKey, platform.Keyring, "keyring/1"}
	want := map[cluster.ID]map[platform.SecretName][]byte{}
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		secrets := map[platform.SecretName][]byte{platform.CACert: []byte("a CA")}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(r, "names") {
			secrets[name] = rapid.SliceOf(rapid.Byte()).Draw(r, "value")
		}
		c := w.cluster(fmt.Sprintf("db-%d", n), secrets)
		want[c.ID] = secrets
		if n%40 == 0 {
			w.backUp(c)
			w.rotate()
			w.retire()
		}
	})
	total := 0
	for _, secrets := range want {
		total += len(secrets)
	}
	tally := w.rotate()
	if tally.Resealed < total || tally.Values < total || len(tally.Foreign)+len(tally.Stuck) > 0 {
		t.Errorf("%+v of %d", tally, total)
	}
	if again, err := w.run(); err != nil || again.Resealed != 0 {
		t.Errorf("sealed anew what was new: %+v, %v", again, err)
	}
	w.onlyTheFirstKey()
	w.retire()
	for name, s := range map[string]*store.Store{"the running server": w.server, "a new one": w.open(w.process())} {
		for id, secrets := range want {
			got, err := s.Secrets(t.Context(), id)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for secret, value := range secrets {
				if string(got[secret]) != string(value) {
					t.Fatalf("%s: %s of %d is %q, want %q", name, secret, id, got[secret], value)
				}
			}
		}
	}
}

// TestServersGoOnDuringRotations: they write and read all secrets of all kinds
// while the key changes again and again, and notice nothing.
func TestServersGoOnDuringRotations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	servers := []*store.Store{w.server, w.open(w.process())}
	var clusters []cluster.Cluster
	for n := range 30 {
		c := w.cluster(fmt.Sprintf("db-%d", n), map[platform.SecretName][]byte{platform.CACert: []byte("CA"), platform.RootPassword: []byte("0")})
		clusters = append(clusters, c)
		if n%6 == 0 {
			w.backUp(c)
		}
	}
	principal := account.Principal{Account: w.admin.Account, User: w.admin}
	credentials := control.New(control.Deps{Store: servers[1]}).ManagedCredentials
	made, err := credentials.Create(t.Context(), principal, "router", control.LoginChange{Password: new(seal.NewSecret("kept"))}, nil)
	w.must(err)

	var stop atomic.Bool
	var wg sync.WaitGroup
	var turns [4]atomic.Int32
	busy := func(i int, do func(n int) error) {
		wg.Go(func() {
			for n := 1; !stop.Load() && !t.Failed(); n++ {
				if err := do(n); err != nil {
					t.Errorf("worker %d: %v", i, err)
					return
				}
				turns[i].Add(1)
			}
		})
	}
	last := make([]string, len(clusters))
	for i := range 2 { // each writes its half, and reads its own writes by the other server
		random := testdir.Rand(t, fmt.Sprint("writer ", i))
		busy(i, func(n int) error {
			at := 2*random.IntN(len(clusters)/2) + i
			value := fmt.Sprintf("%d by %d", n, i)
			if err := servers[i].SaveSecret(context.Background(), clusters[at].ID, platform.RootPassword, []byte(value)); err != nil {
				return err
			}
			last[at] = value
			got, err := servers[1-i].Secret(context.Background(), clusters[at].ID, platform.RootPassword)
			if err == nil && string(got) != value {
				err = fmt.Errorf("read %q after writing %q", got, value)
			}
			return err
		})
	}
	busy(2, func(int) error { return w.keeper.Save(context.Background(), clusters[0].ID) })
	busy(3, func(int) error {
		login, err := credentials.Reveal(context.Background(), made.ID, "alice", "a test")
		if err == nil && login.Password.Reveal() != "kept" {
			err = errors.New("the credential has changed")
		}
		return err
	})
	for range 5 {
		before := [4]int32{}
		for i := range turns {
			before[i] = turns[i].Load()
		}
		w.rotate() // the old keys stay: what is under way may depend on them
		for i := range turns {
			await.True(t, fmt.Sprintf("worker %d goes on", i), func() bool { return turns[i].Load() >= before[i]+2 || t.Failed() })
		}
	}
	stop.Store(true)
	wg.Wait()
	_, err = w.run() // what was written at the very end of a rotation
	w.must(err)
	w.retire()
	w.onlyTheFirstKey()
	fresh := w.open(w.process())
	for i, c := range clusters {
		want := last[i]
		if want == "" {
			want = "0"
		}
		if got, err := fresh.Secret(t.Context(), c.ID, platform.RootPassword); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", c.Label, got, err, want)
		}
	}
}

// TestRecordsFollowTheKey: a lost server comes back with the key that is in use,
// and with the old one alone it is refused in clear words; so are records of
// databases that the store has forgotten.
func TestRecordsFollowTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here := w.cluster("here", map[platform.SecretName][]byte{platform.CACert: []byte("CA"), platform.RootPassword: []byte("old")})
	gone := w.cluster("gone", map[platform.SecretName][]byte{platform.CACert: []byte("CA"), platform.RootPassword: []byte("kept")})
	w.backUp(here)
	w.backUp(gone)
	_, err := w.server.Pool().Exec(t.Context(), "DELETE FROM clusters WHERE id = $1", gone.ID)
	w.must(err)
	w.must(w.server.SaveSecret(t.Context(), here.ID, platform.RootPassword, []byte("new")))
	foreign := cluster.ID(99)
	other, err := seal.Open(t.Context(), filepath.Join(t.TempDir(), "other.key"))
	w.must(err)
	stranger, err := other.Seal(t.Context(), []byte("{}"), recovery.Place(foreign))
	w.must(err)
	w.must(w.archive.SaveRecovery(t.Context(), foreign, stranger))
	before, err := os.ReadFile(w.path)
	w.must(err)

	w.rotate()
	w.retire()
	oldPath := filepath.Join(t.TempDir(), "seal.key")
	w.must(os.WriteFile(oldPath, before, 0o600))
	old, err := seal.Open(t.Context(), oldPath)
	w.must(err)
	for id, password := range map[cluster.ID]string{here.ID: "new", gone.ID: "kept"} {
		r, err := recovery.Read(t.Context(), w.archive, w.process(), id)
		if err != nil || string(r.Secrets[platform.RootPassword]) != password {
			t.Errorf("with the new key: %s has %q, %v", r.Label, r.Secrets[platform.RootPassword], err)
		}
		if _, err := recovery.Read(t.Context(), w.archive, old, id); !errors.Is(err, seal.ErrUnreadable) {
			t.Errorf("with the old key: %v", err)
		}
	}
	found, err := recovery.New(recovery.Options{Archive: w.archive, Sealer: old}).List(t.Context())
	if err != nil || len(found) != 2 || found[0].Problem == nil || !strings.Contains(found[0].Problem.Error(), "before or after a rotation") {
		t.Errorf("%+v, %v", found, err)
	}
	if got, err := w.archive.Recovery(t.Context(), foreign); err != nil || string(got) != string(stranger) {
		t.Errorf("another's record was touched: %v", err)
	}
}

// TestDamagedAndForeignValuesAreNamed and left as they are.
func TestDamagedAndForeignValuesAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.cluster("db", map[platform.SecretName][]byte{platform.CACert: []byte("CA"), platform.RootPassword: []byte("x"), platform.CAKey: []byte("y")})
	other, err := seal.Open(t.Context(), filepath.Join(t.TempDir(), "other.key"))
	w.must(err)
	stranger, err := other.Seal(t.Context(), []byte("x"), "y")
	w.must(err)
	for name, change := range map[platform.SecretName][]any{
		platform.RootPassword: {"set_byte(sealed, length(sealed) - 1, get_byte(sealed, length(sealed) - 1) # 1)"},
		platform.CAKey:        {"$3", stranger},
	} {
		args := append([]any{c.ID, name}, change[1:]...)
		_, err := w.server.Pool().Exec(t.Context(), "UPDATE cluster_secrets SET sealed = "+change[0].(string)+" WHERE cluster_id = $1 AND name = $2", args...)
		w.must(err)
	}
	tally := w.rotate()
	place := func(name platform.SecretName) []string { return []string{fmt.Sprintf("cluster/%d/%s", c.ID, name)} }
	want := reseal.Tally{Values: 3, Resealed: 1, Stuck: place(platform.RootPassword), Foreign: place(platform.CAKey)}
	if diff := cmp.Diff(want, tally); diff != "" {
		t.Error(diff)
	}
}

// TestNoSealedColumnIsForgotten: who adds one says here how it follows the key.
func TestNoSealedColumnIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows, err := w.server.Pool().Query(t.Context(), `SELECT table_name || '.' || column_name FROM information_schema.columns
		WHERE table_schema = 'public' AND data_type = 'bytea' AND column_name LIKE '%sealed%' ORDER BY 1`)
	w.must(err)
	var found []string
	for rows.Next() {
		var name string
		w.must(rows.Scan(&name))
		found = append(found, name)
	}
	w.must(rows.Err())
	want := []string{
		"account_keys.sealed", "cluster_secrets.sealed", "second_factors.sealed", // sealed anew
		// by a data key of account_keys
		"alert_channels.sealed_secret", "alert_channels.sealed_url", "credentials.sealed_password", "credentials.sealed_username", "migrations.sealed_password",
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
}

// TestASecondFactorIsSealedAnew, and opens with the new key alone.
func TestASecondFactorIsSealedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var user account.User
	w.must(w.server.InTx(t.Context(), func(tx *store.Tx) (err error) {
		if user, err = tx.EnsureAdmin(t.Context()); err != nil {
			return err
		}
		_, err = tx.StartFactor(t.Context(), user.ID, "a secret")
		return err
	}))
	if tally := w.rotate(); tally.Resealed != 1 || len(tally.Foreign)+len(tally.Stuck) > 0 {
		t.Errorf("%+v", tally)
	}
	w.onlyTheFirstKey()
	w.retire()
	w.must(w.open(w.process()).InTx(t.Context(), func(tx *store.Tx) error {
		f, err := tx.LockFactor(t.Context(), user.ID)
		if f.Secret != "a secret" {
			t.Errorf("the secret is %q", f.Secret)
		}
		return err
	}))
}
