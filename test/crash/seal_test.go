package crash

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/pgtest"
	"steward/internal/platform"
	"steward/internal/recovery"
	"steward/internal/seal"
	"steward/internal/store"
	"steward/internal/testdir"
	"steward/test/harness"
)

// rotation is a server of this process, whose key a process beside it changes.
type rotation struct {
	t       *testing.T
	data    string
	url     string
	store   *store.Store
	archive *archive.Archive
	ids     []cluster.ID
	// secrets are a few batches of each database's.
	secrets map[platform.SecretName][]byte
}

func newRotation(t *testing.T) *rotation {
	t.Helper()
	r := &rotation{t: t, data: t.TempDir(), url: pgtest.MigratedURL(t), secrets: map[platform.SecretName][]byte{platform.CACert: []byte("CA")}}
	for i := range 120 {
		sum := sha256.Sum256([]byte{byte(i)})
		r.secrets[platform.SecretName(fmt.Sprintf("%s/%d", platform.Keyring, i))] = sum[:]
	}
	var sealer *seal.Sealer
	sealer, r.store = r.open()
	var err error
	folder := filepath.Join(r.data, "backups")
	must(t, os.MkdirAll(folder, 0o700))
	r.archive, err = archive.Open(t.Context(), archive.Options{URL: "file://" + folder, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { r.archive.Close() })
	for n := range 2 {
		r.ids = append(r.ids, r.database(fmt.Sprintf("db-%d", n), sealer))
	}
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open is what a new server process does.
func (r *rotation) open() (*seal.Sealer, *store.Store) {
	r.t.Helper()
	sealer, err := seal.Open(r.t.Context(), filepath.Join(r.data, "seal.key"))
	must(r.t, err)
	return sealer, pgtest.Open(r.t, store.Options{URL: r.url, Sealer: sealer, Logger: slog.New(slog.DiscardHandler)})
}

// database makes one with a backup and a recovery record.
func (r *rotation) database(label string, sealer *seal.Sealer) cluster.ID {
	r.t.Helper()
	ctx := r.t.Context()
	var c cluster.Cluster
	must(r.t, r.store.InTx(ctx, func(tx *store.Tx) error {
		admin, err := tx.EnsureAdmin(ctx)
		if err != nil {
			return err
		}
		c, err = tx.CreateCluster(ctx, cluster.Cluster{Account: admin.Account, Spec: cluster.Spec{
			Label: label, Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: "small", Size: 1, Replication: cluster.ReplicationNone,
			Commit: cluster.CommitLocal, AllowList: cluster.AllowList{}, Updates: cluster.DefaultWindow(1),
		}}, r.secrets, store.Ports{First: 21000, Last: 21010})
		return err
	}))
	key, err := archive.NewKey()
	must(r.t, err)
	m := archive.Manifest{Cluster: c.ID, Backup: backup.ID(c.ID), Database: label, Engine: c.Engine, Series: c.Series, Created: time.Now()}
	_, err = r.archive.Put(ctx, m, key, func(out io.Writer) (platform.Copy, error) {
		_, err := io.WriteString(out, "data")
		return platform.Copy{}, err
	})
	must(r.t, err)
	must(r.t, recovery.NewKeeper(r.store, r.archive, sealer).Save(ctx, c.ID))
	return c.ID
}

// command runs one step, killed at its nth failpoint; 0: not at all. Each of them is logged.
func (r *rotation) command(n int, args ...string) (killed bool) {
	r.t.Helper()
	cmd := exec.Command(harness.Binary(r.t, "failpoint"), append([]string{"seal", "rotate", "--data", r.data, "--store", r.url, "--grace", "0s"}, args...)...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("STEWARD_FAILPOINT=%d", n), "STEWARD_FAILPOINT_LOG="+r.hits())
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 0 && n > 0 {
		return true
	}
	if err != nil {
		r.t.Fatalf("seal rotate %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return false
}

// hits is the file that each failpoint adds a line to.
func (r *rotation) hits() string { return filepath.Join(r.data, "hits") }

// step runs one step, killed at its nth failpoint, and goes on with what is left of it. It returns how many failpoints there were until then.
func (r *rotation) step(n int, args ...string) (found int, killed bool) {
	r.t.Helper()
	before, err := os.ReadFile(filepath.Join(r.data, "seal.key"))
	must(r.t, err)
	if slices.Contains(args, "--retire") {
		r.command(0)
	}
	must(r.t, os.WriteFile(r.hits(), nil, 0o600))
	killed = r.command(n, args...)
	hits, err := os.ReadFile(r.hits())
	must(r.t, err)
	r.check(fmt.Sprintf("%v killed at step %d", args, n))
	r.command(0)
	r.command(0, "--retire")
	r.check(fmt.Sprintf("%v gone on with after step %d", args, n))
	after, err := os.ReadFile(filepath.Join(r.data, "seal.key"))
	must(r.t, err)
	if bytes.Count(after, []byte("\n")) != 1 || bytes.Equal(before, after) {
		r.t.Fatalf("%v, step %d: the key file isn't one new key", args, n)
	}
	return bytes.Count(hits, []byte("\n")), killed
}

// check wants every value as it was, from the server that runs and from a new
// one, and the records of the lost ones.
func (r *rotation) check(when string) {
	r.t.Helper()
	sealer, fresh := r.open()
	defer fresh.Close()
	for name, s := range map[string]*store.Store{"the running server": r.store, "a new one": fresh} {
		for _, id := range r.ids {
			got, err := s.Secrets(r.t.Context(), id)
			if err != nil {
				r.t.Fatalf("%s: %s: %v", when, name, err)
			}
			for secret, value := range r.secrets {
				if !bytes.Equal(got[secret], value) {
					r.t.Fatalf("%s: %s: %s of %d has changed", when, name, secret, id)
				}
			}
		}
	}
	for _, id := range r.ids {
		if _, err := recovery.Read(r.t.Context(), r.archive, sealer, id); err != nil {
			r.t.Fatalf("%s: %v", when, err)
		}
	}
}

// TestSealRotateThorough kills `steward seal rotate` at some of its steps, at all of them when STEWARD_CRASH is all,
// while a server writes and reads. After each kill all values open; the next run goes on, and
// at the end the old key is gone and nothing depends on it.
func TestSealRotateThorough(t *testing.T) {
	t.Parallel()
	const kills = 3
	r := newRotation(t)
	ctx, stop := context.WithCancel(t.Context())
	var server sync.WaitGroup
	defer server.Wait()
	defer stop()
	server.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			value := fmt.Appendf(nil, "password %d", n)
			err := r.store.SaveSecret(ctx, r.ids[0], platform.RootPassword, value)
			got, errRead := r.store.Secret(ctx, r.ids[0], platform.RootPassword)
			if ctx.Err() == nil && (err != nil || errRead != nil || !bytes.Equal(got, value)) {
				t.Errorf("the server wrote %q and read %q: %v, %v", value, got, err, errRead)
				return
			}
			time.Sleep(5 * time.Millisecond) // a server's pace: the command beside it needs the processor, too
		}
	})
	all := 0
	for _, args := range [][]string{nil, {"--retire"}, {"--introduce"}} {
		found, _ := r.step(0, args...)
		all += found
		stride := max(1, (found+kills-1)/kills)
		if harness.Everything() {
			stride = 1
		}
		killed := 0
		for n := 1 + testdir.Rand(t, fmt.Sprint(args)).IntN(stride); n <= found; n += stride {
			if _, died := r.step(n, args...); died {
				killed++
			}
		}
		if killed == 0 {
			t.Errorf("%v was killed at none of its %d steps", args, found)
		}
		t.Logf("%v: killed at %d of %d steps", args, killed, found)
	}
	const least = 15
	if all < least {
		t.Errorf("there are only %d steps to be killed at: the failpoints are gone", all)
	}
}
