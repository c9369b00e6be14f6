// Package sshlogin tries to log in to a machine over SSH and says how far it got.
package sshlogin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"steward/internal/seal"
)

// Target is where to log in, and with what.
type Target struct {
	// Address is host:port.
	Address string
	User    string
	// Key is the private key, in PEM.
	Key seal.Secret
	// HostKey is the line that the machine's host key must be; "" takes any.
	HostKey string
}

// Step is one thing that was tried. Detail says what was found, or what is wrong.
type Step struct {
	Name   string `json:"step"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// The steps, in their order; the first that fails is the last.
const (
	Reach   = "reach"
	HostKey = "host key"
	LogIn   = "log in"
	Command = "command"
)

// Report is what was found.
type Report struct {
	Steps []Step
	// HostKey is what the machine proved to have, as a line without comment; "" when it
	// didn't get so far.
	HostKey string
}

// OK reports whether all steps went well.
func (r Report) OK() bool {
	last := len(r.Steps) - 1
	return last >= 0 && r.Steps[last].Name == Command && r.Steps[last].OK
}

// patience bounds a whole try: a machine under load takes seconds to log in to.
const patience = 20 * time.Second

// Try logs in and runs `true`. The first step that fails ends it.
func Try(ctx context.Context, to Target) (Report, error) {
	signer, err := ssh.ParsePrivateKey([]byte(to.Key.Reveal()))
	if err != nil {
		return Report{}, errors.New("the account's SSH key can't be read") // the parser's error is of no use, the key is ours
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t := &try{Target: to, signer: signer}
	t.run(ctx)
	return t.report, nil
}

// try is one attempt.
type try struct {
	Target
	signer ssh.Signer
	report Report
	// offered reports whether the machine takes keys, if perhaps not this one.
	offered bool
}

func (t *try) note(step string, ok bool, format string, args ...any) {
	t.report.Steps = append(t.report.Steps, Step{step, ok, fmt.Sprintf(format, args...)})
}

func (t *try) run(ctx context.Context) {
	begun := time.Now()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.Address)
	if err != nil {
		t.note(Reach, false, "%s can't be reached: %v", t.Address, err)
		return
	}
	defer conn.Close()
	// Neither the handshake nor the session knows a context.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	t.note(Reach, true, "%s answers after %s", conn.RemoteAddr(), time.Since(begun).Round(time.Millisecond))
	client, err := t.handshake(conn)
	if err != nil {
		t.explain(ctx, err)
		return
	}
	defer client.Close()
	t.note(LogIn, true, "the account's key is accepted for %s", t.User)
	if err := runTrue(client); err != nil {
		t.note(Command, false, "`true` failed: %v", orTimeout(ctx, err))
		return
	}
	t.note(Command, true, "`true` ran")
}

func (t *try) handshake(conn net.Conn) (*ssh.Client, error) {
	config := &ssh.ClientConfig{
		User: t.User, HostKeyCallback: t.judge, ClientVersion: "SSH-2.0-steward",
		Auth: []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
			t.offered = true
			return []ssh.Signer{t.signer}, nil
		})},
	}
	if known, err := parseKey(t.HostKey); err == nil {
		// A machine has keys of several types: it is to show the one that is known.
		config.HostKeyAlgorithms = algorithms(known.Type())
	}
	c, channels, requests, err := ssh.NewClientConn(conn, t.Address, config)
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}

// errHostKey ends a handshake after judge has said why.
var errHostKey = errors.New("another host key than the known one")

// judge sees the host key when the machine has proved to have its private half.
func (t *try) judge(_ string, _ net.Addr, key ssh.PublicKey) error {
	shown := ssh.FingerprintSHA256(key)
	t.report.HostKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
	switch {
	case t.HostKey == "":
		t.note(HostKey, true, "%s %s, seen for the first time", key.Type(), shown)
	case t.HostKey == t.report.HostKey:
		t.note(HostKey, true, "%s %s, as known", key.Type(), shown)
	default:
		t.note(HostKey, false, "%s %s is not the known %s: another machine answers, or it was set up anew", key.Type(), shown, fingerprint(t.HostKey))
		return errHostKey
	}
	return nil
}

// explain says what a handshake failed of. The library has no types for it: what
// was seen on the way tells more than its texts.
func (t *try) explain(ctx context.Context, err error) {
	_, none := errors.AsType[*ssh.AlgorithmNegotiationError](err)
	refused := strings.Contains(err.Error(), "unable to authenticate")
	switch {
	case errors.Is(err, errHostKey):
	case t.report.HostKey == "" && t.HostKey != "" && none:
		t.note(HostKey, false, "it has no key of the known one's type (%s): %v", fingerprint(t.HostKey), err)
	case t.report.HostKey == "":
		t.note(HostKey, false, "no SSH server answers: %v", orTimeout(ctx, err))
	case refused && t.offered:
		t.note(LogIn, false, "the account's key is refused for %s: see that it is in the user's authorized_keys, and that the server lets the user in", t.User)
	case refused:
		t.note(LogIn, false, "the server lets %s in by no key", t.User)
	default:
		t.note(LogIn, false, "the connection ended: %v", orTimeout(ctx, err))
	}
}

func runTrue(client *ssh.Client) error {
	session, err := client.NewSession()
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	defer session.Close()
	return session.Run("true")
}

// orTimeout is what made the connection end, when that was us.
func orTimeout(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("no answer in time")
	}
	return err
}

func parseKey(line string) (ssh.PublicKey, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	return key, err
}

func fingerprint(line string) string {
	key, err := parseKey(line)
	if err != nil {
		return "key, which can't be read"
	}
	return key.Type() + " " + ssh.FingerprintSHA256(key)
}

// algorithms are what a host key of a type can prove itself with (RFC 8332).
func algorithms(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{keyType}
}
