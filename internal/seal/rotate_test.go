package seal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func keyFileAt(t rapid.TB, path string) *KeyFile {
	t.Helper()
	f, err := ReadKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sealed(t rapid.TB, s *Sealer, value string) []byte {
	t.Helper()
	b, err := s.Seal(context.Background(), []byte(value), "place")
	must(t, err)
	return b
}

func opens(t rapid.TB, s *Sealer, b []byte, want string) {
	t.Helper()
	if got, err := s.Unseal(context.Background(), b, "place"); err != nil || string(got) != want {
		t.Fatalf("opened %q, %v; want %q", got, err, want)
	}
}

// TestAnOpenKeyFileFollowsARotation: a process that runs all the while seals with
// the key that the file puts first, and opens what any of its keys sealed.
func TestAnOpenKeyFileFollowsARotation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seal.key")
	server := open(t, path)
	before := sealed(t, server, "before")
	first := server.Version(before)
	old, err := os.ReadFile(path)
	must(t, err)

	file := keyFileAt(t, path)
	must(t, file.Introduce())
	if !file.Introduced() || !slices.Equal(file.IDs(), keyFileAt(t, path).IDs()) || len(file.IDs()) != 2 {
		t.Fatalf("introduced: %v", file.IDs())
	}
	if v := server.Version(sealed(t, server, "x")); v != first {
		t.Errorf("a key that was only introduced seals: %s", v)
	}
	must(t, file.Activate())
	elsewhere := sealed(t, open(t, path), "of another process")
	opens(t, server, elsewhere, "of another process")
	after := sealed(t, server, "after")
	second := server.Version(after)
	if second == first || second == "" || server.Version(elsewhere) != second || second != file.IDs()[0] {
		t.Errorf("sealed with %s, before %s, elsewhere %s, file %v", second, first, server.Version(elsewhere), file.IDs())
	}
	opens(t, server, before, "before")
	opens(t, open(t, path), before, "before")
	if v, err := server.InUse(t.Context()); err != nil || v != second {
		t.Errorf("in use %s, %v", v, err)
	}

	must(t, keyFileAt(t, path).Retire())
	opens(t, server, sealed(t, server, "later"), "later")
	opens(t, open(t, path), after, "after")
	if _, err := open(t, path).Unseal(t.Context(), before, "place"); !errors.Is(err, ErrUnreadable) {
		t.Errorf("the retired key's value opened: %v", err)
	}
	oldPath := filepath.Join(t.TempDir(), "old.key")
	must(t, os.WriteFile(oldPath, old, 0o600))
	alone := open(t, oldPath)
	if _, err := alone.Unseal(t.Context(), after, "place"); !errors.Is(err, ErrUnreadable) || alone.Version(after) != "" {
		t.Errorf("the old key alone opened the new one's value: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestABrokenKeyFileStopsNoServer: one that runs goes on with the keys it knows.
func TestABrokenKeyFileStopsNoServer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seal.key")
	server := open(t, path)
	before := sealed(t, server, "before")
	foreign := sealed(t, inNewFile(t), "foreign")
	good, err := os.ReadFile(path)
	must(t, err)
	for name, damage := range map[string]func() error{
		"half":   func() error { return os.WriteFile(path, []byte("AAAA"), 0o600) },
		"empty":  func() error { return os.WriteFile(path, nil, 0o600) },
		"public": func() error { return os.Chmod(path, 0o644) },
		"gone":   func() error { return os.Remove(path) },
	} {
		must(t, os.WriteFile(path, good, 0o600))
		must(t, damage())
		opens(t, server, before, "before")
		opens(t, server, sealed(t, server, name), name)
		if _, err := server.Unseal(t.Context(), foreign, "place"); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnyOrderOfStepsKeepsValues: whatever servers and the operator do in which
// order, no value is lost or changed, as long as only retired keys' values were
// sealed anew before.
func TestAnyOrderOfStepsKeepsValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		dir, err := os.MkdirTemp("", "seal-")
		must(r, err)
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "seal.key")
		process := func() *Sealer {
			s, err := Open(context.Background(), path)
			must(r, err)
			return s
		}
		servers := []*Sealer{process(), process()}
		values := map[string][]byte{}
		for step := range rapid.IntRange(1, 25).Draw(r, "steps") {
			server := rapid.SampledFrom(servers).Draw(r, "server")
			file := keyFileAt(r, path)
			switch rapid.SampledFrom([]string{"seal", "seal", "open", "restart", "introduce", "activate", "retire"}).Draw(r, "step") {
			case "seal":
				value := fmt.Sprintf("%d %s", step, rapid.String().Draw(r, "value"))
				values[value] = sealed(r, server, value)
				if got := server.Version(values[value]); got != file.IDs()[0] {
					r.Fatalf("sealed with %s, not the first of %v", got, file.IDs())
				}
			case "open":
				for value, b := range values {
					opens(r, server, b, value)
				}
			case "restart":
				servers[0] = process()
			case "introduce":
				if !file.Introduced() {
					must(r, file.Introduce())
				}
			case "activate":
				must(r, file.Activate())
			case "retire":
				if file.Introduced() {
					break
				}
				for value, b := range values {
					opens(r, server, b, value)
					values[value] = sealed(r, server, value)
				}
				must(r, file.Retire())
			}
		}
		for value, b := range values {
			opens(r, process(), b, value)
		}
	})
}

// TestServersSealDuringRotations at full speed, and open each other's values.
func TestServersSealDuringRotations(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seal.key")
	servers := []*Sealer{open(t, path), open(t, path), open(t, path)}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				value := fmt.Sprintf("%d of %d", n, i)
				b, err := s.Seal(context.Background(), []byte(value), "place")
				if err != nil {
					t.Error(err)
					return
				}
				other := servers[(i+1)%len(servers)]
				if got, err := other.Unseal(context.Background(), b, "place"); err != nil || string(got) != value {
					t.Errorf("%q, %v; want %q", got, err, value)
					return
				}
			}
		})
	}
	for range 50 { // never retired: what is under way may depend on any
		must(t, keyFileAt(t, path).Activate())
	}
	stop.Store(true)
	wg.Wait()
}

// vault answers as its transit engine does, with a key that can be rotated.
type vault struct {
	version atomic.Int32
	away    atomic.Bool
	asked   atomic.Int32
}

func (v *vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct{ Plaintext, Ciphertext string }
	if v.away.Load() || json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusBadRequest) // the client tries again after others
		return
	}
	v.asked.Add(1)
	if strings.Contains(r.URL.Path, "/encrypt/") {
		fmt.Fprintf(w, `{"data":{"ciphertext":"vault:v%d:%s"}}`, v.version.Load(), body.Plaintext)
		return
	}
	parts := strings.SplitN(body.Ciphertext, ":", 3)
	fmt.Fprintf(w, `{"data":{"plaintext":%q}}`, parts[2])
}

// TestAKeyServicesNewKeyIsNoticed, within the time between two looks, and a
// service that is away then stops nobody.
func TestAKeyServicesNewKeyIsNoticed(t *testing.T) {
	v := &vault{}
	v.version.Store(1)
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	t.Setenv("VAULT_SERVER_URL", server.URL)
	t.Setenv("VAULT_SERVER_TOKEN", "token")
	const where = "hashivault://steward"
	opens(t, open(t, where), sealed(t, open(t, where), "v"), "v")
	keeper, err := openKeeper(t.Context(), where)
	must(t, err)
	s := newSealer(&service{keeper, 0})
	t.Cleanup(func() { s.Close() })
	first := sealed(t, s, "first")
	if got := s.Version(first); got != "v1" {
		t.Fatalf("version %q", got)
	}
	again := sealed(t, s, "again")
	_, one, _, _ := split(first)
	_, two, _, _ := split(again)
	if string(one) != string(two) {
		t.Error("a look that found no newer key changed the data key")
	}
	v.version.Store(2)
	if got := s.Version(sealed(t, s, "second")); got != "v2" {
		t.Errorf("after the service's rotation: %q", got)
	}
	opens(t, s, first, "first")
	v.away.Store(true)
	opens(t, s, sealed(t, s, "while it is away"), "while it is away")
	v.away.Store(false)
	v.version.Store(3)
	if got, err := s.InUse(t.Context()); err != nil || got != "v3" {
		t.Errorf("in use %q, %v", got, err)
	}
	unhurried := newSealer(&service{keeper, time.Hour})
	before := v.asked.Load()
	for range 10 {
		sealed(t, unhurried, "x")
	}
	if asked := v.asked.Load() - before; asked != 1 {
		t.Errorf("asked %d times within the hour", asked)
	}
	const key = "base64key://smGbjm71Nxd1Ig5FS0wj9SlbzAIrnolCz9bQQ6uAhl4="
	if got, err := open(t, key).InUse(t.Context()); err != nil || got != "" {
		t.Errorf("a service that doesn't tell: %q, %v", got, err)
	}
}
