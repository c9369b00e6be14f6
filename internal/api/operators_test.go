package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/config"
	"steward/internal/doctor"
	"steward/internal/engine"
	"steward/internal/monitor"
	"steward/internal/notify/notifytest"
	"steward/internal/platform/host"
	"steward/internal/platform/kubernetes"
	"steward/internal/store"
)

// machine is a server's that operators look at.
type machine struct{ of cluster.ID }

// Examine implements api.Installation.
func (machine) Examine(context.Context) (doctor.Report, error) {
	return doctor.Report{
		Engines: []engine.Installation{{Flavour: engine.FlavourMariaDB, Series: "10.11", Version: "10.11.19", Builder: "debian", Home: "/usr"}},
		Gateway: doctor.Gateway{Driver: "haproxy", Why: "it is configured"}, Isolation: host.Facts{ControlGroups: "v2", Warnings: []string{"no bubblewrap"}},
		Missing: []doctor.Missing{{What: "PgBouncer", Why: "pools", Install: "apt-get install pgbouncer"}},
		Regions: []doctor.Region{{ID: "kube", Reachable: true, Examined: kubernetes.Examined{Version: "v1.33", Missing: []kubernetes.Finding{{What: "x", Command: "y"}}}}},
	}, nil
}

// Nodes implements api.Installation.
func (m machine) Nodes() ([]doctor.Node, error) {
	return []doctor.Node{{Cluster: m.of, Engine: cluster.MySQL, Role: cluster.Primary, Running: true, Pid: 7}}, nil
}

// mark changes who is an operator, as the command line does.
func (b *bench) mark(t *testing.T, username string, how func(*store.Tx, context.Context, account.UserID) (bool, error)) {
	t.Helper()
	err := b.store.InTx(t.Context(), func(tx *store.Tx) error {
		u, err := tx.UserAnywhere(t.Context(), username)
		if err != nil {
			return err
		}
		_, err = how(tx, t.Context(), u.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// operatorPaths are all operations of operators, as the document has them.
func operatorPaths(t *testing.T) (all []string) {
	t.Helper()
	var d struct{ Paths map[string]map[string]any }
	readDocument(t, &d)
	for path, methods := range d.Paths {
		for method := range methods {
			if strings.HasPrefix(path, "/v4/operator/") {
				all = append(all, strings.ToUpper(method)+" "+strings.NewReplacer("{accountName}", "other", "{noticeId}", "1").Replace(path))
			}
		}
	}
	if len(all) < 14 {
		t.Fatalf("only %q", all)
	}
	return all
}

// TestOperatorsAlone walks the document: nothing of the operators' answers or changes anything for who isn't one, whatever the
// token, and from the moment on that somebody is none any more.
func TestOperatorsAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stranger := b.stranger()
	paths := operatorPaths(t)
	refused := func(who, token string, status int) {
		t.Helper()
		for _, p := range paths {
			method, path, _ := strings.Cut(p, " ")
			if r := b.send(method, path, token, ""); r.StatusCode != status {
				t.Errorf("%s by %s: %d %s", p, who, r.StatusCode, r.body)
			}
		}
	}
	refused("nobody", "", http.StatusUnauthorized)
	refused("another account's user", stranger, http.StatusForbidden)
	refused("a restricted user", b.restricted, http.StatusForbidden)
	refused("an operator's token of other scopes", b.scoped(t, "databases:read_write account:read_write events:read_write"), http.StatusUnauthorized)
	b.mark(t, "limited", (*store.Tx).AddOperator) // as one who was restricted later
	refused("an operator who is restricted", b.restricted, http.StatusForbidden)

	reads := b.scoped(t, "operator:read_only")
	for _, p := range paths {
		method, path, _ := strings.Cut(p, " ")
		want := http.StatusUnauthorized
		if method == http.MethodGet {
			want = http.StatusOK
		}
		if r := b.send(method, path, reads, ""); r.StatusCode != want {
			t.Errorf("%s by a token that reads: %d %s", p, r.StatusCode, r.body)
		}
	}
	if r := b.send("GET", "/v4/profile", b.full, ""); !strings.Contains(r.body, `"operator":true`) {
		t.Error(r.body)
	}
	b.mark(t, "admin", func(tx *store.Tx, ctx context.Context, id account.UserID) (bool, error) {
		return true, tx.RemoveOperator(ctx, id)
	})
	refused("one who was an operator", b.full, http.StatusForbidden)
	if r := b.send("GET", "/v4/profile", b.full, ""); !strings.Contains(r.body, `"operator":false`) {
		t.Error(r.body)
	}
}

// scoped is a token of the first user.
func (b *bench) scoped(t *testing.T, scopes string) (token string) {
	t.Helper()
	err := b.store.InTx(t.Context(), func(tx *store.Tx) error {
		u, err := tx.UserAnywhere(t.Context(), "admin")
		if err == nil {
			token = b.token(tx, u, scopes)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestOperatorsAccounts: made, given a first user, bounded, suspended and deleted, with a line for each in its audit trail.
func TestOperatorsAccounts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.api.Control.Operators.Quotas.Databases = new(5)
	send := func(method, path, body string, status int, want ...string) reply {
		t.Helper()
		r := b.send(method, "/v4/operator/accounts"+path, b.full, body)
		for _, w := range want {
			if !strings.Contains(r.body, w) {
				t.Errorf("%s %s doesn't say %s: %s", method, path, w, r.body)
			}
		}
		if r.StatusCode != status {
			t.Fatalf("%s %s: %d %s", method, path, r.StatusCode, r.body)
		}
		return r
	}
	send("POST", "", `{"name":"-","email":"nobody","max_nodes":-7}`, 400, `"field":"name"`, `"field":"email"`, `"field":"max_nodes"`)
	send("POST", "", `{"name":"acme","email":"a@example.org","max_nodes":3,"max_databases":-1}`, 200, `"max_nodes":3`, `"effective_quotas":{"max_databases":null,`)
	send("POST", "", `{"name":"acme"}`, 400, `"field":"name"`)
	send("PUT", "/acme", `{"max_databases":null,"max_nodes":"x"}`, 400, `"field":"max_nodes"`)
	send("PUT", "/acme", `{"max_databases":null}`, 200, `"max_databases":null`, `"effective_quotas":{"max_databases":5,`, `"max_nodes":3`)
	send("GET", "/nobody", "", 404)

	send("POST", "/acme/first-user", `{"username":"a","email":"nobody"}`, 400, `"field":"username"`, `"field":"email"`)
	const ada = `{"username":"ada","email":"ada@example.org"}`
	first, again := send("POST", "/acme/first-user", ada, 200), send("POST", "/acme/first-user", ada, 200)
	send("POST", "/acme/first-user", `{"username":"eve","email":"eve@example.org"}`, 400, "The account has users")
	secrets := make([]string, 2)
	for i, r := range []reply{first, again} {
		_, rest, _ := strings.Cut(r.body, "/console/first#")
		secrets[i], _, _ = strings.Cut(rest, `"`)
	}
	if _, err := b.api.Control.Logins.UseLink(t.Context(), secrets[0], "a long enough one", ""); err == nil {
		t.Error("a link is good after another one was made")
	}
	if _, err := b.api.Control.Logins.UseLink(t.Context(), secrets[1], "a long enough one", ""); err != nil {
		t.Error(err)
	}
	send("POST", "/acme/first-user", ada, 400, "The account has users")

	send("POST", "/acme/suspend", "", 200)
	send("GET", "/acme", "", 200, `"status":"suspended"`, `"users":1`)
	send("POST", "/acme/resume", "", 200)
	send("DELETE", "/default", "", 400, "can't be deleted")
	send("DELETE", "/acme", "", 200)
	send("PUT", "/acme", `{"email":""}`, 400, "being deleted")
	send("POST", "/acme/first-user", ada, 400, "being deleted")
	send("GET", "", "", 200, `"name":"default"`, `"status":"deleting"`)

	var lines int
	err := b.store.Pool().QueryRow(t.Context(), `SELECT count(*) FROM audit a JOIN accounts c ON c.id = a.account_id
		WHERE c.name = 'acme' AND a.username = 'operator:admin' AND coalesce(a.user_id, 0) = 0 AND a.action LIKE '% /v4/operator/accounts%'`).Scan(&lines)
	if err != nil || lines != 7 {
		t.Errorf("%d lines in the audit trail, %v", lines, err)
	}
}

// TestOperatorsInstallation: regions, servers and what is missing.
func TestOperatorsInstallation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if r := b.send("POST", "/v4/databases/mysql/instances", b.full, `{"label":"shop","engine":"mysql/10.11","region":"local","type":"g6-nanode-1","cluster_size":3}`); r.StatusCode != 200 {
		t.Fatal(r.body)
	}
	look := func(path string, want ...string) {
		t.Helper()
		r := b.send("GET", "/v4/operator/"+path, b.full, "")
		for _, w := range want {
			if r.StatusCode != 200 || !strings.Contains(r.body, w) {
				t.Errorf("%s doesn't say %s: %d %s", path, w, r.StatusCode, r.body)
			}
		}
	}
	look("regions", `"id":"local","label":"`, `"platform":"host","away":"","planned":{"databases":1,"nodes":3,"memory_gb":3,`)
	look("nodes", `"database":1,"label":"shop","account":"default","engine":"mysql","node":0,"role":"primary"`, `"pid":7`, `"last_failover":null`)
	look("doctor", `"engine":"mysql/10.11","server":"mariadb","version":"10.11.19"`, `"warnings":["no bubblewrap"]`, `"what":"PgBouncer"`, `"regions":[{"id":"kube","reachable":true`, `{"what":"x","command":"y"}`)
}

// TestOperatorsNotices: those that fail are tried again, and a message can be sent to see what happens.
func TestOperatorsNotices(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	failed := b.failedNotice(t)
	send := func(method, path, body string, status int, want string) {
		t.Helper()
		if r := b.send(method, "/v4/operator/notices"+path, b.full, body); r.StatusCode != status || !strings.Contains(r.body, want) {
			t.Errorf("%s %s: %d %s", method, path, r.StatusCode, r.body)
		}
	}
	const telling = `"kind":"opened","channel":"email","recipient":"a@example.org","state":"failed","attempts":1`
	send("GET", "", "", 200, telling)
	send("GET", "?failed=true", "", 200, telling)
	send("POST", "/999/retry", "", 404, "")
	send("POST", fmt.Sprintf("/%d/retry", failed), "", 200, `"retried":1`)
	send("GET", "?failed=true", "", 200, `"data":[]`)
	send("POST", "/retry", "", 200, `"retried":0`)

	send("POST", "/test", `{}`, 400, `"field":"to"`)
	send("POST", "/test", `{"to":"a@example.org","channel":"ops"}`, 400, `"field":"channel"`)
	send("POST", "/test", `{"channel":"@account"}`, 400, `"field":"channel"`)
	send("POST", "/test", `{"to":"a@example.org"}`, 400, "No mail server is configured")
	server := notifytest.Start(t, notifytest.Options{})
	senders, err := config.Config{SMTP: config.SMTP{URL: server.URL("tls=none"), From: "steward@example.org"}}.Senders()
	if err != nil {
		t.Fatal(err)
	}
	b.api.Control.Operators.Senders = senders
	send("POST", "/test", `{"to":"a@example.org"}`, 200, `{}`)
	if mail := server.Await(t, 1, 0, nil)[0]; mail.Subject != "Test: steward can reach you" {
		t.Error(mail.Subject)
	}
}

// failedNotice is one that couldn't be delivered.
func (b *bench) failedNotice(t *testing.T) monitor.NoticeID {
	t.Helper()
	ctx := t.Context()
	err := b.store.InTx(ctx, func(tx *store.Tx) error {
		issue, err := tx.OpenIssue(ctx, monitor.Issue{Account: b.account, Host: "h", Ticket: monitor.Ticket{Summary: "down"}})
		if err != nil {
			return err
		}
		return tx.CreateNotices(ctx, []monitor.Notice{{Account: b.account, Issue: issue.ID, Kind: monitor.NoticeOpened, Channel: monitor.EmailChannel, Recipient: "a@example.org"}})
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Pool().Exec(ctx, "UPDATE notices SET state = 'failed', attempts = 1, problem = 'No such mailbox.'"); err != nil {
		t.Fatal(err)
	}
	all, err := b.store.Notices(ctx, store.NoticeQuery{})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0].ID
}
