// Package notifytest is a mail server for tests: a real one on a loopback port, with
// a mailbox to wait on and faults to switch on.
package notifytest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"steward/internal/testdir"
)

// Stage is where in the conversation a fault is.
type Stage string

// The stages, in their order.
const (
	OnConnect Stage = "connect"
	OnMail    Stage = "mail"
	OnRcpt    Stage = "rcpt"
	// OnBody is in the middle of the message, OnDone after its end.
	OnBody Stage = "body"
	OnDone Stage = "done"
)

// Fault is something that goes wrong. The first that matches takes effect.
type Fault struct {
	At Stage
	// To is the recipient that it is for; "" is anybody. It is known from OnRcpt on.
	To string
	// Times is how often; 0 is for ever.
	Times int
	// Delay goes before everything else.
	Delay time.Duration
	// Code is the reply, such as 451 or 550; 0 is none.
	Code int
	// Close ends the connection, at OnDone after the message was put into the mailbox.
	Close bool
	// Hang says nothing any more until the server is healed or closed.
	Hang bool
}

// Options are what a Server is made of; the zero value is a server without TLS and
// authentication.
type Options struct {
	// TLS has STARTTLS offered, Implicit TLS from the first byte on.
	TLS, Implicit bool
	// Username and Password are asked for when set, by PLAIN or, with Login, by LOGIN.
	Username, Password string
	Login              bool
	// SMTPUTF8 takes addresses that aren't ASCII.
	SMTPUTF8 bool
}

// Server is a mail server with one mailbox for everything.
type Server struct {
	// Address is host:port, CAFile the certificate to trust; "" without TLS.
	Address, CAFile string

	o       Options
	secrets *tls.Config

	mu       sync.Mutex
	changed  chan struct{}
	healed   chan struct{}
	mails    []Mail
	faults   []*Fault
	open     int
	sessions int
	most     int
	stop     func() // nil while it is down
}

// Start runs a server until the test's end.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{o: o, changed: make(chan struct{}), healed: make(chan struct{}), Address: fmt.Sprintf("127.0.0.1:%d", testdir.Ports(t, 1))}
	if o.TLS || o.Implicit {
		certificate, text := certificate(t)
		s.secrets = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
		s.CAFile = filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(s.CAFile, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.Up(t)
	t.Cleanup(s.Down)
	return s
}

// Up lets a server that is down answer again, at its old address.
func (s *Server) Up(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	server := smtp.NewServer(smtp.BackendFunc(s.session))
	server.Domain, server.ErrorLog = "mail.example.org", log.New(io.Discard, "", 0)
	server.AllowInsecureAuth, server.EnableSMTPUTF8 = true, s.o.SMTPUTF8
	if s.o.TLS {
		server.TLSConfig = s.secrets
	}
	serves := l
	if s.o.Implicit {
		serves = tls.NewListener(l, s.secrets)
	}
	stopped := make(chan struct{})
	s.mu.Lock()
	s.stop = func() {
		_ = testdir.Free(l) // first: Serve, when it begins only now, never learns of Close
		_ = server.Close()
		<-stopped
	}
	s.mu.Unlock()
	go func() {
		defer close(stopped)
		_ = server.Serve(serves) // it ends with Down
	}()
}

// Down closes the port and every connection. The mailbox stays.
func (s *Server) Down() {
	s.Heal()
	s.mu.Lock()
	stop := s.stop
	s.stop = nil
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// URL is what smtp.url is set to for this server, with options such as "tls=required".
func (s *Server) URL(options ...string) string {
	scheme, user, query := "smtp", "", ""
	if s.o.Implicit {
		scheme = "smtps"
	}
	if s.o.Username != "" {
		user = s.o.Username + ":" + s.o.Password + "@"
	}
	if len(options) > 0 {
		query = "?" + strings.Join(options, "&")
	}
	return fmt.Sprintf("%s://%s%s%s", scheme, user, s.Address, query)
}

// Fail switches faults on, beside those that are.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		s.faults = append(s.faults, &f)
	}
}

// Heal switches all faults off and lets go of what hangs.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
	close(s.healed)
	s.healed = make(chan struct{})
}

// Connections is how many there have been since the start, Most how many at once.
func (s *Server) Connections() (all, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions, s.most
}

// fault is the one for this moment, if any.
func (s *Server) fault(at Stage, to string) (Fault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.At != at || f.To != "" && f.To != to {
			continue
		}
		found := *f
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
		}
		return found, true
	}
	return Fault{}, false
}

// errClosed is never seen by the client: its connection is gone.
var errClosed = errors.New("closed on purpose")

// suffer carries the fault of this moment out, if there is one.
func (s *Server) suffer(c *smtp.Conn, at Stage, to string) error {
	f, found := s.fault(at, to)
	if !found {
		return nil
	}
	if err := s.before(f); err != nil {
		return err
	}
	return s.after(c, f)
}

// before is what keeps a message from being taken.
func (s *Server) before(f Fault) error {
	if f.Delay > 0 {
		select {
		case <-s.healing():
		case <-time.After(f.Delay):
		}
	}
	if f.Code != 0 {
		return &smtp.SMTPError{Code: f.Code, EnhancedCode: smtp.EnhancedCode{f.Code / 100, 3, 0}, Message: "fault on purpose"}
	}
	return nil
}

// after is what keeps the client from an answer.
func (s *Server) after(c *smtp.Conn, f Fault) error {
	if f.Hang {
		<-s.healing()
	}
	if f.Hang || f.Close {
		_ = c.Conn().Close()
		return errClosed
	}
	return nil
}

func (s *Server) healing() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.healed
}

// session is a conversation.
type session struct {
	s        *Server
	conn     *smtp.Conn
	number   int
	user     string
	from, to string
}

func (s *Server) session(c *smtp.Conn) (smtp.Session, error) {
	s.mu.Lock()
	s.sessions++
	s.open++
	s.most = max(s.most, s.open)
	of := &session{s: s, conn: c, number: s.sessions}
	s.mu.Unlock()
	if err := s.suffer(c, OnConnect, ""); err != nil {
		_ = of.Logout()
		return nil, err
	}
	return of, nil
}

func (c *session) AuthMechanisms() []string {
	if c.s.o.Username == "" {
		return nil
	}
	if c.s.o.Login {
		return []string{sasl.Login}
	}
	return []string{sasl.Plain}
}

func (c *session) Auth(mechanism string) (sasl.Server, error) {
	check := func(username, password string) error {
		if username != c.s.o.Username || password != c.s.o.Password {
			return smtp.ErrAuthFailed
		}
		c.user = username
		return nil
	}
	if mechanism == sasl.Login {
		return &login{check: check}, nil
	}
	return sasl.NewPlainServer(func(_, username, password string) error { return check(username, password) }), nil
}

// login is the mechanism LOGIN: name and password, asked for one after the other.
type login struct {
	check    func(username, password string) error
	asked    int
	username string
}

// Next implements sasl.Server.
func (l *login) Next(response []byte) (challenge []byte, done bool, err error) {
	l.asked++
	switch l.asked {
	case 1:
		return []byte("Username:"), false, nil
	case 2:
		l.username = string(response)
		return []byte("Password:"), false, nil
	}
	return nil, true, l.check(l.username, string(response))
}

func (c *session) Mail(from string, _ *smtp.MailOptions) error {
	if c.s.o.Username != "" && c.user == "" {
		return smtp.ErrAuthRequired
	}
	c.from = from
	return c.s.suffer(c.conn, OnMail, "")
}

func (c *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	c.to = to
	return c.s.suffer(c.conn, OnRcpt, to)
}

func (c *session) Data(r io.Reader) error {
	if err := c.s.suffer(c.conn, OnBody, c.to); err != nil {
		return err
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	mail, err := parse(raw)
	if err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "not a message: " + err.Error()}
	}
	fault, found := c.s.fault(OnDone, c.to)
	if err := c.s.before(fault); err != nil {
		return err
	}
	_, mail.TLS = c.conn.TLSConnectionState()
	mail.EnvelopeFrom, mail.EnvelopeTo, mail.User, mail.Connection, mail.At = c.from, c.to, c.user, c.number, time.Now()
	c.s.put(mail)
	if found {
		return c.s.after(c.conn, fault)
	}
	return nil
}

func (c *session) Reset() {}

func (c *session) Logout() error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.open--
	return nil
}
