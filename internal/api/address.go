package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientAddress is whom a request comes from: the peer, or when that is one of the
// operator's proxies, the last address in X-Forwarded-For that is none of them. What
// stands before it was written by the client, and says nothing.
func (a *API) ClientAddress(r *http.Request) string {
	address := addressOf(r.RemoteAddr)
	forwarded := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(forwarded) - 1; i >= 0 && a.isProxy(address); i-- {
		before, ok := parseForwarded(forwarded[i])
		if !ok {
			break
		}
		address = before
	}
	return address
}

func (a *API) isProxy(address string) bool {
	at, err := netip.ParseAddr(address)
	at = at.Unmap().WithZone("")
	return err == nil && slices.ContainsFunc(a.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(at) })
}

// parseForwarded reads an address as proxies write it, some with a port.
func parseForwarded(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().String(), true
	}
	at, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return at.Unmap().String(), err == nil
}

func addressOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}
