package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"steward/internal/engine"
	"steward/internal/platform/host"
	"steward/internal/testdir"
)

// prepare gives the site templates of its installations that are made once per
// program; TestUnfinishedTemplatesAndTrashAreCleared has its own made from nothing.
func (s *site) prepare(t *testing.T) {
	t.Helper()
	program, err := testdir.Program()
	if err != nil {
		t.Fatal(err)
	}
	templates := filepath.Join(s.o.DataDir, "templates")
	for _, dir := range []string{s.o.DataDir, templates} {
		if err := errors.Join(os.MkdirAll(dir, 0o711), os.Chmod(dir, 0o711)); err != nil {
			t.Fatal(err)
		}
	}
	for _, inst := range s.o.Installations {
		makeIt := func(dir string) error { return s.makeTemplate(t, inst, dir) }
		if err := testdir.Prepared(t.Context(), filepath.Join(templates, inst.ID()), "host-"+inst.ID(), program, makeIt); err != nil {
			t.Fatal(err)
		}
	}
}

// makeTemplate has a driver of its own make one, in folders of its own.
func (s *site) makeTemplate(t *testing.T, inst engine.Installation, dir string) error {
	o, base := s.o, testdir.New(t, "tm")
	o.DataDir, o.RunDir, o.KeysDir = filepath.Join(base, "data"), filepath.Join(base, "run"), filepath.Join(base, "keys")
	o.PoolSize, o.Installations = 0, []engine.Installation{inst}
	if err := os.MkdirAll(o.RunDir, 0o711); err != nil {
		return err
	}
	d, err := host.New(t.Context(), o)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := host.MakeTemplate(t.Context(), d, inst); err != nil {
		return err
	}
	return testdir.Copy(t.Context(), filepath.Join(o.DataDir, "templates", inst.ID()), dir)
}
