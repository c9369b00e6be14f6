package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

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
	own := filepath.Join(s.Data, "templates")
	if err := errors.Join(os.Mkdir(own, 0o711), os.Chmod(own, 0o711)); err != nil {
		s.t.Fatal(err)
	}
	key := s.digest()
	for _, name := range testdir.Kept(templatesOf, key) {
		begins := func(prefix string) bool { return strings.HasPrefix(name, templatesOf+prefix) }
		if len(builds) > 0 && !slices.ContainsFunc(builds, begins) {
			continue
		}
		shared, err := sharedTemplate(filepath.Dir(s.Data), name, key)
		if err != nil {
			s.t.Fatal(err)
		}
		if shared == "" {
			continue
		}
		if err := testdir.Link(context.Background(), shared, filepath.Join(own, strings.TrimPrefix(name, templatesOf))); err != nil {
			s.t.Fatal(err)
		}
	}
}

// templates are copies of what is kept, for all servers of the test's process that have their data in the same place: steward
// only reads templates, so that theirs are links to these files. To copy those of all engines takes as long as a start.
var templates struct {
	sync.Mutex
	byPlace map[string]string
}

// sharedTemplate is a copy of a kept template in the folder, "" when it isn't kept any more.
func sharedTemplate(parent, name, key string) (string, error) {
	templates.Lock()
	defer templates.Unlock()
	place := parent + "/" + name + "@" + key
	if dir := templates.byPlace[place]; dir != "" {
		return dir, nil
	}
	holder, err := os.MkdirTemp(parent, "st-template-")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(holder, "copy")
	err = testdir.Prepared(context.Background(), dir, name, key, func(string) error { return os.ErrNotExist })
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return "", errors.Join(err, os.RemoveAll(holder))
	}
	if templates.byPlace == nil {
		templates.byPlace = map[string]string{}
	}
	templates.byPlace[place] = dir
	return dir, nil
}

func removeTemplates() {
	templates.Lock()
	defer templates.Unlock()
	for _, dir := range templates.byPlace {
		os.RemoveAll(filepath.Dir(dir))
	}
	templates.byPlace = nil
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
