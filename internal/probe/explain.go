package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"steward/internal/monitor"
	"steward/internal/spell"
)

// failure is what is wrong, in the words that customers read. It never holds
// anything that the other side sent.
type failure struct {
	class  monitor.Class
	detail string
}

func (f *failure) Error() string { return f.detail }

// phase is what a check waits for.
type phase int

const (
	connecting phase = iota
	securing
	waiting
	reading
)

// missed says what a phase didn't see in time.
var missed = [...]string{
	connecting: "No connection was made within %s.",
	securing:   "TLS was not agreed on within %s.",
	waiting:    "No answer came within %s.",
	reading:    "The answer wasn't complete within %s.",
}

// explain finds the words for an error; each rule is asked in turn.
func (c *check) explain(ctx context.Context, err error) *failure {
	if until, ok := ctx.Deadline(); ctx.Err() != nil || ok && !time.Now().Before(until) { // a dialer may see the deadline first
		return &failure{monitor.Inconclusive, "The check was broken off."}
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	for _, rule := range []func(error) *failure{c.ours, c.names, c.timeout, c.secure, c.connection} {
		if f := rule(err); f != nil {
			return f
		}
	}
	return &failure{monitor.Protocol, "The server's answer is not valid HTTP."}
}

// ours is for what says nothing about the service.
func (c *check) ours(err error) *failure {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return &failure{monitor.Inconclusive, "The monitor is out of resources."}
		}
	}
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return &failure{monitor.Inconclusive, "The monitor may not connect: a firewall of its own forbids it."}
	case errors.Is(err, syscall.EAFNOSUPPORT), (errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EADDRNOTAVAIL)) && !routed(err):
		return &failure{monitor.Inconclusive, "The monitor has no route to the address."}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return &failure{monitor.Inconclusive, "The monitor has no free port or no address to connect from."}
	}
	return nil
}

// routed reports whether there was a route to where connecting failed.
func routed(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	if !ok {
		return true
	}
	to, ok := failed.Addr.(*net.TCPAddr)
	return ok && hasRoute(to.AddrPort())
}

// serverFailure is what net makes of SERVFAIL.
const serverFailure = "server misbehaving"

func (c *check) names(err error) *failure {
	dns, ok := errors.AsType[*net.DNSError](err)
	if !ok {
		return nil
	}
	switch {
	case dns.IsNotFound:
		return &failure{monitor.NotResolved, "The host name doesn't exist or has no address."}
	case dns.IsTimeout:
		return &failure{monitor.NotResolved, "The host name couldn't be looked up in time."}
	case dns.IsTemporary && dns.Err != serverFailure: // a socket of ours: net keeps no more of it than the text
		return &failure{monitor.Inconclusive, "The monitor can't reach its name server."}
	}
	return &failure{monitor.NotResolved, "The name servers of the host name fail."}
}

func (c *check) timeout(err error) *failure {
	slow, ok := errors.AsType[net.Error](err)
	if (!ok || !slow.Timeout()) && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	if time.Now().Before(c.deadline) && c.phase == connecting {
		return &failure{monitor.TimedOut, "The host doesn't answer connections."} // ETIMEDOUT by the kernel
	}
	return &failure{monitor.TimedOut, fmt.Sprintf(missed[c.phase], spell.Duration(c.Timeout))}
}

func (c *check) secure(err error) *failure {
	bad := func(detail string) *failure { return &failure{monitor.TLS, detail} }
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" { // crypto/tls's word, also after the handshake
		return bad("The server ended TLS with an alert.")
	}
	if c.phase != securing {
		return nil
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		switch {
		case invalid.Reason != x509.Expired:
			return bad("The certificate is not valid for a server.")
		case time.Now().Before(invalid.Cert.NotBefore):
			return bad("The certificate is not valid yet.")
		}
		return bad("The certificate has expired.")
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return bad("The certificate is for another host name.")
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return bad("The certificate was signed by an unknown authority.")
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return bad("The certificate is not valid.")
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return bad("The server does not speak TLS there.")
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return &failure{monitor.Reset, "The connection was closed during the TLS handshake."}
	}
	return bad("TLS could not be agreed on.")
}

func (c *check) connection(err error) *failure {
	if b, ok := errors.AsType[*blockedError](err); ok {
		return &failure{monitor.Blocked, string(b.why)}
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return &failure{monitor.Refused, "The connection was refused."}
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTDOWN):
		return &failure{monitor.Unreachable, "The host can't be reached."}
	case c.phase == connecting:
		return &failure{monitor.Unreachable, "No connection can be made."}
	case errors.Is(err, errTooMuch):
		return &failure{monitor.Protocol, "The server sends too much around its answer."}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return &failure{monitor.Reset, "The connection was reset."}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		if c.phase == reading {
			return &failure{monitor.Reset, "The connection was closed in the middle of the answer."}
		}
		return &failure{monitor.Reset, "The connection was closed without an answer."}
	}
	return nil
}
