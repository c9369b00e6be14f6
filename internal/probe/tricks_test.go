package probe

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/testdir"
)

// inside is a server on loopback that must not be reached; office is one that
// may be, from the region "office" alone: all of 127.0.0.0/8 is this machine, so
// that 127.0.1.1 can stand for a network of the customer's own.
type inside struct {
	port    string
	reached atomic.Int32
}

func insideServer(t *testing.T) *inside {
	t.Helper()
	var i inside
	l, err := net.Listen("tcp", ":0") // on every address of this machine, those of IPv6 too
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { i.reached.Add(1) }))
	s.Listener.Close()
	s.Listener = l
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			i.reached.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	_, i.port, _ = net.SplitHostPort(l.Addr().String())
	return &i
}

// officeRules let the region "office" reach 127.0.1.0/24, and forbid 127.0.1.9.
func officeRules() *monitor.Networks {
	return &monitor.Networks{
		Regions:   map[string][]netip.Prefix{"office": {netip.MustParsePrefix("127.0.1.0/24")}},
		Forbidden: []netip.Prefix{netip.MustParsePrefix("127.0.1.9/32")},
	}
}

// TestEveryTrick lists by name what customers could try in order to look into the
// operator's network. PORT is that of a server that listens on every address of
// this machine and must not see a connection. What is refused when the service is
// saved has want "address" or "region"; all else is blocked by the check.
func TestEveryTrick(t *testing.T) {
	t.Parallel()
	server := insideServer(t)
	z := &zone{names: map[string][][]netip.Addr{
		"loopback.test.":   {addrs("127.0.0.1")},
		"loopback6.test.":  {addrs("::1")},
		"mapped.test.":     {addrs("::ffff:127.0.0.1")},
		"unspec.test.":     {addrs("0.0.0.0")},
		"unspec6.test.":    {addrs("::")},
		"metadata.test.":   {addrs("169.254.169.254")},
		"metadata6.test.":  {addrs("fd00:ec2::254")},
		"nat64.test.":      {addrs("64:ff9b::7f00:1")},
		"6to4.test.":       {addrs("2002:7f00:1::1")},
		"private.test.":    {addrs("10.0.0.1", "192.168.0.1", "172.16.0.1")},
		"cgnat.test.":      {addrs("100.64.0.1")},
		"ula.test.":        {addrs("fd00::1")},
		"broadcast.test.":  {addrs("255.255.255.255")},
		"multicast.test.":  {addrs("224.0.0.1", "ff02::1")},
		"all.test.":        {addrs("127.0.0.1", "::1", "127.0.0.2", "0.0.0.0", "::ffff:127.0.0.1")},
		"elsewhere.test.":  {addrs("127.0.2.1")},
		"operators.test.":  {addrs("127.0.1.9")},
		"127.0.0.1.test.":  {addrs("127.0.0.1")},
		"0x7f000001.test.": {addrs("127.0.0.1")},
		// Many addresses of a network that may be reached, for a scan.
		"office.test.": {addrs("127.0.1.1")},
	}}
	p := New(Options{Networks: officeRules(), UserAgent: "steward/test", Resolver: z.resolver(t)})
	for name, trick := range map[string]struct{ address, region, want string }{
		"metadata address":                 {"http://169.254.169.254/latest/meta-data/", "", "address"},
		"metadata address with a region":   {"http://169.254.169.254/", "office", "address"},
		"metadata address, IPv6":           {"http://[fd00:ec2::254]/", "", "address"},
		"metadata address, IPv6-mapped":    {"http://[::ffff:169.254.169.254]/", "", "address"},
		"metadata address by a name":       {"http://metadata.test/", "", ""},
		"metadata address by a name, IPv6": {"http://metadata6.test/", "office", ""},
		"loopback without a region":        {"http://127.0.0.1:PORT/", "", "region"},
		"loopback, IPv6":                   {"http://[::1]:PORT/", "", "region"},
		"loopback, IPv6-mapped":            {"http://[::ffff:127.0.0.1]:PORT/", "", "region"},
		"loopback, IPv6-mapped in hex":     {"http://[::ffff:7f00:1]:PORT/", "", "region"},
		"loopback, IPv4-compatible":        {"http://[::127.0.0.1]:PORT/", "", "address"},
		"loopback in another region":       {"http://127.0.0.1:PORT/", "office", "region"},
		"loopback in an unknown region":    {"http://127.0.0.1:PORT/", "nowhere", "region"},
		"loopback by a name":               {"http://loopback.test:PORT/", "", ""},
		"loopback by a name, IPv6":         {"http://loopback6.test:PORT/", "", ""},
		"loopback by a name, IPv6-mapped":  {"http://mapped.test:PORT/", "", ""},
		"loopback by a name, with region":  {"http://loopback.test:PORT/", "office", ""},
		"loopback by a name, tcp":          {"loopback.test:PORT", "", ""},
		"localhost":                        {"http://localhost:PORT/", "", ""},
		"localhost in capitals and a dot":  {"http://LOCALHOST.:PORT/", "", ""},
		"localhost, tcp":                   {"localhost:PORT", "", ""},
		"every address of this machine":    {"http://all.test:PORT/", "", ""},
		"decimal host":                     {"http://2130706433:PORT/", "", "address"},
		"hexadecimal host":                 {"http://0x7f000001:PORT/", "", "address"},
		"hexadecimal parts":                {"http://0x7f.0x0.0x0.0x1:PORT/", "", "address"},
		"octal host":                       {"http://017700000001:PORT/", "", "address"},
		"octal parts":                      {"http://0177.0.0.1:PORT/", "", "address"},
		"short form":                       {"http://127.1:PORT/", "", "address"},
		"zero":                             {"http://0:PORT/", "", "address"},
		"full-width digits":                {"http://１２７.0.0.1:PORT/", "", "address"},
		"ideographic full stops":           {"http://127。0。0。1:PORT/", "", "address"},
		"percent-encoded host":             {"http://%31%32%37.0.0.1:PORT/", "", "address"},
		"trailing dot":                     {"http://127.0.0.1.:PORT/", "", "address"},
		"0.0.0.0":                          {"http://0.0.0.0:PORT/", "", "address"},
		"[::]":                             {"http://[::]:PORT/", "", "address"},
		"0.0.0.0 by a name":                {"http://unspec.test:PORT/", "", ""},
		"[::] by a name":                   {"http://unspec6.test:PORT/", "", ""},
		"NAT64":                            {"http://[64:ff9b::127.0.0.1]:PORT/", "", "address"},
		"NAT64 by a name":                  {"http://nat64.test:PORT/", "", ""},
		"6to4":                             {"http://[2002:7f00:1::]:PORT/", "", "address"},
		"6to4 by a name":                   {"http://6to4.test:PORT/", "", ""},
		"Teredo":                           {"http://[2001:0:101:101::80ff:fffe]:PORT/", "", "address"},
		"link-local with a zone":           {"http://[fe80::1%25lo]:PORT/", "", "address"},
		"private by a name":                {"http://private.test/", "", ""},
		"shared by a name":                 {"http://cgnat.test/", "", ""},
		"unique local by a name":           {"http://ula.test/", "", ""},
		"broadcast by a name":              {"http://broadcast.test/", "", ""},
		"multicast by a name":              {"http://multicast.test/", "", ""},
		"outside of the region's network":  {"http://elsewhere.test:PORT/", "office", ""},
		"the operator's in the region's":   {"http://operators.test:PORT/", "office", ""},
		"the operator's address":           {"http://127.0.1.9:PORT/", "office", "address"},
		"a region's network without it":    {"http://office.test:PORT/", "", ""},
		"user information":                 {"http://example.com@127.0.0.1:PORT/", "", "address"},
		"user information with a name":     {"http://127.0.0.1:PORT@loopback.test/", "", "address"},
		"fragment":                         {"http://example.com#@127.0.0.1:PORT/", "", "address"},
		"backslash":                        {`http://example.com\@127.0.0.1:PORT/`, "", "address"},
		"CRLF in the address":              {"http://127.0.0.1:PORT/\r\nX: y", "", "address"},
		"CRLF in the host":                 {"http://127.0.0.1\r\n:PORT/", "", "address"},
		"space in the host":                {"http://127.0.0.1 .example.com:PORT/", "", "address"},
		"another scheme":                   {"gopher://127.0.0.1:PORT/_x", "", "address"},
		"a file":                           {"file:///etc/passwd", "", "address"},
		"a unix socket":                    {"unix:///run/steward.sock", "", "address"},
		"tcp without brackets":             {"::1:PORT", "", "address"},
		"tcp to decimal host":              {"2130706433:PORT", "", "address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.ReplaceAll(trick.address, "PORT", server.port)
			service := monitor.TCP
			if strings.Contains(text, "//") {
				service = monitor.URL
			}
			a, err := monitor.ParseAddress(service, text)
			if err == nil {
				err = officeRules().ValidateDestination(a, &trick.region).Err()
			}
			if faults, _ := fault.All(err); trick.want != "" {
				if len(faults) == 0 || faults[0].Field != trick.want {
					t.Fatalf("saved with %v, want a fault on %s", err, trick.want)
				}
				if a.Host == "" {
					return
				}
			} else if err != nil {
				t.Fatalf("a name was judged before it was looked up: %v", err)
			}
			// Whatever has been saved, the check asks again.
			r := p.Check(t.Context(), Target{Address: a, Timeout: patience, Region: trick.region})
			if r.Class != monitor.Blocked || !slices.Contains([]monitor.Barrier{monitor.NeedsRegion, monitor.OutsideRegion, monitor.NeverChecked}, monitor.Barrier(r.Detail)) {
				t.Errorf("%s, %q", r.Class, r.Detail)
			}
			if len(r.Addresses) > 0 {
				t.Errorf("it gives away that the name leads to %s", r.Addresses)
			}
		})
	}
	t.Cleanup(func() {
		if n := server.reached.Load(); n != 0 {
			t.Errorf("the inside was reached %d times", n)
		}
	})
}

// TestRebinding: a name whose address changes between two looks gains nothing,
// whichever came first.
func TestRebinding(t *testing.T) {
	t.Parallel()
	server := insideServer(t)
	z := &zone{names: map[string][][]netip.Addr{
		"rebind.test.": {addrs("127.0.1.1"), addrs("127.0.0.1"), addrs("127.0.1.1"), addrs("::1"), addrs("0.0.0.0")},
		"hook.test.":   {addrs("127.0.1.1"), addrs("127.0.0.1"), addrs("127.0.1.1"), addrs("::1"), addrs("0.0.0.0")},
	}}
	p := New(Options{Networks: officeRules(), UserAgent: "steward/test", Resolver: z.resolver(t)})
	target := Target{Address: address(t, "http://rebind.test:"+server.port), Timeout: patience, Region: "office"}
	for look, want := range []monitor.Class{monitor.OK, monitor.Blocked, monitor.OK, monitor.Blocked, monitor.Blocked} {
		if r := p.Check(t.Context(), target); r.Class != want {
			t.Errorf("look %d: %s, %s; want %s", look, r.Class, r.Detail, want)
		}
	}
	if n := server.reached.Load(); n != 4 { // two connections, two requests
		t.Errorf("the server saw %d connections and requests, want 4", n)
	}
	hook := Target{Address: address(t, "http://hook.test:"+server.port), Timeout: patience, Region: "office"}
	for delivery, want := range []monitor.Class{monitor.OK, monitor.Blocked, monitor.OK, monitor.Blocked, monitor.Blocked} {
		r, err := p.Post(t.Context(), hook, Request{Body: []byte("{}"), Before: func() error { return nil }})
		if r.Class != want || err != nil {
			t.Errorf("delivery %d: %s, %s, %v; want %s", delivery, r.Class, r.Detail, err, want)
		}
	}
	if n := server.reached.Load(); n != 8 {
		t.Errorf("the server saw %d connections and requests, want 8", n)
	}
}

// TestRedirectInside: redirects lead nowhere that the service itself couldn't be.
func TestRedirectInside(t *testing.T) {
	t.Parallel()
	server := insideServer(t)
	z := &zone{names: map[string][][]netip.Addr{"loopback.test.": {addrs("127.0.0.1")}, "office.test.": {addrs("127.0.1.1")}, "rebind.test.": {addrs("127.0.1.1"), addrs("127.0.0.1")}}}
	rules := officeRules()
	rules.Guards = []monitor.Guard{{First: 25, Last: 25, TCP: true}}
	p := New(Options{Networks: rules, UserAgent: "steward/test", Resolver: z.resolver(t)})
	const outside, never, malformed = "After a redirect: " + string(monitor.OutsideRegion), "After a redirect: " + string(monitor.NeverChecked), "A redirect leads to what is no http or https URL."
	for name, test := range map[string]struct {
		location string
		class    monitor.Class
		detail   string
	}{
		"metadata":            {"http://169.254.169.254/latest/", monitor.Blocked, never},
		"loopback":            {"http://127.0.0.1:PORT/", monitor.Blocked, outside},
		"loopback, IPv6":      {"http://[::1]:PORT/", monitor.Blocked, outside},
		"loopback, mapped":    {"http://[::ffff:127.0.0.1]:PORT/", monitor.Blocked, outside},
		"loopback by a name":  {"//loopback.test:PORT/", monitor.Blocked, outside},
		"localhost":           {"http://localhost:PORT/", monitor.Blocked, outside},
		"unspecified":         {"http://0.0.0.0:PORT/", monitor.Blocked, never},
		"with a user":         {"http://office@127.0.0.1:PORT/", monitor.Blocked, outside},
		"a forbidden port":    {"http://127.0.1.1:25/", monitor.Blocked, "After a redirect: " + string(monitor.GuardedPort)},
		"decimal host":        {"http://2130706433:PORT/", monitor.BadRedirect, malformed},
		"hexadecimal host":    {"http://0x7f.1:PORT/", monitor.BadRedirect, malformed},
		"octal host":          {"http://0177.0.0.1:PORT/", monitor.BadRedirect, malformed},
		"file":                {"file:///etc/passwd", monitor.BadRedirect, malformed},
		"gopher":              {"gopher://127.0.0.1:PORT/_x", monitor.BadRedirect, malformed},
		"no host":             {"http:///", monitor.BadRedirect, malformed},
		"rebinding":           {"http://rebind.test:PORT2/to", monitor.Blocked, outside},
		"nobody listens":      {"http://127.0.1.1:1/", monitor.Refused, "After a redirect: The connection was refused."},
		"into the region":     {"http://office.test:PORT2/fine", monitor.OK, ""},
		"to another port":     {"http://127.0.1.1:PORT2/fine", monitor.OK, ""},
		"and on to the inner": {"http://127.0.1.1:PORT2/to", monitor.Blocked, outside},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			location := strings.ReplaceAll(test.location, "PORT2", "OTHER")
			location = strings.ReplaceAll(location, "PORT", server.port)
			l, err := net.Listen("tcp", "127.0.1.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Header.Get("Authorization") != "":
					t.Error("credentials were sent")
				case r.URL.Path == "/to" && name == "rebinding":
					http.Redirect(w, r, "http://rebind.test:"+server.port+"/", http.StatusFound)
				case r.URL.Path == "/to":
					http.Redirect(w, r, "http://127.0.0.1:"+server.port+"/", http.StatusFound)
				case r.URL.Path != "/fine":
					w.Header().Set("Location", strings.ReplaceAll(location, "OTHER", l.Addr().String()[len("127.0.1.1:"):]))
					w.WriteHeader(http.StatusMovedPermanently)
				}
			})}
			done := make(chan struct{})
			go func() { defer close(done); s.Serve(l) }()
			t.Cleanup(func() { s.Close(); <-done })
			r := p.Check(t.Context(), Target{Address: address(t, "http://"+l.Addr().String()+"/"), Timeout: patience, Region: "office"})
			found(t, r, test.class, test.detail)
		})
	}
	t.Cleanup(func() {
		if n := server.reached.Load(); n != 0 {
			t.Errorf("the inside was reached %d times", n)
		}
	})
}

// TestBlockedTellsNothingOfWhatIsThere: class, words and delay of an address that is
// blocked are the same whether somebody listens there or not, and take as long as a
// refusal.
func TestBlockedTellsNothingOfWhatIsThere(t *testing.T) {
	t.Parallel()
	z := &zone{names: map[string][][]netip.Addr{"inside.test.": {addrs("127.0.2.1")}}}
	p := New(Options{Networks: officeRules(), UserAgent: "steward/test", Resolver: z.resolver(t)})
	server := insideServer(t)
	_, closed, _ := net.SplitHostPort(testdir.Refused(t))
	check := func(region, at string, timeout time.Duration) monitor.Result {
		return p.Check(t.Context(), Target{Address: address(t, at), Timeout: timeout, Region: region})
	}
	for region, want := range map[string]monitor.Barrier{"": monitor.NeedsRegion, "office": monitor.OutsideRegion} {
		for _, host := range []string{"http://127.0.2.1:", "http://inside.test:", "127.0.2.1:", "inside.test:"} {
			open, shut := check(region, host+server.port, patience), check(region, host+closed, patience)
			for _, r := range []monitor.Result{open, shut} {
				found(t, r, monitor.Blocked, string(want))
				if r.Took < refusal {
					t.Errorf("%s in %q took %s, want %s at least", host, region, r.Took, refusal)
				}
			}
		}
	}
	if r := check("office", "http://127.0.1.1:"+closed, patience); r.Class != monitor.Refused || r.Took < refusal {
		t.Errorf("%+v", r)
	}
	if hasty := check("office", "http://127.0.2.1:"+closed, time.Millisecond); hasty.Took > slack {
		t.Errorf("a timeout of 1ms took %s", hasty.Took)
	}
	if n := server.reached.Load(); n != 0 {
		t.Errorf("the inside was reached %d times", n)
	}
}

// TestAddressesBehindNames: a check tells what its host leads to, as far as it may be
// reached.
func TestAddressesBehindNames(t *testing.T) {
	t.Parallel()
	z := &zone{names: map[string][][]netip.Addr{"both.test.": {addrs("127.0.1.1", "127.0.2.1", "127.0.1.2")}}}
	p := New(Options{Networks: officeRules(), UserAgent: "steward/test", Resolver: z.resolver(t)})
	_, closed, _ := net.SplitHostPort(testdir.Refused(t))
	for host, want := range map[string][]string{
		"both.test": {"both.test", "127.0.1.1", "127.0.1.2"}, "127.0.1.1": {"127.0.1.1"}, "[::ffff:127.0.1.1]": {"127.0.1.1"}, "127.0.2.1": {"127.0.2.1"},
	} {
		target := address(t, "http://"+host+":"+closed)
		r := p.Check(t.Context(), Target{Address: target, Timeout: patience, Region: "office"})
		got := r.Hosts(target.Host)
		slices.Sort(got[1:])
		if !slices.Equal(got, want) {
			t.Errorf("%s is known as %q, want %q", host, got, want)
		}
	}
}

// TestNoScan: a name with many addresses doesn't make a check look at all of them.
func TestNoScan(t *testing.T) {
	t.Parallel()
	var many []netip.Addr
	for i := range mostTries + 10 {
		many = append(many, netip.AddrFrom4([4]byte{127, 0, 1, byte(100 + i)}))
	}
	p := New(Options{Networks: officeRules(), Resolver: (&zone{names: map[string][][]netip.Addr{"many.test.": {many}}}).resolver(t)})
	for listening, want := range map[int]monitor.Class{mostTries - 1: monitor.OK, mostTries: monitor.Refused} {
		l, err := net.Listen("tcp", netip.AddrPortFrom(many[listening], 0).String())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		if r := p.Check(t.Context(), Target{Address: address(t, "many.test:"+port), Timeout: patience, Region: "office"}); r.Class != want {
			t.Errorf("the address with number %d listens: %s, want %s", listening, r.Class, want)
		}
	}
}

func TestDNS(t *testing.T) {
	t.Parallel()
	server := insideServer(t)
	z := &zone{names: map[string][][]netip.Addr{"mixed.test.": {addrs("10.0.0.1", "127.0.0.1", "127.0.1.1")}, "empty.test.": {nil}}}
	p := New(Options{Networks: officeRules(), UserAgent: "steward/test", Resolver: z.resolver(t)})
	const none = "The host name doesn't exist or has no address."
	for host, want := range map[string]struct {
		class  monitor.Class
		detail string
	}{
		"mixed.test":   {monitor.OK, ""}, // the one that may be reached is
		"missing.test": {monitor.NotResolved, none},
		"empty.test":   {monitor.NotResolved, none},
		"failing.test": {monitor.NotResolved, "The name servers of the host name fail."},
		"mute.test":    {monitor.NotResolved, "The host name couldn't be looked up in time."},
	} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			target := Target{Address: address(t, "http://"+host+":"+server.port), Timeout: patience, Region: "office"}
			if host == "mute.test" {
				target.Timeout = 300 * time.Millisecond
			}
			r := p.Check(t.Context(), target)
			found(t, r, want.class, want.detail)
			if host == "mute.test" {
				onTime(t, r, target.Timeout)
			}
		})
	}
	away := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", testdir.Refused(t))
	}}
	r := New(Options{Networks: officeRules(), Resolver: away}).Check(t.Context(), Target{Address: address(t, "http://some.test"), Timeout: patience})
	found(t, r, monitor.Inconclusive, "The monitor can't reach its name server.")
}
