package seal

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

func open(t *testing.T, dir string) *Sealer {
	t.Helper()
	s, err := Open(t.Context(), "", filepath.Join(dir, "seal.key"), filepath.Join(dir, "seal.data"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := open(t, dir), open(t, dir)
	rapid.Check(t, func(r *rapid.T) {
		value, place := rapid.SliceOf(rapid.Byte()).Draw(r, "value"), rapid.String().Draw(r, "place")
		sealed, err := first.Seal(t.Context(), value, place)
		if err != nil {
			r.Fatal(err)
		}
		if len(value) > 8 && bytes.Contains(sealed, value) {
			r.Fatal("the value stands in the sealed text")
		}
		got, err := second.Unseal(t.Context(), sealed, place)
		if err != nil || !bytes.Equal(got, value) {
			r.Fatalf("%q, %v", got, err)
		}
		if _, err := second.Unseal(t.Context(), sealed, place+"x"); err == nil {
			r.Fatal("a sealed value could be moved to another place")
		}
		i := rapid.IntRange(0, len(sealed)-1).Draw(r, "flip")
		sealed[i] ^= 1
		if _, err := second.Unseal(t.Context(), sealed, place); err == nil {
			r.Fatalf("byte %d can be changed unnoticed", i)
		}
	})
}

func TestKeyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	for _, name := range []string{"seal.key", "seal.data"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", name, info, err)
		}
	}
	other := t.TempDir()
	open(t, other)
	if err := os.Rename(filepath.Join(other, "seal.key"), filepath.Join(dir, "seal.key")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), "", filepath.Join(dir, "seal.key"), filepath.Join(dir, "seal.data")); err == nil {
		t.Error("an exchanged key file isn't noticed")
	}
}
