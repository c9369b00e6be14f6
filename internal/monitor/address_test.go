package monitor

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/fault"
)

func TestParseAddress(t *testing.T) {
	t.Parallel()
	tests := []struct {
		service    ServiceType
		text       string
		host       string
		port       uint16
		ip, wanted string // "" for a name; "" for tcp
	}{
		{URL, "https://www.example.com", "www.example.com", 443, "", "https://www.example.com"},
		{URL, "http://Example.COM./a?b=c", "example.com", 80, "", "http://example.com/a?b=c"},
		{URL, "HTTP://example.com:8080/", "example.com", 8080, "", "http://example.com:8080/"},
		{URL, "https://bücher.example/straße?q=ü&r=1", "xn--bcher-kva.example", 443, "", "https://xn--bcher-kva.example/stra%C3%9Fe?q=%C3%BC&r=1"},
		{URL, "http://xn--bcher-kva.example", "xn--bcher-kva.example", 80, "", "http://xn--bcher-kva.example"},
		{URL, "http://my_host.example-.--x.example", "", 0, "", ""},
		{URL, "http://r3---sn_a.example", "r3---sn_a.example", 80, "", "http://r3---sn_a.example"},
		{URL, "http://192.0.2.7:81/x", "192.0.2.7", 81, "192.0.2.7", "http://192.0.2.7:81/x"},
		{URL, "http://[2001:DB8:0:0::1]/x", "2001:db8::1", 80, "2001:db8::1", "http://[2001:db8::1]/x"},
		{URL, "http://[::ffff:10.0.0.1]:82", "10.0.0.1", 82, "10.0.0.1", "http://10.0.0.1:82"},
		{URL, "http://localhost:3000/%2e%2E/a%2fb", "localhost", 3000, "", "http://localhost:3000/%2e%2E/a%2fb"},
		{TCP, "db.example.com:5432", "db.example.com", 5432, "", ""},
		{TCP, "tcp://DB.example.com.:22", "db.example.com", 22, "", ""},
		{TCP, "[::1]:6379", "::1", 6379, "::1", ""},
		{TCP, "tcp://10.1.2.3:65535", "10.1.2.3", 65535, "10.1.2.3", ""},
		{TCP, "a:1", "a", 1, "", ""},
	}
	for _, test := range tests {
		got, err := ParseAddress(test.service, test.text)
		if test.host == "" {
			if err == nil {
				t.Errorf("%s: accepted as %+v", test.text, got)
			}
			continue
		}
		want := Address{Type: test.service, Host: test.host, Port: test.port, URL: test.wanted, text: test.text}
		if test.ip != "" {
			want.IP = netip.MustParseAddr(test.ip)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Address{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", test.text, err, diff)
		}
		if got.String() != test.text {
			t.Errorf("%s is shown as %s", test.text, got)
		}
	}
}

// Hosts that are an IP address to some readers and a name to others, and whatever
// else a URL can hide.
func TestParseAddressRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 64)
	tests := []struct {
		service ServiceType
		text    string
		reason  string // a part of it
	}{
		{URL, "a", "Length must be 3-100"},
		{URL, "http://example.com/" + strings.Repeat("ü", 82), "Length must be 3-100"},
		{URL, "www.example.com", "http:// or https://"},
		{URL, "ftp://example.com", "http:// or https://"},
		{URL, "file:///etc/passwd", "http:// or https://"},
		{URL, "gopher://127.0.0.1:25/_x", "http:// or https://"},
		{URL, "http:example.com", "Must be a URL"},
		{URL, "http://", "Must be a URL"},
		{URL, "http:///path", "Must be a URL"},
		{URL, "http://:80/", "no host name"},
		{URL, "http://example.com#part", "fragment"},
		{URL, "http://example.com/#", "fragment"},
		{URL, "http://user@example.com", "user name"},
		{URL, "http://user:secret@example.com", "user name"},
		{URL, "http://@example.com", "user name"},
		{URL, "http://example.com\r\nHost: other", "can't be seen"},
		{URL, "http://exam ple.com", "spaces"},
		{URL, "http://example.com/a b", "spaces"},
		{URL, "http://example.com/\u200b", "can't be seen"},
		{URL, "http://example.com/\u00a0", "can't be seen"},
		{URL, "http://example.com/\xff", "can't be seen"},
		{URL, "http://good.example\\@127.0.0.1/", "Must be a URL"},
		{URL, "http://example.com:0/", "1-65535"},
		{URL, "http://example.com:65536/", "1-65535"},
		{URL, "http://example.com:/", "1-65535"},
		{URL, "http://example.com:http/", "Must be a URL"},
		{URL, "http://2130706433/", "usual form"},
		{URL, "http://0x7f000001/", "usual form"},
		{URL, "http://0X7F.1/", "usual form"},
		{URL, "http://0x/", "usual form"},
		{URL, "http://0177.0.0.1/", "usual form"},
		{URL, "http://017700000001/", "usual form"},
		{URL, "http://127.1/", "usual form"},
		{URL, "http://127.0.0.1./", "usual form"},
		{URL, "http://127.0.0.01/", "usual form"},
		{URL, "http://256.0.0.1/", "usual form"},
		{URL, "http://1.2.3.4.5/", "usual form"},
		{URL, "http://example.0x1f/", "usual form"},
		{URL, "http://１２７.0.0.1/", "usual form"},
		{URL, "http://①②⑦.0.0.1/", "usual form"},
		{URL, "http://127。0。0。1/", "usual form"},
		{URL, "http://%31%32%37.0.0.1/", "Must be a URL"},
		{URL, "http://%EF%BC%91%EF%BC%92%EF%BC%97.0.0.1/", "usual form"},
		{URL, "http://127.0.0.1%00.example.com/", "Must be a URL"},
		{URL, "http://[fe80::1%25eth0]/", "zone"},
		{URL, "http://[127.0.0.1]/", "Must be a URL"},
		{URL, "http://[::1", "Must be a URL"},
		{URL, "http://[localhost]/", "Must be a URL"},
		{URL, "http://a..example/", "no host name"},
		{URL, "http://a.example../", "no host name"},
		{URL, "http://.example/", "no host name"},
		{URL, "http://-a.example/", "no host name"},
		{URL, "http://" + long + ".example/", "no host name"},
		{URL, "http://xn--a.example/", "no host name"},
		{URL, "http://a*b.example/", "no host name"},
		{TCP, "example.com", "Must be host:port"},
		{TCP, "[localhost]:22", "IPv6 address"},
		{TCP, "example.com:", "1-65535"},
		{TCP, "example.com:ssh", "1-65535"},
		{TCP, "example.com:+22", "1-65535"},
		{TCP, "example.com:0", "1-65535"},
		{TCP, ":22", "no host name"},
		{TCP, "::1:22", "Must be host:port"},
		{TCP, "[::1]", "Must be host:port"},
		{TCP, "[::1]22", "Must be host:port"},
		{TCP, "[::1%eth0]:22", "zone"},
		{TCP, "udp://example.com:53", "Must be host:port"},
		{TCP, "https://example.com:443", "Must be host:port"},
		{TCP, "tcp://example.com:22/", "Must be host:port"},
		{TCP, "tcp://user@example.com:22", "Must be host:port"},
		{TCP, "0x7f000001:22", "usual form"},
		{TCP, "127.1:22", "usual form"},
		{"icmp", "example.com", "Must be one of url, tcp"},
	}
	for _, test := range tests {
		got, err := ParseAddress(test.service, test.text)
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != fault.Invalid || !strings.Contains(f.Reason, test.reason) || (f.Field != "address" && test.service != "icmp") {
			t.Errorf("%q: %+v, %v; want a fault with %q", test.text, got, err, test.reason)
		}
	}
}

func TestFollow(t *testing.T) {
	t.Parallel()
	tests := []struct {
		from, location, to string
		err                error
	}{
		{"http://a.example/x/y?z", "w", "http://a.example/x/w", nil},
		{"http://a.example/x/y?z", "/w?v=1#part", "http://a.example/w?v=1", nil},
		{"http://a.example", "?page=2", "http://a.example?page=2", nil},
		{"http://a.example:8080", "//b.example/", "http://b.example/", nil},
		{"http://a.example", "https://B.example:444/ü?a b", "https://b.example:444/%C3%BC?a%20b", nil},
		{"https://a.example", "https://user:secret@b.example/", "https://b.example/", nil},
		{"https://a.example", "http://a.example/", "", ErrRedirectDowngrade},
		{"http://a.example", "file:///etc/passwd", "", ErrRedirectMalformed},
		{"http://a.example", "gopher://127.0.0.1:25/_x", "", ErrRedirectMalformed},
		{"http://a.example", "mailto:a@example.com", "", ErrRedirectMalformed},
		{"http://a.example", "http:///", "", ErrRedirectMalformed},
		{"http://a.example", "http://0x7f.1/", "", ErrRedirectMalformed},
		{"http://a.example", "http://[fe80::1%25lo]/", "", ErrRedirectMalformed},
		{"http://a.example", "//\xbb/", "", ErrRedirectMalformed},
		{"http://a.example", "/a\r\nSet-Cookie: b", "", ErrRedirectMalformed},
		{"http://a.example", "/" + strings.Repeat("a", mostRedirect), "", ErrRedirectMalformed},
	}
	for _, test := range tests {
		from, err := ParseAddress(URL, test.from)
		if err != nil {
			t.Fatal(err)
		}
		got, err := from.Follow(test.location)
		if !errors.Is(err, test.err) || got.URL != test.to {
			t.Errorf("%s from %s: %q, %v; want %q, %v", test.location, test.from, got.URL, err, test.to, test.err)
		}
	}
}

// FuzzAddress: what is accepted has one form, and reads the same again.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"https://bücher.example./a?b#c", "[::ffff:1.2.3.4]:80", "tcp://a:1", "http://0x7f.1", "http://%EF%BC%91.2.3.4/", "http://a@b:0/"} {
		f.Add(seed, "//b/c")
	}
	f.Fuzz(func(t *testing.T, text, location string) {
		if a, err := ParseAddress(TCP, text); err == nil {
			checkAddress(t, a)
		} else if !fault.IsKind(err, fault.Invalid) {
			t.Fatalf("%q: %v is no fault", text, err)
		}
		a, err := ParseAddress(URL, text)
		if err != nil {
			if !fault.IsKind(err, fault.Invalid) {
				t.Fatalf("%q: %v is no fault", text, err)
			}
			return
		}
		checkAddress(t, a)
		checkURL(t, a)
		if next, err := a.Follow(location); err == nil {
			checkAddress(t, next)
			checkURL(t, next)
		}
	})
}

func checkAddress(t *testing.T, a Address) {
	t.Helper()
	if a.Host == "" || a.Port == 0 || a.Host != strings.ToLower(a.Host) || strings.Trim(a.Host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:") != "" {
		t.Fatalf("%q has the host %q and port %d", a, a.Host, a.Port)
	}
	ip, err := netip.ParseAddr(a.Host)
	if (err == nil) != a.IP.IsValid() || ip != a.IP || a.IP.Zone() != "" || a.IP.Is4In6() {
		t.Fatalf("%q: host %q, IP %s", a, a.Host, a.IP)
	}
	if !a.IP.IsValid() && numeric(a.Host) {
		t.Fatalf("%q: host %q is a number to some", a, a.Host)
	}
}

func checkURL(t *testing.T, a Address) {
	t.Helper()
	if strings.IndexFunc(a.URL, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }) >= 0 {
		t.Fatalf("%q is requested as %q", a, a.URL)
	}
	u, err := url.Parse(a.URL)
	if err != nil || u.User != nil || u.Hostname() != a.Host || (u.Scheme != "http" && u.Scheme != "https") {
		t.Fatalf("%q is requested as %q: %v", a, a.URL, err)
	}
	again, err := fromURL(u)
	if err != nil || again.URL != a.URL || again.Host != a.Host || again.Port != a.Port {
		t.Fatalf("%q is requested as %q, then as %q: %v", a, a.URL, again.URL, err)
	}
}
