package host_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"steward/internal/engine"
	"steward/internal/platform/host"
	"steward/internal/testdir"
	"steward/internal/testnet"
)

// ready are templates of installations, which all sites of the program share.
var ready struct {
	mu  sync.Mutex
	dir string
}

func TestMain(m *testing.M) {
	os.Exit(testnet.Within(func() int {
		code := m.Run()
		if err := os.RemoveAll(ready.dir); err != nil {
			fmt.Fprintln(os.Stderr, "remove the program's templates:", err)
			return max(code, 1)
		}
		return code
	}))
}

// prepare gives the site templates of its installations that are made once per
// program; TestLeftoversOfAnEarlierRunAreCleared has its own made from nothing.
// Nobody writes to a template's files, so that links to one copy of them do.
func (s *site) prepare(t *testing.T) {
	t.Helper()
	templates := filepath.Join(s.o.DataDir, "templates")
	for _, dir := range []string{s.o.DataDir, templates} {
		if err := errors.Join(os.MkdirAll(dir, 0o711), os.Chmod(dir, 0o711)); err != nil {
			t.Fatal(err)
		}
	}
	for _, inst := range s.o.Installations {
		from, err := s.readyTemplate(t, inst)
		if err == nil {
			err = linkTree(from, filepath.Join(templates, inst.ID()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// readyTemplate is where the program's template of an installation is.
func (s *site) readyTemplate(t *testing.T, inst engine.Installation) (dir string, err error) {
	t.Helper()
	ready.mu.Lock()
	defer ready.mu.Unlock()
	if ready.dir == "" {
		if ready.dir, err = testdir.Make("hr"); err != nil {
			return "", err
		}
	}
	dir = filepath.Join(ready.dir, inst.ID())
	if exists(dir) {
		return dir, nil
	}
	program, err := testdir.Program()
	if err != nil {
		return "", err
	}
	makeIt := func(dir string) error { return s.makeTemplate(t, inst, dir) }
	return dir, testdir.Prepared(t.Context(), dir, "host-"+inst.ID(), program, makeIt)
}

// linkTree makes folders as those of another tree, with links to its files. One on another file system is copied.
func linkTree(from, to string) error {
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if !e.IsDir() {
			return os.Link(path, target)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return os.Mkdir(target, info.Mode().Perm())
	})
	if errors.Is(err, syscall.EXDEV) {
		return errors.Join(os.RemoveAll(to), testdir.Copy(context.Background(), from, to))
	}
	return err
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
