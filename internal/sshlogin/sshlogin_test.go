package sshlogin_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"steward/internal/seal"
	"steward/internal/sshlogin"
	"steward/internal/sshlogin/sshdtest"
	"steward/internal/testdir"
)

// key is a new pair: the private half sealed as steward has it.
func key(t *testing.T) (public string, private seal.Secret) {
	t.Helper()
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	line, err := ssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(priv, "")
	if err != nil {
		t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(line)), seal.NewSecret(string(pem.EncodeToMemory(block)))
}

// attempt tries and wants the given steps to go well, and the next one to fail
// with the text, unless that is "".
func attempt(t *testing.T, to sshlogin.Target, well []string, failed, text string) sshlogin.Report {
	t.Helper()
	report, err := sshlogin.Try(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, s := range report.Steps {
		fmt.Fprintf(&got, "%s %v: %s\n", s.Name, s.OK, s.Detail)
	}
	want := len(well)
	if failed != "" {
		want++
	}
	if len(report.Steps) != want || report.OK() != (failed == "") {
		t.Fatalf("OK is %v after %d steps, want %d:\n%s", report.OK(), len(report.Steps), want, got.String())
	}
	for i, name := range well {
		if s := report.Steps[i]; s.Name != name || !s.OK {
			t.Errorf("step %d isn't %s, done well:\n%s", i, name, got.String())
		}
	}
	if last := report.Steps[want-1]; failed != "" && (last.Name != failed || last.OK || !strings.Contains(last.Detail, text)) {
		t.Errorf("the end isn't %s with %q:\n%s", failed, text, got.String())
	}
	return report
}

var all = []string{sshlogin.Reach, sshlogin.HostKey, sshlogin.LogIn, sshlogin.Command}

func TestLogIn(t *testing.T) {
	t.Parallel()
	s := sshdtest.New(t)
	public, private := key(t)
	other, _ := key(t)
	to := sshlogin.Target{Address: s.Address, User: s.User, Key: private}
	s.Allow(other)
	attempt(t, to, all[:2], sshlogin.LogIn, "the account's key is refused for "+s.User)
	s.Allow(other, public)
	first := attempt(t, to, all, "", "")
	if !strings.HasPrefix(first.HostKey, "ssh-ed25519 AAAA") || !strings.Contains(first.Steps[1].Detail, "for the first time") {
		t.Errorf("host key %q, %s", first.HostKey, first.Steps[1].Detail)
	}
	to.HostKey = first.HostKey
	if again := attempt(t, to, all, "", ""); !strings.Contains(again.Steps[1].Detail, "as known") {
		t.Error(again.Steps[1].Detail)
	}
	nobody := to
	nobody.User = "no-such-user"
	attempt(t, nobody, all[:2], sshlogin.LogIn, "refused for no-such-user")
	s.Allow(`command="exit 3" ` + public)
	attempt(t, to, all[:3], sshlogin.Command, "status 3")
}

func TestChangedHostKey(t *testing.T) {
	t.Parallel()
	s := sshdtest.New(t)
	public, private := key(t)
	s.Allow(public)
	to := sshlogin.Target{Address: s.Address, User: s.User, Key: private}
	to.HostKey = attempt(t, to, all, "", "").HostKey
	for kind, text := range map[string]string{"ed25519": "another machine answers", "ecdsa": "no key of the known one's type"} {
		s.NewHostKey(kind)
		attempt(t, to, all[:1], sshlogin.HostKey, text)
	}
	// A machine with an RSA key is known by it, too.
	s.NewHostKey("rsa")
	to.HostKey = ""
	to.HostKey = attempt(t, to, all, "", "").HostKey
	attempt(t, to, all, "", "")
}

func TestServerWithoutKeys(t *testing.T) {
	t.Parallel()
	s := sshdtest.New(t, "PubkeyAuthentication no", "HostbasedAuthentication yes")
	_, private := key(t)
	attempt(t, sshlogin.Target{Address: s.Address, User: s.User, Key: private}, all[:2], sshlogin.LogIn, "by no key")
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	_, private := key(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	testdir.Serve(t, l, func(conn net.Conn) { _, _ = conn.Write([]byte("220 mail.example.org ESMTP\r\n")) })
	to := sshlogin.Target{Address: l.Addr().String(), User: "root", Key: private}
	attempt(t, to, all[:1], sshlogin.HostKey, "no SSH server answers")
	to.Address = testdir.Refused(t)
	attempt(t, to, nil, sshlogin.Reach, "can't be reached")
	if _, err := sshlogin.Try(t.Context(), sshlogin.Target{Key: seal.NewSecret("secret")}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a key that is none: %v", err)
	}
}

// TestSilentServer: one that says nothing holds nobody up longer than it is given.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	_, private := key(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	report, err := sshlogin.Try(ctx, sshlogin.Target{Address: l.Addr().String(), User: "root", Key: private})
	if err != nil || len(report.Steps) != 2 || report.Steps[1].OK || !strings.Contains(report.Steps[1].Detail, "no answer in time") {
		t.Errorf("%+v, %v", report, err)
	}
}
