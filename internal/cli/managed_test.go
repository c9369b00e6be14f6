package cli_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/api"
	"steward/internal/catalog"
	"steward/internal/cli"
	"steward/internal/control"
	"steward/internal/pgtest"
	"steward/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// terminal types commands of a customer at an API of the test's own.
type terminal struct {
	t          *testing.T
	url, token string
}

func newTerminal(t *testing.T) terminal {
	t.Helper()
	s := pgtest.Store(t)
	door := api.New(api.Options{
		Control: control.New(control.Deps{Store: s}), Catalog: &catalog.Catalog{}, Logger: slog.New(slog.DiscardHandler), Ready: s.Ping,
	})
	server := httptest.NewServer(door)
	t.Cleanup(server.Close)
	term := terminal{t, server.URL, strings.Repeat("5e", 32)}
	err := s.InTx(t.Context(), func(tx *store.Tx) error {
		admin, err := tx.EnsureAdmin(t.Context())
		if err != nil {
			return err
		}
		record := control.TokenOf(admin.ID, "test", term.token, account.FullScopes(), nil)
		_, err = tx.CreateToken(context.Background(), record, sha256.Sum256([]byte(term.token)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return term
}

// run types one line and wants its exit code; the answer is what was printed.
func (c terminal) run(code int, in string, args ...string) string {
	c.t.Helper()
	var out, errOut bytes.Buffer
	args = append(args, "--url", c.url, "--token", c.token)
	if got := cli.Run(args, strings.NewReader(in), &out, &errOut); got != code {
		c.t.Fatalf("%v: exit code %d, want %d: %s%s", args, got, code, out.String(), errOut.String())
	}
	return out.String() + errOut.String()
}

// shows fails unless a text holds all that is wanted.
func (c terminal) shows(text string, want ...string) {
	c.t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			c.t.Errorf("no %q in\n%s", w, text)
		}
	}
}

func TestContactCommands(t *testing.T) {
	c := newTerminal(t)
	c.shows(c.run(0, "", "contact", "create", "Ann", "--email", "ann@example.org", "--group", "night", "--phone", "+49 30 1234567"), "ann@example.org", "night")
	c.run(0, "", "contact", "create", "Ann", "--email", "other@example.org")
	c.shows(c.run(1, "", "contact", "view", "Ann"), "2 contacts are called")
	c.shows(c.run(0, "", "contact", "view", "ann@example.org", "--json"), `"group": "night"`, `"primary": "+49 30 1234567"`)
	c.shows(c.run(0, "", "contact", "update", "1", "--group", "", "--phone", "", "--phone2", "030 7654321", "--json"),
		`"group": ""`, `"primary": ""`, `"secondary": "030 7654321"`, `"name": "Ann"`)
	c.shows(c.run(1, "", "contact", "update", "1", "--name", "", "--email", "x"), "name: Length", "email: Length")
	c.shows(c.run(0, "", "contact", "delete", "1"), "Ann is deleted.")
	if list := c.run(0, "", "contact", "list"); strings.Contains(list, "ann@") || !strings.Contains(list, "other@") {
		t.Errorf("after the delete:\n%s", list)
	}
	c.shows(c.run(1, "", "contact", "delete", "1"), `there is no contact "1"`)
	c.shows(c.run(0, "", "contact", "list", "--json"), fmt.Sprintf("%q: %q", "email", "other@example.org"))
}
