package monitor

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"steward/internal/fault"
)

// Address is where a service is: a URL or a TCP port. It is made by ParseAddress
// and Follow only, which leave one way to write each host.
type Address struct {
	Type ServiceType
	// Host is a name in lower-case ASCII without a dot at its end, or an IP address
	// in its usual form without brackets. Services with the same Host fail together.
	Host string
	Port uint16
	// IP is the host's address; zero for a name.
	IP netip.Addr
	// URL is what is requested of a url service, in printable ASCII: http or https,
	// without user and fragment; "" for tcp.
	URL string

	text string
}

// String is the address as it was given.
func (a Address) String() string { return a.text }

// Bounds on an address in characters (service.md 2.11), and of what redirects
// lead to in bytes, where browsers and servers agree on about as much.
const (
	leastAddress, mostAddress = 3, 100
	mostRedirect              = 8 << 10
)

// ParseAddress reads a service's address. Its error is a fault on "address".
func ParseAddress(t ServiceType, text string) (Address, error) {
	if n := utf8.RuneCountInString(text); n < leastAddress || n > mostAddress {
		return Address{}, fault.Length("address", leastAddress, mostAddress)
	}
	if !printable(text) {
		return Address{}, badAddress("Must not hold spaces or characters that can't be seen")
	}
	switch t {
	case URL:
		return parseURL(text)
	case TCP:
		return parseTCP(text)
	}
	return Address{}, fault.OneOf("service_type", URL, TCP)
}

func badAddress(format string, args ...any) error {
	return fault.NewInvalid("address", format, args...)
}

func printable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }) < 0
}

func parseURL(text string) (Address, error) {
	const form = "Must be a URL such as https://www.example.com/health"
	if strings.Contains(text, "#") {
		return Address{}, badAddress("Must not have a fragment: leave out # and what follows")
	}
	if strings.Contains(text, `\`) {
		return Address{}, badAddress(form)
	}
	u, err := url.Parse(text)
	if err != nil {
		return Address{}, badAddress(form)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return Address{}, badAddress("Must begin with http:// or https://")
	}
	if u.Opaque != "" || u.Host == "" {
		return Address{}, badAddress(form)
	}
	if u.User != nil {
		return Address{}, badAddress("Must not hold a user name or password")
	}
	a, err := fromURL(u)
	if err != nil {
		return Address{}, err
	}
	a.text = text
	return a, nil
}

// fromURL is the address of an http or https URL with a host.
func fromURL(u *url.URL) (Address, error) {
	a := Address{Type: URL, Port: 80}
	if u.Scheme == "https" {
		a.Port = 443
	}
	host, port := u.Hostname(), u.Port()
	if port == "" && strings.HasSuffix(u.Host, ":") {
		return Address{}, badPort()
	}
	if err := a.place(host, strings.HasPrefix(u.Host, "["), port); err != nil {
		return Address{}, err
	}
	plain := url.URL{Scheme: u.Scheme, Host: a.authority(port != ""), Path: u.Path, RawPath: u.RawPath, RawQuery: escaped(u.RawQuery), ForceQuery: u.ForceQuery}
	a.URL = plain.String()
	return a, nil
}

// escaped is a query in printable ASCII; net/url leaves it as it came.
func escaped(query string) string {
	var b strings.Builder
	for _, c := range []byte(query) {
		if c <= ' ' || c >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func parseTCP(text string) (Address, error) {
	const form = "Must be host:port or tcp://host:port, such as db.example.com:5432 or [2001:db8::1]:5432"
	rest, a := text, Address{Type: TCP, text: text}
	if scheme, after, found := strings.Cut(text, "://"); found {
		if !strings.EqualFold(scheme, "tcp") {
			return Address{}, badAddress(form)
		}
		rest = after
	}
	if strings.ContainsAny(rest, `/?#@\`) {
		return Address{}, badAddress(form)
	}
	host, port, bracketed, ok := splitHostPort(rest)
	if !ok {
		return Address{}, badAddress(form)
	}
	if port == "" {
		return Address{}, badPort()
	}
	if err := a.place(host, bracketed, port); err != nil {
		return Address{}, err
	}
	return a, nil
}

// splitHostPort cuts at the last colon; an IPv6 address is in brackets.
func splitHostPort(text string) (host, port string, bracketed, ok bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return "", "", false, false
	}
	host, port = text[:i], text[i+1:]
	if inner, found := strings.CutPrefix(host, "["); found {
		inner, found = strings.CutSuffix(inner, "]")
		return inner, port, true, found
	}
	return host, port, false, !strings.Contains(host, ":")
}

func badPort() error { return badAddress("The port must be 1-65535") }

// place fills in host and port; port may be "" for the one that is there already.
func (a *Address) place(host string, bracketed bool, port string) error {
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return badPort()
		}
		a.Port = uint16(n)
	}
	var err error
	a.Host, a.IP, err = parseHost(host, bracketed)
	return err
}

// authority is host and, if wanted, port as a URL has them.
func (a Address) authority(port bool) string {
	host := a.Host
	if a.IP.Is6() {
		host = "[" + host + "]"
	}
	if port {
		host += ":" + strconv.Itoa(int(a.Port))
	}
	return host
}

// parseHost is the one form of a host. Numbers that some programs take for an IP
// address and others for a name (octal, hexadecimal, in fewer than four parts, in
// other scripts' digits) are refused: what they mean must not depend on the reader.
func parseHost(text string, bracketed bool) (string, netip.Addr, error) {
	if bracketed {
		ip, err := netip.ParseAddr(text)
		if err != nil || !ip.Is6() {
			return "", ip, badAddress("Between [ and ] there must be an IPv6 address")
		}
		if ip.Zone() != "" {
			return "", ip, badAddress("An IPv6 address must be without a zone: leave out %% and what follows")
		}
		ip = ip.Unmap()
		return ip.String(), ip, nil
	}
	if ip, err := netip.ParseAddr(text); err == nil && ip.Is4() {
		return ip.String(), ip, nil
	}
	name, err := asciiName(text)
	if err != nil {
		return "", netip.Addr{}, err
	}
	if numeric(name) {
		return "", netip.Addr{}, badAddress("The host must be a name, or an IP address in its usual form such as 192.0.2.7")
	}
	return name, netip.Addr{}, nil
}

// toASCII maps as browsers do. Underscores and hyphens at any place are in use.
var toASCII = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.StrictDomainName(false), idna.CheckHyphens(false), idna.VerifyDNSLength(true))

// asciiName is a DNS name in lower-case ASCII, without a dot at its end.
func asciiName(text string) (string, error) {
	bad := func() (string, error) {
		return "", badAddress("%s is no host name", fault.Quote([]string{text}))
	}
	name := strings.ToLower(text)
	if !isASCII(name) || strings.Contains(name, "xn--") {
		var err error
		if name, err = toASCII.ToASCII(text); err != nil {
			return bad()
		}
		// What isn't UTF-8 is mapped all the same, to a name that nobody can have.
		if again, err := toASCII.ToASCII(name); err != nil || again != name {
			return bad()
		}
	}
	name = strings.TrimSuffix(name, ".")
	if len(name) > 253 {
		return bad()
	}
	for label := range strings.SplitSeq(name, ".") {
		if len(label) < 1 || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return bad()
		}
		if label[0] == '-' || label[len(label)-1] == '-' {
			return bad()
		}
	}
	return name, nil
}

func isASCII(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// numeric reports whether a name would be taken for a number by those who follow
// inet_aton or the URL standard: its last label is decimal or hexadecimal. No
// top-level domain is.
func numeric(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, found := strings.CutPrefix(last, "0x"); found {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// Why a redirect isn't followed.
var (
	ErrRedirectMalformed = errors.New("no http or https URL with a host")
	ErrRedirectDowngrade = errors.New("from https to http")
)

// Follow is where a redirect leads: location as the server sent it, taken
// relative to a. A user or fragment in it is dropped. https may not lead to http.
func (a Address) Follow(location string) (Address, error) {
	if len(location) > mostRedirect || strings.ContainsFunc(location, unicode.IsControl) {
		return Address{}, ErrRedirectMalformed
	}
	base, err := url.Parse(a.URL)
	if err != nil {
		return Address{}, fmt.Errorf("parse %q: %w", a.URL, err)
	}
	u, err := base.Parse(location)
	if err != nil || u.Opaque != "" || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Address{}, ErrRedirectMalformed
	}
	if base.Scheme == "https" && u.Scheme == "http" {
		return Address{}, ErrRedirectDowngrade
	}
	next, err := fromURL(u)
	if err != nil {
		return Address{}, fmt.Errorf("%w: %w", ErrRedirectMalformed, err)
	}
	next.text = next.URL
	return next, nil
}
