// Package email sends notices by SMTP.
package email

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/mail"
	"os"
	"sync"
	"time"

	"steward/internal/monitor"
	"steward/internal/notify"
)

// Options are what a Sender is made of.
type Options struct {
	// URL is smtp://[user:password@]host[:587][?tls=required|opportunistic|none], or
	// smtps://… for TLS from the first byte on. tls is required unless the host is
	// this machine, where it is opportunistic.
	URL string
	// From is who notices come from: an address, or "Name <address>".
	From string
	// CAFile has certificates to trust beside the system's; "" is none.
	CAFile string
	// Hello is how steward introduces itself to the server; "" is this machine's name.
	Hello string
	// Patience bounds the connecting and each command; a minute unless set.
	Patience time.Duration
}

const (
	defaultPatience = time.Minute
	connectTime     = 10 * time.Second
	// acceptTime is RFC 5321's for the answer to a whole message (4.5.3.2.6): giving
	// up earlier sends twice what a slow filter took after all.
	acceptTime = 10 * time.Minute
	// lastTime is how long that answer is waited for when steward stops.
	lastTime = 5 * time.Second
	// idleTime is how long an unused connection is kept for the next notice.
	idleTime = 10 * time.Second
	// perConnection is how many messages a connection carries: servers have limits.
	perConnection = 50
)

// Sender sends by way of one mail server.
type Sender struct {
	server server
	from   *mail.Address
	tls    *tls.Config
	hello  string
	wait   time.Duration

	mu     sync.Mutex
	idle   []*session
	closed bool
}

var _ notify.Sender = (*Sender)(nil)

// New checks the options; it doesn't connect.
func New(o Options) (*Sender, error) {
	server, errURL := parseURL(o.URL)
	if errURL != nil {
		errURL = fmt.Errorf("smtp.url: %w", errURL)
	}
	from, errFrom := parseFrom(o.From)
	if errFrom == nil && !ascii(from.Address) {
		errFrom = errors.New("the address must be ASCII: write its domain as xn--…")
	}
	if errFrom != nil {
		errFrom = fmt.Errorf("smtp.from: %w", errFrom)
	}
	pool, errCA := roots(o.CAFile)
	if errCA != nil {
		errCA = fmt.Errorf("smtp.ca_file: %w", errCA)
	}
	if err := errors.Join(errURL, errFrom, errCA); err != nil {
		return nil, err
	}
	s := &Sender{
		server: server, from: from, hello: o.Hello, wait: o.Patience,
		tls: &tls.Config{ServerName: server.host, RootCAs: pool, MinVersion: tls.VersionTLS12},
	}
	if server.security == opportunistic {
		// Who listens in could as well leave STARTTLS out; New has seen to it that
		// no password goes this way, but to this machine.
		s.tls.InsecureSkipVerify = true
	}
	if s.wait == 0 {
		s.wait = defaultPatience
	}
	if s.hello == "" {
		name, err := os.Hostname()
		if err != nil || name == "" {
			name = "localhost"
		}
		s.hello = name
	}
	return s, nil
}

// Send implements notify.Sender.
func (s *Sender) Send(ctx context.Context, n monitor.Notice, mayHandOver func() error) error {
	to, international, err := recipient(n.Recipient)
	if err != nil {
		return err
	}
	text, err := message(n, s.from, to)
	if err != nil {
		return err
	}
	letter := envelope{from: s.from.Address, to: to, international: international, text: text, mayHandOver: mayHandOver}
	for {
		on, fresh, err := s.session(ctx)
		if err != nil {
			return err
		}
		err = on.send(ctx, letter)
		if err == nil || on.usable() {
			s.keep(on)
			return err
		}
		on.close()
		// A server may end a connection that was unused, at any moment: only what a
		// new one says counts.
		if fresh || on.began {
			return err
		}
	}
}

// session is an idle connection, or a new one.
func (s *Sender) session(ctx context.Context) (on *session, fresh bool, err error) {
	s.mu.Lock()
	if last := len(s.idle) - 1; last >= 0 {
		on, s.idle = s.idle[last], s.idle[:last]
	}
	s.mu.Unlock()
	if on != nil && on.expiry.Stop() {
		return on, false, nil
	}
	on, err = s.dial(ctx)
	return on, true, err
}

// keep puts a connection aside for the next notice, for a while.
func (s *Sender) keep(on *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || on.sent >= perConnection {
		go on.quit()
		return
	}
	on.expiry = time.AfterFunc(idleTime, func() { s.expire(on) })
	s.idle = append(s.idle, on)
}

// expire says goodbye on a connection that wasn't used any more.
func (s *Sender) expire(on *session) {
	s.mu.Lock()
	for i, other := range s.idle {
		if other == on {
			s.idle = append(s.idle[:i], s.idle[i+1:]...)
			break
		}
	}
	s.mu.Unlock()
	on.quit()
}

// Close says goodbye on what is idle. Notices that are being sent go on.
func (s *Sender) Close() {
	s.mu.Lock()
	idle := s.idle
	s.idle, s.closed = nil, true
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, on := range idle {
		if on.expiry.Stop() {
			all.Go(on.quit)
		}
	}
	all.Wait()
}
