// Package pgtest gives each test a store of its own: a database on a PostgreSQL
// that is started once per test process, and ended with it. Set
// STEWARD_TEST_DATABASE to a URL to use a server that runs already.
package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/store"
)

var server struct {
	sync.Mutex
	url  string
	stop func()
}

// Main runs the tests and ends the server; call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	server.Lock()
	if server.stop != nil {
		server.stop()
	}
	os.Exit(code)
}

// URL is an empty database for one test.
func URL(t testing.TB) string {
	t.Helper()
	admin := start(t)
	raw := make([]byte, 8)
	if _, err := rand.Read(raw); err != nil {
		t.Fatal(err)
	}
	name := "test_" + hex.EncodeToString(raw)
	ctx := context.Background()
	exec(ctx, t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() { exec(ctx, t, admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func exec(ctx context.Context, t testing.TB, admin, sql string) {
	t.Helper()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatal(err)
	}
}

func start(t testing.TB) string {
	t.Helper()
	server.Lock()
	defer server.Unlock()
	if server.url == "" {
		if server.url = os.Getenv("STEWARD_TEST_DATABASE"); server.url != "" {
			return server.url
		}
		server.url, server.stop = startServer(t)
	}
	return server.url
}

func startServer(t testing.TB) (string, func()) {
	dir, err := os.MkdirTemp("", "steward-pgtest-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	e, err := store.StartEmbedded(context.Background(), store.EmbeddedOptions{Dir: dir + "/store", RunDir: dir + "/run", Logger: Logger(t)})
	if err != nil {
		os.RemoveAll(dir)
		t.Fatal(err)
	}
	return e.URL(), func() {
		if err := e.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
		}
		os.RemoveAll(dir)
	}
}

// Option changes the store's options.
type Option func(*store.Options)

// WithNow sets the store's clock.
func WithNow(now func() time.Time) Option { return func(o *store.Options) { o.Now = now } }

// WithTracer shows every query to the tracer.
func WithTracer(tracer pgx.QueryTracer) Option { return func(o *store.Options) { o.Tracer = tracer } }

// Store is a migrated store of the test's own, closed at its end.
func Store(t testing.TB, options ...Option) *store.Store {
	t.Helper()
	o := store.Options{URL: URL(t), MaxConns: 8, Sealer: plain{}, Logger: slog.New(slog.DiscardHandler)}
	for _, option := range options {
		option(&o)
	}
	s, err := store.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Logger writes to the test's log.
func Logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	fmt.Fprint(os.Stderr, w.t.Name()+": "+string(line)) // not t.Log: the server outlives its first test
	return len(line), nil
}

// plain marks a value with its place instead of sealing it: package seal has
// tests of its own, and here it matters only that the place is right.
type plain struct{}

func (plain) Seal(_ context.Context, value []byte, place string) ([]byte, error) {
	return append([]byte(place+"\x00"), value...), nil
}

func (plain) Unseal(_ context.Context, sealed []byte, place string) ([]byte, error) {
	value, ok := strings.CutPrefix(string(sealed), place+"\x00")
	if !ok {
		return nil, fmt.Errorf("sealed for another place than %s", place)
	}
	return []byte(value), nil
}
