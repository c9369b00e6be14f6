package seal

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func newKey(t rapid.TB) Key {
	t.Helper()
	raw, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := OpenKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestAKeyOpensItsOwnInTheirPlaceOnly(t *testing.T) {
	t.Parallel()
	key, foreign, sealer := newKey(t), newKey(t), inNewFile(t)
	rapid.Check(t, func(r *rapid.T) {
		value := rapid.SliceOf(rapid.Byte()).Draw(r, "value")
		place := rapid.String().Draw(r, "place")
		other := rapid.String().Filter(func(o string) bool { return o != place }).Draw(r, "other")
		sealed := key.Seal(value, place)
		if len(value) >= 8 && bytes.Contains(sealed, value) {
			r.Fatal("the sealed value shows the value")
		}
		if bytes.Equal(sealed, key.Seal(value, place)) {
			r.Fatal("sealed twice, it looks the same")
		}
		if got, err := key.Unseal(sealed, place); err != nil || !bytes.Equal(got, value) {
			r.Fatalf("got %q, %v; want %q", got, err, value)
		}
		changed := bytes.Clone(sealed)
		changed[rapid.IntRange(0, len(sealed)-1).Draw(r, "byte")] ^= byte(1 << rapid.IntRange(0, 7).Draw(r, "bit"))
		for name, try := range map[string]func() ([]byte, error){
			"in another place":   func() ([]byte, error) { return key.Unseal(sealed, other) },
			"with another key":   func() ([]byte, error) { return foreign.Unseal(sealed, place) },
			"changed":            func() ([]byte, error) { return key.Unseal(changed, place) },
			"cut":                func() ([]byte, error) { return key.Unseal(sealed[:len(sealed)-1], place) },
			"by the key service": func() ([]byte, error) { return sealer.Unseal(r.Context(), sealed, place) },
		} {
			if got, err := try(); !errors.Is(err, ErrUnreadable) || got != nil {
				r.Fatalf("opened %s: %q, %v", name, got, err)
			}
		}
	})
	if _, err := key.Unseal(nil, "x"); !errors.Is(err, ErrUnreadable) {
		t.Errorf("nothing: %v", err)
	}
	if _, err := OpenKey(make([]byte, keySize-1)); !errors.Is(err, ErrUnreadable) {
		t.Errorf("a short key: %v", err)
	}
}
