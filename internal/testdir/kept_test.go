package testdir

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestPreparedIsMadeOnce(t *testing.T) {
	t.Parallel()
	name, made := "test-"+filepath.Base(t.TempDir())+strconv.Itoa(os.Getpid()), 0
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(Cache(), "prepared", "*"+name+"*"))
		if err != nil {
			t.Error(err)
		}
		hidden, err := filepath.Glob(filepath.Join(Cache(), "prepared", "."+name+"*"))
		for _, dir := range append(left, hidden...) {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		if err != nil {
			t.Error(err)
		}
	})
	get := func(key string) string {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "copy")
		err := Prepared(t.Context(), dir, name, key, func(dir string) error {
			made++
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "file"), []byte(key), 0o600))
		})
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	first := get("0")
	if err := os.WriteFile(filepath.Join(first, "file"), []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(get("0"), "file"))
	if err != nil || string(content) != "0" || made != 1 {
		t.Errorf("made %d times, %q, %v", made, content, err)
	}
	for i := range variants {
		get(strconv.Itoa(i + 1))
	}
	if get("0"); made != variants+2 {
		t.Errorf("made %d times: the oldest of more than %d stays", made, variants)
	}
	if err := Prepared(t.Context(), filepath.Join(t.TempDir(), "copy"), name, "bad", func(string) error { return os.ErrInvalid }); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("a failure is reported as %v", err)
	}
}
