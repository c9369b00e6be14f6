package probe

import (
	"io"
	"net"
	"testing"
	"time"

	"steward/internal/monitor"
	"steward/internal/testdir"
)

func TestTCP(t *testing.T) {
	t.Parallel()
	p := prober(t)
	const missing = "The expected text isn't in what the server sends first."
	silent := func(c net.Conn) { io.Copy(io.Discard, c) }
	says := func(pieces ...string) func(net.Conn) {
		return func(c net.Conn) {
			for _, piece := range pieces {
				io.WriteString(c, piece)
			}
			silent(c)
		}
	}
	for name, test := range map[string]struct {
		server       func(net.Conn)
		body         string
		class        monitor.Class
		detail       string
		untilTimeout bool
	}{
		"open":             {silent, "", monitor.OK, "", false},
		"greeting":         {says("220 mail.example ESMTP\r\n"), "ESMTP", monitor.OK, "", false},
		"in pieces":        {says("220 mail.example ES", "MT", "P\r\n"), "ESMTP", monitor.OK, "", false},
		"says nothing":     {silent, "ESMTP", monitor.TimedOut, "No answer came within 200 ms.", true},
		"says other":       {says("SSH-2.0"), "ESMTP", monitor.TextNotFound, missing, true},
		"closes":           {func(net.Conn) {}, "ESMTP", monitor.TextNotFound, missing, false},
		"says other, ends": {func(c net.Conn) { io.WriteString(c, "SSH-2.0") }, "ESMTP", monitor.TextNotFound, missing, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := here(t, testdir.ServeLocally(t, test.server), test.body)
			if test.untilTimeout {
				target.Timeout = 200 * time.Millisecond
			}
			found(t, p.Check(t.Context(), target), test.class, test.detail)
		})
	}
	found(t, p.Check(t.Context(), here(t, testdir.Refused(t), "")), monitor.Refused, "The connection was refused.")
}
