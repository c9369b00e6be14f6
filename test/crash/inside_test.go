package crash

import (
	"fmt"
	"strings"
	"testing"

	"steward/test/harness"
)

// TestInside kills steward while logical databases, users and extensions are made and removed: what was accepted is there, what wasn't is there or
// not, and either way the same can be asked for again.
func TestInside(t *testing.T) {
	w := newWorld(t)
	for _, engine := range []string{"postgresql/15", "mysql/10.11"} {
		for _, op := range w.insideOperations(engine) {
			w.try(1, op)
		}
		w.deleteAll()
	}
	w.Eventually("nothing left", w.Leftovers)
}

// insideOperations are those on an engine's database.
func (w *world) insideOperations(engine string) []operation {
	family, _, _ := strings.Cut(engine, "/")
	prepare := func(w *world) {
		w.t.Helper()
		if w.db.ID == 0 {
			w.db = w.CreateActive(harness.Small(fmt.Sprintf("crash-%d", w.n), engine))
			w.cred = w.Credentials(w.db)
		}
	}
	making := func(noun, name string, in map[string]any) operation {
		return operation{
			name: "make " + noun + " of " + family, prepare: func(w *world) { prepare(w); w.without(noun, name) },
			ask:   func(w *world) (int, error) { return w.inside("POST", noun, "", in) },
			check: func(t *testing.T, w *world, accepted bool) { w.checkInside(t, noun, name, in, accepted) },
		}
	}
	removing := func(noun, name string, in map[string]any) operation {
		return operation{
			name: "remove " + noun + " of " + family, prepare: func(w *world) { prepare(w); w.without(noun, name); w.mustPool(w.inside("POST", noun, "", in)) },
			ask: func(w *world) (int, error) { return w.inside("DELETE", noun, name, nil) },
			check: func(t *testing.T, w *world, accepted bool) {
				if accepted && w.has(noun, name) {
					t.Errorf("%s %s is there, and was removed", noun, name)
				}
				w.mustQuery(t)
			},
		}
	}
	user := map[string]any{"username": "app", "grants": []map[string]string{{"database": "defaultdb", "privilege": "write"}}}
	all := []operation{making("users", "app", user), making("databases", "shop", map[string]any{"name": "shop"}), removing("databases", "shop", map[string]any{"name": "shop"})}
	if family == "postgresql" {
		all = append(all, making("extensions", "postgis", map[string]any{"name": "postgis"}), removing("extensions", "postgis", map[string]any{"name": "postgis"}))
	}
	if harness.Everything() {
		all = append(all, removing("users", "app", user))
	}
	return all
}

// inside asks for something inside the server.
func (w *world) inside(method, noun, name string, in map[string]any) (int, error) {
	path := w.db.Path() + "/" + noun
	if name != "" {
		path += "/" + name
	}
	var body any
	if in != nil {
		body = in
	}
	status, _, err := w.TryCall(method, path, body, nil)
	return status, err
}

// has reports whether the server shows it; an extension is always listed, and has a schema where it is.
func (w *world) has(noun, name string) bool {
	w.t.Helper()
	var list struct {
		Data []struct {
			Name, Username string
			Installed      *string `json:"installed_version"`
		}
	}
	w.Eventually("look inside", func() error {
		status, body := w.Call("GET", w.db.Path()+"/"+noun+"?page_size=100", nil, &list)
		if status != 200 {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	for _, one := range list.Data {
		if one.Name == name && (noun != "extensions" || one.Installed != nil) || one.Username == name {
			return true
		}
	}
	return false
}

// without removes what a killed server may have made.
func (w *world) without(noun, name string) {
	w.t.Helper()
	if w.has(noun, name) {
		w.mustPool(w.inside("DELETE", noun, name, nil))
	}
}

// checkInside: what was accepted is there; after what wasn't the same can be asked for again.
func (w *world) checkInside(t *testing.T, noun, name string, in map[string]any, accepted bool) {
	t.Helper()
	if there := w.has(noun, name); accepted && !there {
		t.Errorf("%s %s was accepted, and isn't there", noun, name)
	}
	w.Eventually("the same again", func() error {
		w.without(noun, name)
		status, err := w.inside("POST", noun, "", in)
		if err == nil && status != 200 { // a server finishes what it was told by a steward that died, and has it then
			err = fmt.Errorf("%d", status)
		}
		return err
	})
	w.mustQuery(t)
}
