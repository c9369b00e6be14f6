// Package pgtest gives each test a store of its own: a database on a PostgreSQL
// that is started once per test process and ends with it, however that ends.
// Set STEWARD_TEST_DATABASE to a URL to use a server that runs already.
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
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/store"
)

// Main runs the tests and waits for the server's end; call it from TestMain.
// Without it, or when the process is killed, the server ends as well, a moment later.
func Main(m *testing.M) {
	code := m.Run()
	shared.stop()
	os.Exit(code)
}

// URL is an empty database for one test.
func URL(t testing.TB) string {
	t.Helper()
	return shared.start(t).emptyDatabase(t)
}

// MigratedURL is a migrated store's database for one test.
func MigratedURL(t testing.TB) string {
	t.Helper()
	return shared.start(t).migratedDatabase(t)
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
	o := store.Options{URL: MigratedURL(t), MaxConns: 8, Sealer: plain{}, Logger: slog.New(slog.DiscardHandler)}
	for _, option := range options {
		option(&o)
	}
	return Open(t, o)
}

// Open opens a store, closed at the test's end.
func Open(t testing.TB, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// emptyDatabase is one without any tables, for as long as the test takes.
func (s *server) emptyDatabase(t testing.TB) string {
	t.Helper()
	name := "test_" + random()
	if err := s.create(name, "template1"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.drop(name); err != nil {
			t.Error(err)
		}
	})
	return databaseURL(s.url, name)
}

// create copies a template. To copy its files takes less of the processor than to read and write its rows anew.
func (s *server) create(name, template string) error {
	return s.administer("CREATE DATABASE " + name + " TEMPLATE " + template + " STRATEGY FILE_COPY")
}

func (s *server) drop(name string) error {
	return s.administer("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)")
}

func databaseURL(server, name string) string {
	u, err := url.Parse(server)
	if err != nil {
		panic(err) // start has parsed it
	}
	u.Path = "/" + name
	return u.String()
}

func random() string {
	raw := make([]byte, 8)
	if _, err := rand.Read(raw); err != nil {
		panic(err) // crypto/rand doesn't fail
	}
	return hex.EncodeToString(raw)
}

// Logger writes warnings and errors to standard error.
func Logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})).With("test", t.Name())
}

// Sealer marks a value with its place instead of sealing it: package seal has
// tests of its own, and in others it matters only that the place is right.
func Sealer() store.Sealer { return plain{} }

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
