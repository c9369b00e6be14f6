package crash

import (
	"fmt"
	"strings"
	"testing"

	"steward/test/harness"
)

func TestInsideThorough(t *testing.T) {
	w := newWorld(t, postgresql, mariadb)
	w.tryInside("postgresql/15", 2, making(app), removing(app), making(shop), removing(shop), making(postgis), removing(postgis))
	w.deleteAll()
	w.tryInside("mysql/10.11", 2, making(app), removing(app), making(shop), removing(shop))
	w.deleteAll()
}

// thing is something inside a server, and how it is asked for.
type thing struct {
	noun, name string
	in         map[string]any
	// steps is about how many failpoints it has to make it.
	steps int
}

var (
	app  = thing{"users", "app", map[string]any{"username": "app", "grants": []map[string]string{{"database": "defaultdb", "privilege": "write"}}}, 9}
	shop = thing{"databases", "shop", map[string]any{"name": "shop"}, 12}
	// PostGIS takes the server a second to make.
	postgis  = thing{"extensions", "postgis", map[string]any{"name": "postgis"}, 14}
	trigrams = thing{"extensions", "pg_trgm", map[string]any{"name": "pg_trgm"}, 14}
)

// tryInside kills steward while logical databases, users and extensions are made and removed: what was accepted is there, what wasn't is there or
// not, and either way the same can be asked for again.
func (w *world) tryInside(engine string, kills int, ops ...operation) {
	family, _, _ := strings.Cut(engine, "/")
	for _, op := range ops {
		prepare := op.prepare
		op.name += " of " + family
		op.prepare = func(w *world) {
			w.t.Helper()
			if w.db.ID == 0 {
				w.db = w.CreateActive(harness.Small(fmt.Sprintf("crash-%d", w.n), engine))
				w.cred = w.Credentials(w.db)
			}
			prepare(w)
		}
		w.try(kills, op)
	}
}

func making(what thing) operation {
	return operation{
		name: "make " + what.noun, steps: what.steps, prepare: func(w *world) { w.without(what.noun, what.name) },
		ask:   func(w *world) (int, error) { return w.inside("POST", what.noun, "", what.in) },
		check: func(t *testing.T, w *world, accepted bool) { w.checkInside(t, what.noun, what.name, what.in, accepted) },
	}
}

func removing(what thing) operation {
	return operation{
		name: "remove " + what.noun, steps: 3, prepare: func(w *world) {
			w.without(what.noun, what.name)
			w.mustPool(w.inside("POST", what.noun, "", what.in))
		},
		ask: func(w *world) (int, error) { return w.inside("DELETE", what.noun, what.name, nil) },
		check: func(t *testing.T, w *world, accepted bool) {
			if accepted && w.has(what.noun, what.name) {
				t.Errorf("%s %s is there, and was removed", what.noun, what.name)
			}
			w.mustQuery(t)
		},
	}
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
