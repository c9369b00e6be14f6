package store_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/platform"
	"steward/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// newAccount makes a tenant with one unrestricted user.
func newAccount(t *testing.T, s *store.Store, name string) account.User {
	t.Helper()
	var id account.ID
	if err := s.Pool().QueryRow(t.Context(), "INSERT INTO accounts (name, created) VALUES ($1, now()) RETURNING id", name).Scan(&id); err != nil {
		t.Fatal(err)
	}
	u, err := s.CreateUser(t.Context(), account.User{Account: id, Username: name, Email: name + "@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func newCluster(t *testing.T, s *store.Store, owner account.ID, label string) cluster.Cluster {
	t.Helper()
	var c cluster.Cluster
	err := s.InTx(t.Context(), func(tx *store.Tx) (err error) {
		c, err = tx.CreateCluster(t.Context(), cluster.Cluster{Account: owner, Spec: cluster.Spec{
			Label: label, Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: "g6-nanode-1", Size: 1,
			SSLConnection: true, AllowList: cluster.AllowList{"127.0.0.1"}, Replication: cluster.ReplicationNone,
			Commit: cluster.CommitLocal, Updates: cluster.DefaultWindow(1),
		}}, map[platform.SecretName][]byte{platform.RootPassword: []byte("pw-" + label)}, [2]int{21000, 21003})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCreateCluster(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	v := store.Viewer{Account: u.Account}
	c := newCluster(t, s, u.Account, "one")
	got, err := s.Cluster(t.Context(), v, cluster.PostgreSQL, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	c.Created, c.Updated, got.Created, got.Updated = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	c.Members = map[string]string{}
	if diff := cmp.Diff(c, got); diff != "" {
		t.Errorf("-made +read\n%s", diff)
	}
	if got.Port != 21000 || got.Status != cluster.Provisioning {
		t.Errorf("port %d, status %s", got.Port, got.Status)
	}
	if pw, err := s.Secret(t.Context(), c.ID, platform.RootPassword); err != nil || string(pw) != "pw-one" {
		t.Errorf("secret %q, %v", pw, err)
	}
	if _, err := s.Secret(t.Context(), c.ID, platform.Keyring); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("a secret that isn't there: %v", err)
	}
}

func TestLabelIsUniquePerAccount(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	a, b := newAccount(t, s, "a"), newAccount(t, s, "b")
	first := newCluster(t, s, a.Account, "same")
	newCluster(t, s, b.Account, "same")
	create := func() error {
		return s.InTx(t.Context(), func(tx *store.Tx) error {
			_, err := tx.CreateCluster(t.Context(), cluster.Cluster{Account: a.Account, Spec: cluster.Spec{Label: "same", Engine: cluster.MySQL, Size: 1}}, nil, [2]int{21000, 21003})
			return err
		})
	}
	if err := create(); !errors.Is(err, fault.NewInvalid("label", "Label must be unique among your databases")) {
		t.Errorf("a label that is taken: %v", err)
	}
	if err := s.InTx(t.Context(), func(tx *store.Tx) error { return tx.MarkDeleted(t.Context(), first) }); err != nil {
		t.Fatal(err)
	}
	if err := create(); err != nil {
		t.Errorf("a deleted database holds its label: %v", err)
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	var first cluster.Cluster
	for i := range 4 {
		c := newCluster(t, s, u.Account, fmt.Sprintf("port-%d", i))
		if c.Port != 21000+i {
			t.Errorf("port %d, want %d", c.Port, 21000+i)
		}
		if i == 1 {
			first = c
		}
	}
	create := func() (c cluster.Cluster, err error) {
		err = s.InTx(t.Context(), func(tx *store.Tx) error {
			c, err = tx.CreateCluster(t.Context(), cluster.Cluster{Account: u.Account, Spec: cluster.Spec{Label: "more", Engine: cluster.MySQL, Size: 1}}, nil, [2]int{21000, 21003})
			return err
		})
		return c, err
	}
	if _, err := create(); !fault.IsKind(err, fault.Precondition) || !strings.Contains(err.Error(), "gateway.ports") {
		t.Errorf("no port left: %v", err)
	}
	if err := s.InTx(t.Context(), func(tx *store.Tx) error { return tx.MarkDeleted(t.Context(), first) }); err != nil {
		t.Fatal(err)
	}
	if _, err := create(); err == nil {
		t.Error("the port of a database that isn't removed yet was given out")
	}
	if err := s.InTx(t.Context(), func(tx *store.Tx) error { return tx.RemoveCluster(t.Context(), first.ID) }); err != nil {
		t.Fatal(err)
	}
	if c, err := create(); err != nil || c.Port != first.Port {
		t.Errorf("port %d, %v; want the lowest free one, %d", c.Port, err, first.Port)
	}
}

// TestStatusConstraint proves that the table of the nouns and the constraints of
// the database know the same words.
func TestStatusConstraint(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	c := newCluster(t, s, u.Account, "status")
	for _, status := range cluster.Statuses {
		if _, err := s.Pool().Exec(t.Context(), "UPDATE clusters SET status = $1 WHERE id = $2", status, c.ID); err != nil {
			t.Errorf("%s: %v", status, err)
		}
	}
	var words string
	if err := s.Pool().QueryRow(t.Context(), "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'clusters_status_check'").Scan(&words); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(words, "::text"); n != len(cluster.Statuses)+2 && strings.Count(words, "'")/2 != len(cluster.Statuses) {
		t.Errorf("the constraint has other statuses than the %d of the table: %s", len(cluster.Statuses), words)
	}
}

func TestTransition(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	c := newCluster(t, s, u.Account, "moves")
	move := func(c cluster.Cluster, on cluster.Trigger) (after cluster.Cluster, err error) {
		err = s.InTx(t.Context(), func(tx *store.Tx) error {
			after, err = tx.Transition(t.Context(), c, on)
			return err
		})
		return after, err
	}
	active, err := move(c, cluster.Ready)
	if err != nil || active.Status != cluster.Active {
		t.Fatalf("%s, %v", active.Status, err)
	}
	if _, err := move(c, cluster.Ready); !errors.Is(err, store.ErrNoTransition) {
		t.Errorf("a second writer with the old status: %v", err)
	}
	if _, err := move(active, cluster.Resume); !errors.Is(err, store.ErrNoTransition) {
		t.Errorf("a change the table doesn't have: %v", err)
	}
	stale := active
	stale.Generation--
	err = s.InTx(t.Context(), func(tx *store.Tx) error {
		_, err := tx.UpdateCluster(t.Context(), stale)
		return err
	})
	if !errors.Is(err, store.ErrStale) {
		t.Errorf("an update of what changed since: %v", err)
	}
}

func TestTenancy(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	a, b := newAccount(t, s, "a"), newAccount(t, s, "b")
	c := newCluster(t, s, a.Account, "mine")
	var op operation.Operation
	if err := s.InTx(t.Context(), func(tx *store.Tx) (err error) {
		op, err = tx.CreateOperation(t.Context(), operation.Operation{Account: a.Account, Cluster: c.ID, Action: operation.Create, Status: operation.Scheduled})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	restricted, err := s.CreateUser(t.Context(), account.User{Account: a.Account, Username: "r", Restricted: true})
	if err != nil {
		t.Fatal(err)
	}
	viewers := []struct {
		name string
		v    store.Viewer
		sees bool
	}{
		{"owner", store.Viewer{Account: a.Account}, true},
		{"another account", store.Viewer{Account: b.Account}, false},
		{"restricted without grant", store.Viewer{Account: a.Account, User: restricted.ID}, false},
	}
	check := func(name string, v store.Viewer, sees bool) {
		t.Helper()
		_, err := s.Cluster(t.Context(), v, "", c.ID)
		_, errOp := s.Operation(t.Context(), v, op.ID)
		list, total, errList := s.Clusters(t.Context(), v, "", store.ListQuery{})
		ops, totalOps, errOps := s.Operations(t.Context(), v, store.ListQuery{})
		if errList != nil || errOps != nil {
			t.Fatalf("%s: %v, %v", name, errList, errOps)
		}
		if (err == nil) != sees || (errOp == nil) != sees || len(list) != total || (total == 1) != sees || (totalOps == 1) != sees || len(ops) != totalOps {
			t.Errorf("%s: one %v, event %v, list %d, events %d; want seen: %v", name, err, errOp, total, totalOps, sees)
		}
	}
	for _, viewer := range viewers {
		check(viewer.name, viewer.v, viewer.sees)
	}
	if err := s.SetGrant(t.Context(), restricted, c.ID, account.ReadOnly); err != nil {
		t.Fatal(err)
	}
	check("restricted with grant", store.Viewer{Account: a.Account, User: restricted.ID}, true)
	if err := s.SetGrant(t.Context(), b, c.ID, account.ReadWrite); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("a grant on another account's database: %v", err)
	}
}

func TestPrincipal(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := pgtest.Store(t, pgtest.WithNow(func() time.Time { return now }))
	u := newAccount(t, s, "a")
	hash := store.TokenHash(sha256.Sum256([]byte("secret")))
	expiry := now.Add(time.Hour)
	token, err := s.CreateToken(t.Context(), account.Token{User: u.ID, Label: "l", Scopes: account.FullScopes(), Expiry: &expiry}, hash)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Principal(t.Context(), hash)
	if err != nil || p.User.ID != u.ID || !p.Scopes.All || p.Token != token.ID {
		t.Fatalf("%+v, %v", p, err)
	}
	now = expiry
	if _, err := s.Principal(t.Context(), hash); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("expired: %v", err)
	}
	now = expiry.Add(-time.Minute)
	if err := s.DeleteToken(t.Context(), u.ID, token.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Principal(t.Context(), hash); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("revoked: %v", err)
	}
}

type queryCounter struct {
	mu sync.Mutex
	n  int
}

func (c *queryCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return ctx
}

func (c *queryCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestOneQueryPerRead: no list costs a query per row.
func TestOneQueryPerRead(t *testing.T) {
	t.Parallel()
	counter := &queryCounter{}
	s := pgtest.Store(t, pgtest.WithTracer(counter))
	u := newAccount(t, s, "a")
	for i := range 4 {
		c := newCluster(t, s, u.Account, fmt.Sprintf("many-%d", i))
		if err := s.InTx(t.Context(), func(tx *store.Tx) error {
			_, err := tx.CreateOperation(t.Context(), operation.Operation{Account: u.Account, Cluster: c.ID, Action: operation.Create, Status: operation.Notification})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	v := store.Viewer{Account: u.Account}
	reads := map[string]func() error{
		"clusters":   func() error { _, _, err := s.Clusters(t.Context(), v, "", store.ListQuery{}); return err },
		"operations": func() error { _, _, err := s.Operations(t.Context(), v, store.ListQuery{}); return err },
		"users":      func() error { _, _, err := s.Users(t.Context(), u.Account, store.Page{}); return err },
		"tokens":     func() error { _, _, err := s.Tokens(t.Context(), u.ID, store.Page{}); return err },
		"grants":     func() error { _, err := s.Grants(t.Context(), u); return err },
	}
	for name, read := range reads {
		counter.n = 0
		if err := read(); err != nil {
			t.Fatal(err)
		}
		if counter.n != 1 {
			t.Errorf("%s: %d queries, want 1", name, counter.n)
		}
	}
}

// TestFilterCompiles: whatever the parser accepts is SQL that runs.
func TestFilterCompiles(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	newCluster(t, s, u.Account, "filtered")
	fields := []string{"id", "label", "type", "engine", "version", "region", "status", "created", "updated", "cluster_size"}
	var node func(depth int) *rapid.Generator[string]
	node = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(r *rapid.T) string {
			if depth > 0 && rapid.Bool().Draw(r, "nest") {
				op := rapid.SampledFrom([]string{"+and", "+or"}).Draw(r, "op")
				parts := rapid.SliceOfN(node(depth-1), 0, 3).Draw(r, "parts")
				return fmt.Sprintf(`{%q: [%s]}`, op, strings.Join(parts, ","))
			}
			field := rapid.SampledFrom(fields).Draw(r, "field")
			value := fmt.Sprintf("%q", rapid.SampledFrom([]string{"a'b", `x\\y`, "%", "ü"}).Draw(r, "text"))
			op := rapid.SampledFrom([]string{"", "+neq", "+gt", "+gte", "+lt", "+lte"}).Draw(r, "compare")
			switch store.ClusterFields[field] {
			case filter.Number:
				value = fmt.Sprint(rapid.Int64().Draw(r, "number"))
			case filter.Time:
				value = `"2026-01-31T18:04:05"`
			case filter.Text:
				if rapid.Bool().Draw(r, "contains") {
					op = "+contains"
				}
			}
			if op == "" {
				return fmt.Sprintf(`{%q: %s}`, field, value)
			}
			return fmt.Sprintf(`{%q: {%q: %s}}`, field, op, value)
		})
	}
	rapid.Check(t, func(r *rapid.T) {
		text := node(3).Draw(r, "filter")
		f, err := filter.Parse(text, store.ClusterFields)
		if err != nil {
			r.Fatalf("%s: %v", text, err)
		}
		if _, _, err := s.Clusters(context.Background(), store.Viewer{Account: u.Account}, "", store.ListQuery{Filter: f}); err != nil {
			r.Fatalf("%s: %v", text, err)
		}
	})
}

func TestFilterMeaning(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	for _, label := range []string{"alpha", "beta", "Alphabet"} {
		newCluster(t, s, u.Account, label)
	}
	tests := []struct {
		text string
		want []string
	}{
		{`{"label": "alpha"}`, []string{"alpha"}},
		{`{"label": {"+neq": "alpha"}}`, []string{"beta", "Alphabet"}},
		{`{"label": {"+contains": "ALPHA"}}`, []string{"alpha", "Alphabet"}},
		{`{"+or": [{"label": "beta"}, {"label": "alpha"}]}`, []string{"alpha", "beta"}},
		{`{"+and": []}`, []string{"alpha", "beta", "Alphabet"}},
		{`{"+order_by": "label", "+order": "desc"}`, []string{"beta", "alpha", "Alphabet"}},
		{`{"+order": "desc"}`, []string{"alpha", "beta", "Alphabet"}},
		{`{"created": {"+gt": "2020-01-01T00:00:00"}, "status": "provisioning"}`, []string{"alpha", "beta", "Alphabet"}},
		{`{"created": {"+lt": "2020-01-01T00:00:00Z"}}`, nil},
		{`{"region": null}`, nil},
	}
	for _, test := range tests {
		f, err := filter.Parse(test.text, store.ClusterFields)
		if err != nil {
			t.Fatalf("%s: %v", test.text, err)
		}
		found, total, err := s.Clusters(t.Context(), store.Viewer{Account: u.Account}, "", store.ListQuery{Filter: f})
		if err != nil {
			t.Fatal(err)
		}
		var labels []string
		for _, c := range found {
			labels = append(labels, c.Label)
		}
		if diff := cmp.Diff(test.want, labels); diff != "" || total != len(test.want) {
			t.Errorf("%s: total %d, -want +got\n%s", test.text, total, diff)
		}
	}
}

func TestDueOperations(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := pgtest.Store(t, pgtest.WithNow(func() time.Time { return now }))
	u := newAccount(t, s, "a")
	var op operation.Operation
	if err := s.InTx(t.Context(), func(tx *store.Tx) (err error) {
		op, err = tx.CreateOperation(t.Context(), operation.Operation{Account: u.Account, Cluster: 1, Action: operation.Create, Status: operation.Scheduled})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	due := func() int {
		ids, err := s.DueOperations(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(ids)
	}
	if n := due(); n != 0 {
		t.Errorf("a fresh operation is due: %d", n)
	}
	now = now.Add(store.WakeDelay)
	if first, second := due(), due(); first != 1 || second != 0 {
		t.Errorf("due %d then %d, want 1 then 0", first, second)
	}
	if err := s.WakeAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := due(); n != 1 {
		t.Errorf("after WakeAll %d are due", n)
	}
	if err := s.InTx(t.Context(), func(tx *store.Tx) error {
		return tx.FinishOperation(t.Context(), op.ID, operation.Finished, "")
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.WakeAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := due(); n != 0 {
		t.Errorf("a finished operation is due")
	}
}

func TestEnsureAdmin(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	for range 2 {
		if err := s.InTx(t.Context(), func(tx *store.Tx) error {
			u, err := tx.EnsureAdmin(t.Context())
			if err == nil && (u.Username != "admin" || u.Restricted) {
				t.Errorf("%+v", u)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
