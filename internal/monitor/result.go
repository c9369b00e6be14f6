package monitor

import (
	"net/netip"
	"time"
)

// Class is what a check found, in one word. It is all that customers are shown
// of a failure beside Result.Detail: never what the other side sent.
type Class string

// The classes. Blocked is an address that may not be reached from here, whether or
// not anything is there: it is judged before anything is sent.
const (
	OK           Class = "ok"
	NotResolved  Class = "dns"
	Refused      Class = "refused"
	Reset        Class = "reset"
	TimedOut     Class = "timeout"
	TLS          Class = "tls"
	BadStatus    Class = "status"
	BadRedirect  Class = "redirect"
	TextNotFound Class = "text not found"
	Protocol     Class = "protocol"
	Blocked      Class = "blocked"
	Unreachable  Class = "unreachable"
	// Inconclusive says nothing about the service: the fault is on our side.
	Inconclusive Class = "inconclusive"
)

// Result is what one check of a service found.
type Result struct {
	// Started is when the check began; Took how long it lasted.
	Started time.Time
	Took    time.Duration
	Class   Class
	// Detail is one sentence for people; "" when all is well.
	Detail string
	// Status is the HTTP status of the last answer, 0 when there was none.
	Status int
	// Addresses are what the service's host led to, as far as it may be reached.
	Addresses []netip.Addr
	// CertificateExpiry is when the first of the certificates that were shown
	// expires; zero without TLS.
	CertificateExpiry time.Time
}

// Good reports whether the service is as it should be.
func (r Result) Good() bool { return r.Class == OK }

// Hosts are all that the service's host is known by: its name, and the addresses
// that it led to. Two names of one address are one host.
func (r Result) Hosts(name string) []string {
	hosts := []string{name}
	for _, a := range r.Addresses {
		if host := a.Unmap().String(); host != name {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
