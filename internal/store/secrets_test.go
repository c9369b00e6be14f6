package store_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/pgtest"
	"steward/internal/platform"
	"steward/internal/store"
)

func TestSecrets(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	ctx := t.Context()
	u := newAccount(t, s, "a")
	one, two := newCluster(t, s, u.Account, "one"), newCluster(t, s, u.Account, "two")
	want := func(id cluster.ID, name platform.SecretName, value string) {
		t.Helper()
		if got, err := s.Secret(ctx, id, name); err != nil || string(got) != value {
			t.Errorf("%s of %d: %q, %v; want %q", name, id, got, err, value)
		}
	}
	want(one.ID, platform.RootPassword, "root of one")
	want(one.ID, platform.CAKey, "key of one")
	want(two.ID, platform.RootPassword, "root of two")
	if _, err := s.Secret(ctx, one.ID, platform.Keyring); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("one that isn't there: %v", err)
	}
	for _, value := range []string{"new", "newer", ""} {
		if err := s.SaveSecret(ctx, one.ID, platform.RootPassword, []byte(value)); err != nil {
			t.Fatal(err)
		}
		want(one.ID, platform.RootPassword, value)
	}
	want(two.ID, platform.RootPassword, "root of two")
	// Moved to another row by somebody with access to the store, it is worthless.
	if _, err := s.Pool().Exec(ctx, `UPDATE cluster_secrets t SET sealed = f.sealed FROM cluster_secrets f
		WHERE t.cluster_id = $1 AND f.cluster_id = $2 AND t.name = f.name`, one.ID, two.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Secret(ctx, one.ID, platform.CAKey); err == nil {
		t.Errorf("another database's secret was unsealed: %q", got)
	}
}

// slowSealer is a key service that doesn't answer until it is let.
type slowSealer struct {
	store.Sealer
	asked, answer chan struct{}
}

func (s slowSealer) Seal(ctx context.Context, plaintext []byte, place string) ([]byte, error) {
	s.asked <- struct{}{}
	<-s.answer
	return s.Sealer.Seal(ctx, plaintext, place)
}

// TestSealingHoldsNobodyUp: while one create waits for the key service, others get their ports.
func TestSealingHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	slow := slowSealer{pgtest.Sealer(), make(chan struct{}, 10), make(chan struct{})}
	a := pgtest.Open(t, store.Options{URL: url, Sealer: slow, Logger: slog.New(slog.DiscardHandler)})
	b := pgtest.Open(t, store.Options{URL: url, Sealer: pgtest.Sealer(), Logger: slog.New(slog.DiscardHandler)})
	u := newAccount(t, b, "a")
	done := make(chan error, 1)
	go func() {
		_, err := create(context.Background(), a, u.Account, spec("slow"))
		done <- err
	}()
	<-slow.asked
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := create(ctx, b, u.Account, spec("quick")); err != nil {
		t.Errorf("held up: %v", err)
	}
	close(slow.answer)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
