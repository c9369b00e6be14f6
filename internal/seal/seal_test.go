package seal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gocloud.dev/gcerrors"
	"gocloud.dev/secrets"
	"gocloud.dev/secrets/localsecrets"
	"pgregory.net/rapid"
)

func open(t testing.TB, where string) *Sealer {
	t.Helper()
	s, err := Open(context.Background(), where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func inNewFile(t testing.TB) *Sealer { return open(t, filepath.Join(t.TempDir(), "seal.key")) }

func TestSealedValuesOpenInTheirPlaceOnly(t *testing.T) {
	t.Parallel()
	s := inNewFile(t)
	rapid.Check(t, func(r *rapid.T) {
		value := rapid.SliceOf(rapid.Byte()).Draw(r, "value")
		place := rapid.String().Draw(r, "place")
		other := rapid.String().Filter(func(o string) bool { return o != place }).Draw(r, "other")
		sealed, err := s.Seal(r.Context(), value, place)
		if err != nil {
			r.Fatal(err)
		}
		if len(value) >= 8 && bytes.Contains(sealed, value) {
			r.Fatal("the sealed value shows the value")
		}
		got, err := s.Unseal(r.Context(), sealed, place)
		if err != nil || !bytes.Equal(got, value) {
			r.Fatalf("got %q, %v; want %q", got, err, value)
		}
		if got, err := s.Unseal(r.Context(), sealed, other); !errors.Is(err, ErrUnreadable) || got != nil {
			r.Fatalf("opened in another place: %q, %v", got, err)
		}
	})
}

func TestEveryChangedByteIsNoticed(t *testing.T) {
	t.Parallel()
	s := inNewFile(t)
	const value = "correct horse battery staple"
	sealed, err := s.Seal(t.Context(), []byte(value), "place")
	if err != nil {
		t.Fatal(err)
	}
	unreadable := func(changed []byte) {
		t.Helper()
		got, err := s.Unseal(t.Context(), changed, "place")
		if !errors.Is(err, ErrUnreadable) || got != nil {
			t.Fatalf("%x opened as %q, %v", changed, got, err)
		}
		if strings.Contains(err.Error(), value) {
			t.Fatalf("the error shows the value: %v", err)
		}
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 0x40
		unreadable(changed)
		unreadable(sealed[:i])
	}
	unreadable(append(bytes.Clone(sealed), 0))
}

func TestNoTwoSealedValuesAreAlike(t *testing.T) {
	t.Parallel()
	s := inNewFile(t)
	seen := map[string]bool{}
	for range 100 {
		sealed, err := s.Seal(t.Context(), []byte("same"), "same")
		if err != nil {
			t.Fatal(err)
		}
		if seen[string(sealed)] {
			t.Fatal("two values were sealed with the same nonce")
		}
		seen[string(sealed)] = true
	}
}

func TestAnotherProcessOpensAndAnotherKeyDoesNot(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seal.key")
	sealed, err := open(t, path).Seal(t.Context(), []byte("kept"), "here")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, path).Unseal(t.Context(), sealed, "here"); err != nil || string(got) != "kept" {
		t.Fatalf("after a restart: %q, %v", got, err)
	}
	if got, err := inNewFile(t).Unseal(t.Context(), sealed, "here"); !errors.Is(err, ErrUnreadable) || got != nil {
		t.Fatalf("with another key: %q, %v", got, err)
	}
}

func TestAnUnknownFormatIsNamed(t *testing.T) {
	t.Parallel()
	_, err := inNewFile(t).Unseal(t.Context(), []byte{9, 0, 0, 1, 2, 3}, "x")
	if !errors.Is(err, ErrUnreadable) || !strings.Contains(err.Error(), "format 9") {
		t.Fatalf("got %v", err)
	}
}

// counted is a real keeper that counts its calls.
type counted struct {
	keeper             *secrets.Keeper
	encrypts, decrypts atomic.Int32
}

func (c *counted) Encrypt(ctx context.Context, b []byte) ([]byte, error) {
	c.encrypts.Add(1)
	return c.keeper.Encrypt(ctx, b)
}

func (c *counted) Decrypt(ctx context.Context, b []byte) ([]byte, error) {
	c.decrypts.Add(1)
	return c.keeper.Decrypt(ctx, b)
}

func (c *counted) Close() error                       { return c.keeper.Close() }
func (c *counted) ErrorAs(error, any) bool            { return false }
func (c *counted) ErrorCode(error) gcerrors.ErrorCode { return gcerrors.Unknown }

func TestTheKeyServiceIsAskedOncePerProcess(t *testing.T) {
	t.Parallel()
	key, err := localsecrets.NewRandomKey()
	if err != nil {
		t.Fatal(err)
	}
	process := func() (*Sealer, *counted) {
		c := &counted{keeper: localsecrets.NewKeeper(key)}
		s := newSealer(&service{secrets.NewKeeper(c), renewal})
		t.Cleanup(func() { s.Close() })
		return s, c
	}
	first, calls := process()
	var all [][]byte
	for range 50 {
		sealed, err := first.Seal(t.Context(), []byte("x"), "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := first.Unseal(t.Context(), sealed, "x"); err != nil {
			t.Fatal(err)
		}
		all = append(all, sealed)
	}
	if e, d := calls.encrypts.Load(), calls.decrypts.Load(); e != 1 || d != 0 {
		t.Errorf("sealing 50 values took %d wraps and %d unwraps, want 1 and 0", e, d)
	}
	second, calls := process()
	for _, sealed := range all {
		if _, err := second.Unseal(t.Context(), sealed, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if e, d := calls.encrypts.Load(), calls.decrypts.Load(); e != 0 || d != 1 {
		t.Errorf("unsealing 50 values took %d wraps and %d unwraps, want 0 and 1", e, d)
	}
}

func TestKeyFileIsMadeOnceForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seal.key")
	keys := make([]masterKey, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			f, err := openKeyFile(path)
			if err != nil {
				t.Error(err)
				return
			}
			keys[i] = f.keys[0]
		})
	}
	wg.Wait()
	for _, key := range keys {
		if key != keys[0] || key == (masterKey{}) {
			t.Fatal("two processes hold different keys")
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Fatalf("left behind: %v", left)
	}
}

func TestBadKeyFilesAreRefusedAndKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		content string
		mode    os.FileMode
		want    string
	}{
		"empty":            {content: "", mode: 0o600, want: "doesn't hold a key"},
		"too short":        {content: "c2hvcnQ=\n", mode: 0o600, want: "doesn't hold a key"},
		"one of two":       {content: strings.Repeat("A", 43) + "=\nc2h\n", mode: 0o600, want: "doesn't hold a key"},
		"only the next":    {content: strings.Repeat("A", 43) + "= next\n", mode: 0o600, want: "doesn't hold a key"},
		"open to a group":  {content: strings.Repeat("A", 43) + "=\n", mode: 0o640, want: "can be read by others"},
		"open to everyone": {content: strings.Repeat("A", 43) + "=\n", mode: 0o604, want: "can be read by others"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "seal.key")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if content, _ := os.ReadFile(path); string(content) != c.content {
				t.Fatal("the file was changed")
			}
		})
	}
}

func TestKeyServiceByURL(t *testing.T) {
	t.Parallel()
	const key = "smGbjm71Nxd1Ig5FS0wj9SlbzAIrnolCz9bQQ6uAhl4="
	sealed, err := open(t, "base64key://"+key).Seal(t.Context(), []byte("v"), "c")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, "base64key://"+key).Unseal(t.Context(), sealed, "c"); err != nil || string(got) != "v" {
		t.Fatalf("%q, %v", got, err)
	}
	for _, bad := range []string{
		"base64key://", "base64key://x" + key, "base64key://" + key + "?x=1", "nosuch://" + key,
		"base64key://" + key + "%zz", "://" + key,
	} {
		if _, err := Open(t.Context(), bad); err == nil {
			t.Errorf("%q was accepted", bad)
		} else if strings.Contains(err.Error(), "smGbjm71") {
			t.Errorf("the error shows the key: %v", err)
		}
	}
}

func FuzzUnseal(f *testing.F) {
	s := inNewFile(f)
	sealed, err := s.Seal(f.Context(), []byte("clear"), "place")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add([]byte{version1, 0xff, 0xff})
	f.Add([]byte{version1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := s.Unseal(t.Context(), b, "place")
		if err == nil && !bytes.Equal(b, sealed) {
			t.Fatalf("a forged value opened as %q", got)
		}
	})
}
