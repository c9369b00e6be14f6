package store_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/cluster"
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

// ports is a range that a test can use up.
var ports = store.Ports{First: 21000, Last: 21031}

func spec(label string) cluster.Spec {
	return cluster.Spec{
		Label: label, Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: "g6-nanode-1", Size: 1,
		SSLConnection: true, AllowList: cluster.AllowList{"127.0.0.1"}, Replication: cluster.ReplicationNone,
		Commit: cluster.CommitLocal, Updates: cluster.DefaultWindow(1),
	}
}

func create(ctx context.Context, s *store.Store, owner account.ID, spec cluster.Spec) (c cluster.Cluster, err error) {
	err = s.InTx(ctx, func(tx *store.Tx) (err error) {
		c, err = tx.CreateCluster(ctx, cluster.Cluster{Account: owner, Spec: spec}, map[platform.SecretName][]byte{
			platform.RootPassword: []byte("root of " + spec.Label), platform.CAKey: []byte("key of " + spec.Label),
		}, ports)
		return err
	})
	return c, err
}

func newCluster(t *testing.T, s *store.Store, owner account.ID, label string) cluster.Cluster {
	t.Helper()
	c, err := create(t.Context(), s, owner, spec(label))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newOperation(t *testing.T, s *store.Store, o operation.Operation) operation.Operation {
	t.Helper()
	inTx(t, s, func(tx *store.Tx) (err error) {
		o, err = tx.CreateOperation(t.Context(), o)
		return err
	})
	return o
}

// inTx is a transaction that must succeed.
func inTx(t *testing.T, s *store.Store, f func(tx *store.Tx) error) {
	t.Helper()
	if err := s.InTx(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func TestTransactionIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	failure := errors.New("on purpose")
	count := func() (n int) {
		if err := s.Pool().QueryRow(t.Context(), "SELECT count(*) FROM clusters").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	err := s.InTx(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.CreateCluster(t.Context(), cluster.Cluster{Account: u.Account, Spec: spec("gone")}, nil, ports); err != nil {
			return err
		}
		return failure
	})
	if !errors.Is(err, failure) || count() != 0 {
		t.Errorf("%v, %d rows", err, count())
	}
	func() {
		defer func() { _ = recover() }()
		_ = s.InTx(t.Context(), func(tx *store.Tx) error {
			_, _ = tx.CreateCluster(t.Context(), cluster.Cluster{Account: u.Account, Spec: spec("gone")}, nil, ports)
			panic(failure)
		})
	}()
	if count() != 0 {
		t.Error("what panicked was committed")
	}
	newCluster(t, s, u.Account, "kept") // and the port's lock was let go of
}

func TestOpenRefusesWithoutTellingThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:hunter2@%zz/x", "postgres://u:hunter2@127.0.0.1:1/x?connect_timeout=2", "host=/nowhere password=hunter2"} {
		_, err := store.Open(t.Context(), store.Options{URL: url})
		if err == nil {
			t.Errorf("%s was opened", url)
		} else if text := err.Error(); len(text) == 0 || strings.Contains(text, "hunter2") {
			t.Errorf("%s", text)
		}
	}
}

// queries counts what is sent to the database.
type queries struct {
	mu   sync.Mutex
	sent []string
}

func (q *queries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent = append(q.sent, data.SQL)
	return ctx
}

func (q *queries) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// want runs f and fails unless it sent n queries.
func (q *queries) want(t *testing.T, name string, n int, f func() error) {
	t.Helper()
	q.sent = nil
	if err := f(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(q.sent) != n {
		t.Errorf("%s: %d queries, want %d: %q", name, len(q.sent), n, q.sent)
	}
}

// TestOneQueryPerRead: no list costs a query per row, and no single read two.
func TestOneQueryPerRead(t *testing.T) {
	t.Parallel()
	q := &queries{}
	s := pgtest.Store(t, pgtest.WithTracer(q))
	u := newAccount(t, s, "a")
	var c cluster.Cluster
	var o operation.Operation
	for _, label := range []string{"one", "two", "three"} {
		c = newCluster(t, s, u.Account, label)
		o = newOperation(t, s, operation.Operation{Account: u.Account, Cluster: c.ID, Action: operation.Create, Status: operation.Notification})
		if _, err := s.CreateToken(t.Context(), account.Token{User: u.ID, Scopes: account.FullScopes()}, hashOf(label)); err != nil {
			t.Fatal(err)
		}
	}
	v := store.Viewer{Account: u.Account}
	ctx := t.Context()
	for name, read := range map[string]func() error{
		"principal":  func() error { _, err := s.Principal(ctx, hashOf("one")); return err },
		"cluster":    func() error { _, err := s.Cluster(ctx, v, cluster.PostgreSQL, c.ID); return err },
		"clusters":   func() error { _, _, err := s.Clusters(ctx, v, "", store.ListQuery{}); return err },
		"for work":   func() error { _, err := s.ClustersForWork(ctx); return err },
		"secret":     func() error { _, err := s.Secret(ctx, c.ID, platform.CAKey); return err },
		"operation":  func() error { _, err := s.Operation(ctx, v, o.ID); return err },
		"operations": func() error { _, _, err := s.Operations(ctx, v, store.ListQuery{}); return err },
		"users":      func() error { _, _, err := s.Users(ctx, u.Account, store.ListQuery{}); return err },
		"tokens":     func() error { _, _, err := s.Tokens(ctx, u.ID, store.ListQuery{}); return err },
		"grants":     func() error { _, err := s.Grants(ctx, u); return err },
	} {
		q.want(t, name, 1, read)
	}
}
