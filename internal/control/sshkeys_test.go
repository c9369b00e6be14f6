package control_test

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// TestOneSSHKeyForAll: however many servers are asked first at the same time,
// an account has one key, and its halves belong together.
func TestOneSSHKeyForAll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p, other := b.tenant("one"), b.tenant("two")
	second := control.New(control.Deps{
		Store: pgtest.Open(t, store.Options{
			URL: b.store.Pool().Config().ConnString(), MaxConns: 8, Sealer: pgtest.Sealer(), Logger: slog.New(slog.DiscardHandler),
		}),
	})
	const askers = 12
	keys, errs := make([]string, askers), make([]error, askers)
	begin := make(chan struct{})
	var asked sync.WaitGroup
	for i := range askers {
		server := b.Control
		if i%2 == 1 {
			server = second
		}
		asked.Go(func() {
			<-begin
			keys[i], errs[i] = server.SSHKeys.View(t.Context(), p)
		})
	}
	close(begin)
	asked.Wait()
	for i, key := range keys {
		if errs[i] != nil || key != keys[0] {
			t.Fatalf("asker %d got %q, %v; the first one %q", i, key, errs[i], keys[0])
		}
	}
	public, comment, _, rest, err := ssh.ParseAuthorizedKey([]byte(keys[0]))
	if err != nil || public.Type() != ssh.KeyAlgoED25519 || comment != fmt.Sprintf("managed-service@steward-account-%d", p.Account) || len(rest) > 0 {
		t.Fatalf("%q: %v, comment %q", keys[0], err, comment)
	}
	pair, err := b.store.SSHKey(t.Context(), p.Account)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey([]byte(pair.Private.Reveal()))
	if err != nil {
		t.Fatal(err)
	}
	signature, err := signer.Sign(rand.Reader, []byte("text"))
	if err != nil || public.Verify([]byte("text"), signature) != nil {
		t.Errorf("the private half doesn't belong to the public one: %v", err)
	}
	if theirs, err := b.SSHKeys.View(t.Context(), other); err != nil || theirs == keys[0] {
		t.Errorf("another account's key: %q, %v", theirs, err)
	}
	limited := b.restricted(p.Account, "limited")
	if _, err := b.SSHKeys.View(t.Context(), limited); kind(err) != fault.Forbidden {
		t.Errorf("a restricted user: %v", err)
	}
}

// TestSSHKeyIsSealed: the private half is bound to its account.
func TestSSHKeyIsSealed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p, other := b.tenant("one"), b.tenant("two")
	for _, owner := range []account.Principal{p, other} {
		if _, err := b.SSHKeys.View(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
	}
	var sealed string
	err := b.store.Pool().QueryRow(t.Context(), "SELECT encode(sealed, 'escape') FROM account_keys WHERE account_id = $1", p.Account).Scan(&sealed)
	if want := fmt.Sprintf("account/%d/ssh", p.Account); err != nil || !strings.HasPrefix(sealed, want) {
		t.Errorf("sealed for another place than %s: %v", want, err)
	}
	_, err = b.store.Pool().Exec(t.Context(), "UPDATE account_keys SET sealed = (SELECT sealed FROM account_keys WHERE account_id = $1) WHERE account_id = $2", p.Account, other.Account)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.SSHKey(t.Context(), other.Account); err == nil {
		t.Error("another account's private key could be put in its place")
	}
}
