package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/internal/monitor"
	"steward/internal/testdir"
)

// slack is how much later than its timeout a check may end here, on a machine that
// is busy with other tests.
const slack = 500 * time.Millisecond

// onTime fails unless the check took its timeout.
func onTime(t *testing.T, r monitor.Result, timeout time.Duration) {
	t.Helper()
	if r.Took < timeout-time.Millisecond || r.Took > timeout+slack {
		t.Errorf("took %s, the timeout is %s", r.Took, timeout)
	}
}

// until writes again and again until the check has gone.
func until(c net.Conn, pause time.Duration, text string) {
	for {
		if _, err := io.WriteString(c, text); err != nil {
			return
		}
		time.Sleep(pause) // the server's slowness is what is tested
	}
}

const ok = "HTTP/1.1 200 OK\r\n"

// request reads one, or the server would reset the connection when it closes.
func request(c net.Conn) {
	buffer, got := make([]byte, 4096), []byte(nil)
	for !bytes.Contains(got, []byte("\r\n\r\n")) {
		n, err := c.Read(buffer)
		if err != nil {
			return
		}
		got = append(got, buffer[:n]...)
	}
}

func hang(c net.Conn) { io.Copy(io.Discard, c) }

// TestHung: whatever a server does not to end, the check ends on time and says
// what it waited for.
func TestHung(t *testing.T) {
	t.Parallel()
	p := prober(t)
	const timeout = 300 * time.Millisecond
	for name, test := range map[string]struct {
		scheme, wanted string
		server         func(net.Conn)
		detail         string
	}{
		"never answers":          {"http", "", hang, "No answer came within 300 ms."},
		"status line by bytes":   {"http", "", func(c net.Conn) { request(c); io.WriteString(c, "HTTP/1.1 200 "); until(c, 20*time.Millisecond, "O") }, "No answer came within 300 ms."},
		"headers by bytes":       {"http", "", func(c net.Conn) { request(c); io.WriteString(c, ok); until(c, 20*time.Millisecond, "A: b\r\n") }, "No answer came within 300 ms."},
		"interim answers slowly": {"http", "", func(c net.Conn) { request(c); until(c, 20*time.Millisecond, "HTTP/1.1 100 Continue\r\n\r\n") }, "No answer came within 300 ms."},
		"body by bytes":          {"http", "well", func(c net.Conn) { request(c); io.WriteString(c, ok+"\r\n"); until(c, 10*time.Millisecond, "x") }, "The answer wasn't complete within 300 ms."},
		"chunks by bytes": {"http", "well", func(c net.Conn) {
			request(c)
			io.WriteString(c, ok+"Transfer-Encoding: chunked\r\n\r\n")
			until(c, 10*time.Millisecond, "1\r\nx\r\n")
		}, "The answer wasn't complete within 300 ms."},
		"endless empty gzip": {"http", "well", func(c net.Conn) {
			request(c)
			io.WriteString(c, ok+"Content-Encoding: gzip\r\n\r\n")
			until(c, 10*time.Millisecond, packed(""))
		}, "The answer wasn't complete within 300 ms."},
		"no handshake":       {"https", "", hang, "TLS was not agreed on within 300 ms."},
		"handshake by bytes": {"https", "", func(c net.Conn) { io.WriteString(c, "\x16\x03\x03\x3f\x00"); until(c, 10*time.Millisecond, "\x02") }, "TLS was not agreed on within 300 ms."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := here(t, test.scheme+"://"+testdir.ServeLocally(t, test.server), test.wanted)
			target.Timeout = timeout
			r := p.Check(t.Context(), target)
			found(t, r, monitor.TimedOut, test.detail)
			onTime(t, r, timeout)
		})
	}
	t.Run("http/2 never answers", func(t *testing.T) {
		t.Parallel()
		target := here(t, serveTLS(t, true, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), "")
		target.Timeout = timeout
		r := p.Check(t.Context(), target)
		found(t, r, monitor.TimedOut, "No answer came within 300 ms.")
		onTime(t, r, timeout)
	})
	t.Run("http/2 body hangs", func(t *testing.T) {
		t.Parallel()
		target := here(t, serveTLS(t, true, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}), "well")
		target.Timeout = timeout
		r := p.Check(t.Context(), target)
		found(t, r, monitor.TimedOut, "The answer wasn't complete within 300 ms.")
		onTime(t, r, timeout)
	})
	t.Run("no connection", func(t *testing.T) {
		t.Parallel()
		target := here(t, fullBacklog(t), "")
		target.Timeout = timeout
		r := p.Check(t.Context(), target)
		found(t, r, monitor.TimedOut, "No connection was made within 300 ms.")
		onTime(t, r, timeout)
	})
}

// fullBacklog is where the kernel drops further attempts to connect.
func fullBacklog(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
	for range 16 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		cancel()
		if err != nil {
			return address
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("the kernel goes on accepting")
	return ""
}

// TestNasty: answers that end, or would go on for ever, are given up early.
func TestNasty(t *testing.T) {
	t.Parallel()
	p := prober(t)
	const (
		missing = "The expected text isn't in the answer."
		invalid = "The server's answer is not valid HTTP."
		broken  = "The connection was closed in the middle of the answer."
	)
	mega := strings.Repeat("x", 1<<20)
	answer := func(text string) func(net.Conn) {
		return func(c net.Conn) { request(c); io.WriteString(c, text) }
	}
	endless := func(head, text string) func(net.Conn) {
		return func(c net.Conn) { request(c); io.WriteString(c, head); until(c, 0, text) }
	}
	for name, test := range map[string]struct {
		server func(net.Conn)
		wanted string
		class  monitor.Class
		detail string
	}{
		"closed at once":           {func(c net.Conn) { request(c) }, "", monitor.Reset, "The connection was closed without an answer."},
		"closed in the headers":    {answer(ok + "A: b\r\n"), "", monitor.Reset, "The connection was closed without an answer."},
		"reset":                    {func(c net.Conn) { request(c); c.(*net.TCPConn).SetLinger(0) }, "", monitor.Reset, "The connection was reset."},
		"closed in the body":       {answer(ok + "Content-Length: 100\r\n\r\nall is"), "well", monitor.Reset, broken},
		"closed in a chunk":        {answer(ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nall"), "well", monitor.Reset, broken},
		"closed in gzip":           {answer(ok + "Content-Encoding: gzip\r\n\r\n" + packed("all is well")[:15]), "well", monitor.Reset, broken},
		"not HTTP":                 {answer("SSH-2.0-OpenSSH_9.2\r\n"), "", monitor.Protocol, invalid},
		"HTTP/0.9":                 {answer("<html>all is well</html>\r\n"), "well", monitor.Protocol, invalid},
		"bad status":               {answer("HTTP/1.1 2x0 OK\r\n\r\n"), "", monitor.Protocol, invalid},
		"bad chunk":                {answer(ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n"), "well", monitor.Protocol, invalid},
		"bad length":               {answer(ok + "Content-Length: -5\r\n\r\n"), "well", monitor.Protocol, invalid},
		"switches":                 {answer("HTTP/1.1 101 Switching Protocols\r\n\r\n"), "", monitor.Protocol, "The server switched to a protocol that wasn't asked for."},
		"interim, then the answer": {answer("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok + "\r\nall is well"), "well", monitor.OK, ""},
		"endless interim":          {endless("", "HTTP/1.1 100 Continue\r\n\r\n"), "", monitor.Protocol, "The answer's headers are longer than 64 KiB."},
		"endless headers":          {endless(ok, "A: b\r\n"), "", monitor.Protocol, "The answer's headers are longer than 64 KiB."},
		"endless header":           {endless(ok+"A: ", "bbbbbbbbbbbbbbb"), "", monitor.Protocol, "The answer's headers are longer than 64 KiB."},
		"endless status line":      {endless("HTTP/1.1 200 ", "OK"), "", monitor.Protocol, "The answer's headers are longer than 64 KiB."},
		"endless body":             {endless(ok+"\r\n", "all is bad "), "well", monitor.TextNotFound, missing},
		"endless body, found":      {endless(ok+"\r\n", "all is well "), "well", monitor.OK, ""},
		"endless body, any":        {endless(ok+"\r\n", "all is bad "), "", monitor.OK, ""},
		"found, then silence":      {func(c net.Conn) { request(c); io.WriteString(c, ok+"\r\nall is well"); hang(c) }, "well", monitor.OK, ""},
		"in the first MiB":         {answer(ok + "\r\n" + mega[4:] + "well"), "well", monitor.OK, ""},
		"behind the first MiB":     {answer(ok + "\r\n" + mega[3:] + "well"), "well", monitor.TextNotFound, missing},
		"over chunk borders":       {answer(ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nw\r\n2\r\nel\r\n1\r\nl\r\n0\r\n\r\n"), "well", monitor.OK, ""},
		"a MiB of chunks":          {answer(ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("4\r\nxxxx\r\n", 1<<18-1) + "4\r\nwell\r\n0\r\n\r\n"), "well", monitor.OK, ""},
		"endless chunk extensions": {endless(ok+"Transfer-Encoding: chunked\r\n\r\n", "1;"+strings.Repeat("a", 4000)+"\r\nx\r\n"), "well", monitor.Protocol, invalid},
		"gzip":                     {answer(ok + "Content-Encoding: gzip\r\n\r\n" + packed("all is well")), "well", monitor.OK, ""},
		"x-gzip in members":        {answer(ok + "Content-Encoding: X-GZIP\r\n\r\n" + packed("we") + packed("") + packed("ll")), "well", monitor.OK, ""},
		"gzip, other text":         {answer(ok + "Content-Encoding: gzip\r\n\r\n" + packed("all is bad")), "well", monitor.TextNotFound, missing},
		"gzip bomb":                {answer(ok + "Content-Encoding: gzip\r\n\r\n" + packed(append(slices.Repeat([]string{mega}, 64), "well")...)), "well", monitor.TextNotFound, missing},
		"gzip without end":         {endless(ok+"Content-Encoding: gzip\r\n\r\n", packed("")), "well", monitor.Protocol, "The server sends too much around its answer."},
		"not gzip":                 {answer(ok + "Content-Encoding: gzip\r\n\r\nall is well, really"), "well", monitor.Protocol, "The answer's compression is broken."},
		"gzip with a wrong sum":    {answer(ok + "Content-Encoding: gzip\r\n\r\n" + packed("all is bad")[:25] + "12345678"), "well", monitor.Protocol, "The answer's compression is broken."},
		"zlib":                     {answer(ok + "Content-Encoding: deflate\r\n\r\n" + zlibbed("all is well")), "well", monitor.OK, ""},
		"bare deflate":             {answer(ok + "Content-Encoding: deflate\r\n\r\n" + deflated("all is well")), "well", monitor.OK, ""},
		"not deflate":              {answer(ok + "Content-Encoding: deflate\r\n\r\n\xff\xff\xff\xff"), "well", monitor.Protocol, "The answer's compression is broken."},
		"nothing as gzip":          {answer(ok + "Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n"), "well", monitor.TextNotFound, missing},
		"identity":                 {answer(ok + "Content-Encoding: identity\r\n\r\nall is well"), "well", monitor.OK, ""},
		"another encoding":         {answer(ok + "Content-Encoding: br\r\n\r\nwell"), "well", monitor.Protocol, "The answer is in a content encoding that wasn't asked for."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found(t, p.Check(t.Context(), here(t, "http://"+testdir.ServeLocally(t, test.server), test.wanted)), test.class, test.detail)
		})
	}
	t.Run("http/2 with huge headers", func(t *testing.T) {
		t.Parallel()
		url := serveTLS(t, true, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("A", strings.Repeat("b", 1<<20)) })
		found(t, p.Check(t.Context(), here(t, url, "")), monitor.Protocol, invalid)
	})
	t.Run("http/2 with an endless body", func(t *testing.T) {
		t.Parallel()
		url := serveTLS(t, true, func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, mega); err != nil {
					return
				}
			}
		})
		found(t, p.Check(t.Context(), here(t, url, "well")), monitor.TextNotFound, missing)
	})
}

// TestBrokenOff: a monitor that stops says nothing about services.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	p := prober(t)
	for name, target := range map[string]Target{"waiting": here(t, "http://"+testdir.ServeLocally(t, hang), ""), "connecting": here(t, "http://"+fullBacklog(t), "")} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		r := p.Check(ctx, target)
		cancel()
		if found(t, r, monitor.Inconclusive, "The check was broken off."); r.Took > patience/2 {
			t.Errorf("%s: took %s", name, r.Took)
		}
	}
}

// TestOurs: faults of this machine are none of the service's. They can't be
// provoked without harming the tests beside.
func TestOurs(t *testing.T) {
	t.Parallel()
	dial := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, Err: fmt.Errorf("connect: %w", errno)}
	}
	for _, test := range []struct {
		err   error
		class monitor.Class
	}{
		{dial(syscall.EMFILE), monitor.Inconclusive},
		{dial(syscall.ENFILE), monitor.Inconclusive},
		{dial(syscall.ENOBUFS), monitor.Inconclusive},
		{dial(syscall.EADDRNOTAVAIL), monitor.Inconclusive},
		{dial(syscall.EPERM), monitor.Inconclusive},
		{dial(syscall.EAFNOSUPPORT), monitor.Inconclusive},
		{dial(syscall.EINVAL), monitor.Unreachable},
		{dial(syscall.ENETUNREACH), monitor.Unreachable}, // there is a route to 127.0.0.1
		{dial(syscall.EHOSTUNREACH), monitor.Unreachable},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "dial udp 127.0.0.1:53: socket: too many open files", IsTemporary: true}}, monitor.Inconclusive},
	} {
		c := &check{p: New(Options{Networks: local()}), deadline: time.Now().Add(time.Hour)}
		if got := c.explain(t.Context(), test.err); got.class != test.class {
			t.Errorf("%v is %s: %s", test.err, got.class, got.detail)
		}
	}
}

// TestNoRoute: a machine without IPv6, as most test machines are, can't judge a
// service that has nothing else.
func TestNoRoute(t *testing.T) {
	t.Parallel()
	for _, far := range []string{"[2606:4700::1111]:80", "9.9.9.9:80"} {
		if hasRoute(netip.MustParseAddrPort(far)) {
			continue
		}
		for _, text := range []string{"http://" + far, far} {
			r := prober(t).Check(t.Context(), Target{Address: address(t, text), Timeout: patience})
			found(t, r, monitor.Inconclusive, "The monitor has no route to the address.")
		}
		return
	}
	t.Skip("this machine has a route to everywhere")
}
