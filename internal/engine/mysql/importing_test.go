package mysql

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"steward/internal/engine"
	"steward/internal/testdir"
)

// inPlace is a packet with its place in an exchange.
func inPlace(n byte, body []byte) []byte {
	p := packed(body)
	p[3] = n
	return p
}

// aGreeting is how a MariaDB without TLS begins, which wants a password by a plugin.
func aGreeting() []byte {
	body := append([]byte{10}, "10.11.6-MariaDB\x00"...)
	body = append(body, 1, 0, 0, 0)
	body = append(body, "aaaaaaaa\x00"...)
	body = binary.LittleEndian.AppendUint16(body, 0xf7ff) // everything but TLS, LOCAL INFILE among it
	body = append(body, 0x21, 2, 0, 0x0f, 0, 21)
	body = append(body, make([]byte, 10)...)
	return append(body, "bbbbbbbbbbbb\x00mysql_native_password\x00"...)
}

// aColumn is what comes before the rows of an answer.
func aColumn() []byte {
	return []byte{3, 'd', 'e', 'f', 0, 0, 0, 1, 'x', 0, 12, 0x21, 0, 0xff, 0, 0, 0, 0xfd, 0, 0, 0, 0, 0}
}

// rogue is a source that answers as it likes. It has all that it was sent.
type rogue struct {
	mu   sync.Mutex
	sent bytes.Buffer
}

func (r *rogue) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent.String()
}

// serve greets, takes the log-in or asks for more, and answers all that it is asked then by the same packets.
func (r *rogue) serve(conn net.Conn, greeting, login []byte, answer func(conn net.Conn) error) {
	if greeting == nil {
		_, _ = conn.Read(make([]byte, 1)) // until the other side goes
		return
	}
	if _, err := conn.Write(greeting); err != nil {
		return
	}
	for replies := 0; ; replies++ {
		packet, err := readHandshake(conn)
		r.mu.Lock()
		r.sent.Write(packet)
		r.mu.Unlock()
		if err != nil {
			return
		}
		switch {
		case replies == 0:
			_, err = conn.Write(inPlace(packet[3]+1, login))
		case replies == 1: // the session's own settings
			_, err = conn.Write(inPlace(1, []byte{packetOK, 0, 0, 2, 0, 0, 0}))
		case answer != nil:
			err = answer(conn)
		}
		if err != nil {
			return
		}
	}
}

// TestHostileSources: a source that says nothing or nonsense, never ends, or asks for files and passwords gets neither, and is given up with a
// reason that does nothing to a terminal.
func TestHostileSources(t *testing.T) {
	t.Parallel()
	ok := []byte{packetOK, 0, 0, 2, 0, 0, 0}
	file := t.TempDir() + "/ours"
	const inside, silent = "what is in our file", "nothing for too long"
	if err := os.WriteFile(file, []byte(inside), 0o600); err != nil {
		t.Fatal(err)
	}
	answers := func(packets ...[]byte) func(net.Conn) error {
		return func(conn net.Conn) error {
			for i, body := range packets {
				if _, err := conn.Write(inPlace(byte(i+1), body)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	greeting := inPlace(0, aGreeting())
	for name, c := range map[string]struct {
		greeting, login []byte
		answer          func(net.Conn) error
		want            string
	}{
		"silence":                  {want: silent},
		"silence after the log-in": {greeting: greeting, login: ok, answer: func(net.Conn) error { return nil }, want: silent},
		"another protocol":         {greeting: []byte("HTTP/1.1 400 Bad Request\r\n\r\n" + strings.Repeat("x", 2<<20)), want: "more than the database has room for"},
		"a greeting cut short":     {greeting: inPlace(0, []byte{10, '1', '0', '.', '1'}), want: "doesn't answer as"},
		"an answer cut short":      {greeting: greeting, login: ok, answer: answers([]byte{1}, []byte{0xfd, 0xff, 0xff, 0xff}), want: "can't be asked"},
		"a row cut short": {
			greeting: greeting, login: ok, want: "doesn't answer as", answer: answers([]byte{1}, aColumn(), []byte{packetEnd, 0, 0, 2, 0}, []byte{0xfd, 0xff}),
		},
		"a file of ours": {greeting: greeting, login: ok, answer: answers(append([]byte{0xfb}, file...)), want: "can't be asked"},
		"the password in the clear": {
			greeting: greeting, login: append([]byte{authSwitch}, "mysql_clear_password\x00"...), want: "can't be asked",
		},
		"the password as of old": {greeting: greeting, login: append([]byte{authSwitch}, "mysql_old_password\x00aaaaaaaa\x00"...), want: "can't be asked"},
		"an error with commands for terminals": {
			greeting: greeting, login: append([]byte{packetError, 0x7a, 4, '#', 'H', 'Y', '0', '0', '0'}, "\x1b]0;owned\x07\x1b[2J\nnext"...), want: "The source refuses: ",
		},
		"an answer without end": {
			greeting: greeting, login: ok, want: "more than the database has room for",
			answer: func(conn net.Conn) error {
				if err := answers([]byte{1}, aColumn(), []byte{0xfe, 0, 0, 2, 0})(conn); err != nil {
					return err
				}
				for i := byte(4); ; i++ {
					if _, err := conn.Write(inPlace(i, append([]byte{0xfd, 0, 0x40, 0}, make([]byte, 0x4000)...))); err != nil {
						return err
					}
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r rogue
			address := testdir.ServeLocally(t, func(conn net.Conn) { r.serve(conn, c.greeting, c.login, c.answer) })
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			src := engine.Source{
				Dial:     func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) },
				Username: "mover", Password: "secret", Received: &engine.Received{}, Most: 1 << 20, Silence: 20 * time.Second,
			}
			if c.want == silent {
				src.Silence = 300 * time.Millisecond
			}
			s, err := atSource(ctx, src)
			if err == nil {
				defer s.close()
				if _, err = s.text(ctx, "SELECT VERSION()"); err != nil {
					err = sourceFailed(src, err)
				}
			}
			theirs, given := errors.AsType[*engine.SourceError](err)
			if !given || !strings.Contains(theirs.Reason, c.want) || ctx.Err() != nil {
				t.Fatalf("it ended with %v, want %q", err, c.want)
			}
			if strings.ContainsFunc(theirs.Reason, func(c rune) bool { return !unicode.IsPrint(c) }) || strings.Contains(theirs.Reason, "secret") {
				t.Errorf("its owner is told %q", theirs.Reason)
			}
			if told := r.told(); strings.Contains(told, "secret") || strings.Contains(told, inside) {
				t.Errorf("it was told %q", told)
			}
		})
	}
}

// TestHandshakeWithARogue: what stands between a source and the program that reads it takes greetings only, and withholds the password from
// whoever wants it in the clear.
func TestHandshakeWithARogue(t *testing.T) {
	t.Parallel()
	begin := func(greeting, login []byte, config *tls.Config) error {
		here, there := net.Pipe()
		defer here.Close()
		go func() {
			defer there.Close()
			if len(greeting) == 0 {
				return
			}
			_, _ = there.Write(greeting)
			if _, err := readHandshake(there); err == nil {
				_, _ = there.Write(login)
			}
		}()
		h, err := handshake(t.Context(), here, config)
		if err != nil {
			return err
		}
		if _, err := h.Read(make([]byte, mostHandshake)); err != nil {
			return err
		}
		if _, err := h.Write(inPlace(1, make([]byte, requestLen))); err != nil {
			return err
		}
		_, err = h.Read(make([]byte, 100))
		return err
	}
	for name, c := range map[string]struct {
		greeting, login []byte
		config          *tls.Config
		want            string
	}{
		"nothing":                   {want: "EOF"},
		"an empty packet":           {greeting: []byte{0, 0, 0, 0}, want: "a packet of 0 bytes"},
		"a packet of megabytes":     {greeting: []byte{0xff, 0xff, 0xff, 0}, want: "a packet of 16777215 bytes"},
		"another protocol":          {greeting: []byte("HTTP/1.1 400"), want: "bytes"},
		"a greeting cut short":      {greeting: inPlace(0, []byte{10, '1', 0, 1}), want: "greeting is none"},
		"no TLS":                    {greeting: inPlace(0, aGreeting()), config: &tls.Config{ServerName: "x"}, want: "doesn't speak TLS"},
		"the password in the clear": {greeting: inPlace(0, aGreeting()), login: inPlace(2, append([]byte{authSwitch}, "mysql_clear_password\x00"...)), want: errClear.Error()},
		"a dialog":                  {greeting: inPlace(0, aGreeting()), login: inPlace(2, append([]byte{authSwitch}, "dialog\x00Password: "...)), want: errClear.Error()},
		"more in the clear":         {greeting: inPlace(0, aGreeting()), login: inPlace(2, []byte{authMore, askClear}), want: errClear.Error()},
	} {
		if err := begin(c.greeting, c.login, c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
