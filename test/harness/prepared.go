package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"steward/internal/pgtest"
	"steward/internal/testdir"
)

// templatesOf begins the names of templates that an earlier server of this binary made.
const templatesOf = "steward-"

// prepare gives the data folder what a first start makes in seconds.
func (s *Server) prepare(builds []string) {
	s.t.Helper()
	if err := pgtest.PreparedStore(filepath.Join(s.Data, "store")); err != nil {
		s.t.Fatal(err)
	}
	s.PrepareTemplates(builds...)
}

// PrepareTemplates gives a data folder that has not been served templates that the same
// binary made before: of builds whose names begin so, or of all. Steward itself makes templates anew that another one made.
func (s *Server) PrepareTemplates(builds ...string) {
	s.t.Helper()
	templates := filepath.Join(s.Data, "templates")
	if err := errors.Join(os.Mkdir(templates, 0o711), os.Chmod(templates, 0o711)); err != nil {
		s.t.Fatal(err)
	}
	key := s.digest()
	for _, name := range testdir.Kept(templatesOf, key) {
		begins := func(prefix string) bool { return strings.HasPrefix(name, templatesOf+prefix) }
		if len(builds) > 0 && !slices.ContainsFunc(builds, begins) {
			continue
		}
		gone := func(string) error { return os.ErrNotExist }
		err := testdir.Prepared(context.Background(), filepath.Join(templates, strings.TrimPrefix(name, templatesOf)), name, key, gone)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			s.t.Fatal(err)
		}
	}
}

// keepTemplates keeps those of the stopped server for others.
func (s *Server) keepTemplates() {
	made, err := filepath.Glob(filepath.Join(s.Data, "templates", "[a-z]*", "template.json"))
	for _, note := range made {
		dir := filepath.Dir(note)
		err = errors.Join(err, testdir.Keep(templatesOf+filepath.Base(dir), s.digest(), func(to string) error {
			return errors.Join(os.Mkdir(to, 0o711), os.Chmod(to, 0o711), os.Mkdir(filepath.Join(to, "pool"), 0o711),
				testdir.Copy(context.Background(), filepath.Join(dir, "data"), filepath.Join(to, "data")),
				testdir.Copy(context.Background(), note, filepath.Join(to, filepath.Base(note))))
		}))
	}
	if err != nil {
		s.t.Errorf("keep templates: %v", err)
	}
}

func (s *Server) digest() string {
	builds.Lock()
	defer builds.Unlock()
	if builds.digests == nil {
		builds.digests = map[string]string{}
	}
	if builds.digests[s.binary] == "" {
		digest, err := testdir.Digest(s.binary)
		if err != nil {
			s.t.Fatal(err)
		}
		builds.digests[s.binary] = digest
	}
	return builds.digests[s.binary]
}
