package probe

import (
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"steward/internal/monitor"
	"steward/internal/testdir"
)

// ends is a gateway all of whose addresses are ends.
type ends struct {
	told atomic.Pointer[[2]netip.AddrPort]
	over atomic.Int32
}

// Serves implements Gateway.
func (*ends) Serves(netip.AddrPort) bool { return true }

// Own implements Gateway.
func (e *ends) Own(from, to netip.AddrPort) func() {
	e.told.Store(&[2]netip.AddrPort{from, to})
	return func() { e.over.Add(1) }
}

// TestChecksOfDatabases: the gateway knows of a check before its connection comes, and when it is
// over. One that asks for a text is a customer as any other.
func TestChecksOfDatabases(t *testing.T) {
	t.Parallel()
	p := prober(t)
	e := &ends{}
	p.gateway = e
	came := make(chan bool, 2)
	at := testdir.ServeLocally(t, func(c net.Conn) {
		told := e.told.Load()
		came <- told != nil && told[0].String() == c.RemoteAddr().String() && told[1].String() == c.LocalAddr().String()
		_, _ = io.WriteString(c, "hello")
		_, _ = io.Copy(io.Discard, c)
	})
	found(t, p.Check(t.Context(), here(t, at, "")), monitor.OK, "")
	if !<-came || e.over.Load() != 1 {
		t.Errorf("told of %v, that %d are over", e.told.Load(), e.over.Load())
	}
	e.told.Store(nil)
	found(t, p.Check(t.Context(), here(t, at, "hello")), monitor.OK, "")
	if <-came || e.over.Load() != 1 {
		t.Error("a check that waits for a text doesn't count")
	}
	// One that is refused is over as well.
	found(t, p.Check(t.Context(), here(t, testdir.Refused(t), "")), monitor.Refused, "The connection was refused.")
	if e.over.Load() != 2 {
		t.Error("a check that came to nothing goes on")
	}
}
