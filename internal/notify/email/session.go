package email

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"steward/internal/notify"
)

// session is a connection to the mail server that is ready for a message.
type session struct {
	client *smtp.Client
	// conn is below TLS: deadlines on it hold for both.
	conn net.Conn
	wait time.Duration
	// began reports whether the server answered to the present message.
	began bool
	// ready reports whether the server waits for a next message.
	ready  bool
	sent   int
	expiry *time.Timer
}

// envelope is one message with its way.
type envelope struct {
	from, to string
	// international reports whether to isn't ASCII.
	international bool
	text          []byte
	mayHandOver   func() error
}

// dial connects, encrypts and authenticates. Whatever goes wrong here isn't the
// recipient's: it is tried again.
func (s *Sender) dial(ctx context.Context) (*session, error) {
	on, err := s.connect(ctx)
	if err == nil {
		return on, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if known, ok := errors.AsType[*notify.Error](err); ok {
		return nil, known
	}
	return nil, &notify.Error{Problem: "The mail server can't be used: " + words(err) + ".", Down: true}
}

func (s *Sender) connect(ctx context.Context) (_ *session, err error) {
	dialer := net.Dialer{Timeout: min(connectTime, s.wait)}
	conn, err := dialer.DialContext(ctx, "tcp", s.server.address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		stop()
		if err != nil {
			conn.Close()
		}
	}()
	if err := conn.SetDeadline(time.Now().Add(s.wait)); err != nil {
		return nil, err
	}
	on := &session{conn: conn, wait: s.wait}
	var stream net.Conn = conn
	if s.server.security == implicit {
		secured := tls.Client(conn, s.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		stream = secured
	}
	if on.client, err = smtp.NewClient(stream, s.server.host); err != nil {
		return nil, err
	}
	if err := on.client.Hello(s.hello); err != nil {
		return nil, err
	}
	if err := s.secure(on.client); err != nil {
		return nil, err
	}
	return on, s.login(on.client)
}

// secure encrypts a connection that isn't yet.
func (s *Sender) secure(c *smtp.Client) error {
	offered, _ := c.Extension("STARTTLS")
	switch {
	case s.server.security == required && !offered:
		return &notify.Error{Problem: "The mail server offers no encryption, which is required.", Down: true}
	case s.server.security == required, s.server.security == opportunistic && offered:
		return c.StartTLS(s.tls)
	}
	return nil
}

// login authenticates by the best mechanism that the server has. The connection is
// encrypted with a server that proved who it is, or to this machine.
func (s *Sender) login(c *smtp.Client) error {
	if !s.server.authenticate {
		return nil
	}
	_, offered := c.Extension("AUTH")
	mechanisms := strings.Fields(strings.ToUpper(offered))
	has := func(name string) bool { return slices.Contains(mechanisms, name) }
	var how smtp.Auth
	switch {
	case has("SCRAM-SHA-256"):
		how = smtp.ScramSHA256Auth(s.server.username, s.server.password)
	case has("PLAIN"):
		how = smtp.PlainAuth("", s.server.username, s.server.password, s.server.host, s.server.loopback)
	case has("LOGIN"):
		how = smtp.LoginAuth(s.server.username, s.server.password, s.server.host, s.server.loopback)
	default:
		return &notify.Error{Problem: "The mail server has none of the ways to authenticate SCRAM-SHA-256, PLAIN and LOGIN.", Down: true}
	}
	if err := c.Auth(how); err != nil {
		if _, answered := errors.AsType[*textproto.Error](err); answered {
			return &notify.Error{Problem: "The mail server refuses steward's user or password.", Down: true}
		}
		return err
	}
	return nil
}

// send has one message taken.
func (s *session) send(ctx context.Context, e envelope) error {
	s.began, s.ready = false, false
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })
	defer func() { stop() }()
	if err := s.offer(ctx, e); err != nil {
		return err
	}
	var data io.WriteCloser
	err := s.step(ctx, func() (err error) {
		data, err = s.client.Data()
		return err
	})
	if err != nil {
		return s.refused(ctx, err)
	}
	if _, err := data.Write(e.text); err != nil {
		return s.refused(ctx, err)
	}
	if err := e.mayHandOver(); err != nil {
		return err // the connection ends without the final dot: the server drops it all
	}
	if !stop() {
		return ctx.Err()
	}
	_ = s.conn.SetDeadline(time.Now().Add(acceptTime)) // an error shows when the answer is read
	stop = context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Now().Add(lastTime)) })
	if err := data.Close(); err != nil {
		return s.refused(ctx, err)
	}
	s.ready = true
	s.sent++
	return nil
}

// offer names sender and recipient.
func (s *session) offer(ctx context.Context, e envelope) error {
	known, _ := s.client.Extension("SMTPUTF8")
	if e.international && !known {
		s.ready = true
		return &notify.Error{Problem: "The mail server takes only addresses in ASCII.", Permanent: true}
	}
	s.client.SkipSMTPUTF8(!e.international)
	if err := s.step(ctx, func() error { return s.client.Mail("<" + e.from + ">") }); err != nil {
		err = s.refused(ctx, err)
		if known, ok := errors.AsType[*notify.Error](err); ok {
			known.Permanent, known.Down = false, true // it is the sender that isn't liked
		}
		return err
	}
	s.began = true
	if err := s.step(ctx, func() error { return s.client.Rcpt("<" + e.to + ">") }); err != nil {
		return s.refused(ctx, err)
	}
	return nil
}

// step carries out one command within its time.
func (s *session) step(ctx context.Context, command func() error) error {
	if err := s.conn.SetDeadline(time.Now().Add(s.wait)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err() // its end may have come just before the new deadline
	}
	return command()
}

// refused judges why a message wasn't taken: by the server's answer, or for want of
// one. After an answer the connection can be used again.
func (s *session) refused(ctx context.Context, err error) error {
	answer, ok := errors.AsType[*textproto.Error](err)
	switch {
	case !ok && ctx.Err() != nil:
		return ctx.Err()
	case !ok:
		return &notify.Error{Problem: "The mail server was lost: " + words(err) + ".", Down: true}
	case answer.Code != 421: // after which the server closes the connection
		s.ready = s.step(ctx, s.client.Reset) == nil
	}
	return &notify.Error{
		Problem:   fmt.Sprintf("The mail server refused it: %d %s", answer.Code, short(answer.Msg)),
		Permanent: answer.Code >= 500,
		Down:      answer.Code == 421,
	}
}

// usable reports whether the next message can go this way.
func (s *session) usable() bool { return s.ready }

func (s *session) close() { _ = s.conn.Close() }

// quit says goodbye, in a moment or not at all.
func (s *session) quit() {
	_ = s.conn.SetDeadline(time.Now().Add(time.Second))
	_ = s.client.Quit()
	s.close()
}

// words are what went wrong on a connection, without addresses.
func words(err error) string {
	if answer, ok := errors.AsType[*textproto.Error](err); ok {
		return fmt.Sprintf("%d %s", answer.Code, short(answer.Msg))
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return "its name isn't known"
		}
		return "its name can't be looked up"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok || isCertificate(err) {
		return "its certificate isn't valid"
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return "it doesn't answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refuses connections"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "it ended the connection"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no way to it"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "it doesn't speak TLS"
	}
	return "it doesn't speak as a mail server does"
}

func isCertificate(err error) bool {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	_, ok := errors.AsType[x509.HostnameError](err)
	return ok
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// short is an answer as one line of bounded length.
func short(text string) string {
	text = strings.Join(strings.Fields(printable(text)), " ")
	if runes := []rune(text); len(runes) > 200 {
		text = string(runes[:200]) + "…"
	}
	return text
}
