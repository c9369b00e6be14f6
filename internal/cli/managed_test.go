package cli_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/api"
	"steward/internal/catalog"
	"steward/internal/cli"
	"steward/internal/control"
	"steward/internal/pgtest"
	"steward/internal/seal"
	"steward/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// terminal types commands of a customer at an API of the test's own.
type terminal struct {
	t          *testing.T
	url, token string
	// data and store are the server's, for operators.
	data, store string
}

func newTerminal(t *testing.T) terminal {
	t.Helper()
	data, url := t.TempDir(), pgtest.MigratedURL(t)
	sealer, err := seal.Open(t.Context(), filepath.Join(data, "seal.key"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sealer.Close() })
	s := pgtest.Open(t, store.Options{URL: url, Sealer: sealer, Logger: slog.New(slog.DiscardHandler)})
	door := api.New(api.Options{
		Control: control.New(control.Deps{Store: s}), Catalog: &catalog.Catalog{}, Logger: slog.New(slog.DiscardHandler), Ready: s.Ping,
	})
	server := httptest.NewServer(door)
	t.Cleanup(server.Close)
	term := terminal{t, server.URL, strings.Repeat("5e", 32), data, url}
	err = s.InTx(t.Context(), func(tx *store.Tx) error {
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

// run types one line of a customer's and wants its exit code; the answer is what
// was printed.
func (c terminal) run(code int, in string, args ...string) string {
	c.t.Helper()
	return c.enter(code, in, append(args, "--url", c.url, "--token", c.token)...)
}

// operate types one line of the operator's.
func (c terminal) operate(code int, args ...string) string {
	c.t.Helper()
	return c.enter(code, "", append(args, "--data", c.data, "--store", c.store)...)
}

func (c terminal) enter(code int, in string, args ...string) string {
	c.t.Helper()
	var out, errOut bytes.Buffer
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

func TestCredentialCommands(t *testing.T) {
	c := newTerminal(t)
	c.shows(c.run(0, "s3cret\n", "credential", "create", "router", "--username", "admin", "--json"), `"label": "router"`, `"last_decrypted": ""`)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("from a file\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.run(0, "", "credential", "create", "switch", "--password-file", file)
	c.shows(c.run(1, "", "credential", "create", "none"), "the password is empty")
	c.shows(c.run(1, "x", "credential", "create", "router"), "unique among your credentials")
	c.run(2, "", "credential", "create", "argument", "--password", "seen by all")
	c.shows(c.operate(0, "credential", "reveal", "1", "--purpose", "a test", "--staff", "alice"), "username  admin\npassword  s3cret\n")
	c.shows(c.operate(0, "credential", "reveal", "2", "--purpose", "another", "--json"), `"username": ""`, `"password": "from a file"`)
	c.run(0, "line 1\nline 2\n", "credential", "set-password", "router")
	c.shows(c.operate(0, "credential", "reveal", "1", "--purpose", "a test", "--json"), `"username": "admin"`, `"password": "line 1\nline 2"`)
	c.run(0, "x", "credential", "set-password", "router", "--username", "")
	c.shows(c.operate(0, "credential", "reveal", "1", "--purpose", "a test", "--json"), `"username": ""`)
	c.shows(c.run(0, "", "credential", "update", "router", "--label", "gateway"), "gateway", "20")
	c.run(0, "", "credential", "delete", "switch")
	if list := c.run(0, "", "credential", "list"); strings.Contains(list, "switch") || !strings.Contains(list, "gateway") {
		t.Errorf("after the delete:\n%s", list)
	}
	c.shows(c.operate(1, "credential", "reveal", "2", "--purpose", "a test"), "there is no credential 2")
	c.operate(2, "credential", "reveal", "1")
	c.shows(c.operate(1, "credential", "reveal", "1", "--purpose", ""), "purpose: Length")
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	c.shows(c.operate(0, "credential", "reveals", "--json"), `"staff": "alice"`, `"label": "switch"`, `"purpose": "another"`, fmt.Sprintf("%q: %q", "staff", me.Username))
	if lines := strings.Count(c.operate(0, "credential", "reveals"), "\n"); lines != 5 {
		t.Errorf("%d lines of four reveals", lines)
	}
}
