package probe

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// zone is a name server: for each name, what it answers to each look in turn, the
// last for ever. Names that aren't there don't exist.
type zone struct {
	names map[string][][]netip.Addr
	mu    sync.Mutex
	looks map[string]int
}

// Names of a zone with a meaning of their own.
const (
	failing = "failing.test."
	mute    = "mute.test."
)

// resolver starts the server and asks it alone.
func (z *zone) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	z.looks = map[string]int{}
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 4096)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := z.answer(t, buffer[:n]); answer != nil {
				server.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() { server.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

func (z *zone) answer(t *testing.T, query []byte) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		t.Errorf("a query: %v", err)
		return nil
	}
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	name := strings.ToLower(q.Name.String())
	turns, known := z.names[name]
	switch {
	case name == mute:
		return nil
	case name == failing:
		m.RCode = dnsmessage.RCodeServerFailure
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA || q.Type == dnsmessage.TypeAAAA:
		for _, a := range turns[z.turn(name, q.Type, len(turns))] {
			header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}
			if a.Is4() && q.Type == dnsmessage.TypeA {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}})
			} else if a.Is6() && q.Type == dnsmessage.TypeAAAA {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
			}
		}
	}
	answer, err := m.Pack()
	if err != nil {
		t.Errorf("pack an answer: %v", err)
	}
	return answer
}

// turn counts a look: each asks for both types.
func (z *zone) turn(name string, of dnsmessage.Type, turns int) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	key := name + of.String()
	z.looks[key]++
	return min(z.looks[key], turns) - 1
}

func addrs(texts ...string) []netip.Addr {
	found := make([]netip.Addr, len(texts))
	for i, text := range texts {
		found[i] = netip.MustParseAddr(text)
	}
	return found
}
