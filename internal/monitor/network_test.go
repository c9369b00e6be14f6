package monitor

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
)

func TestReachOf(t *testing.T) {
	t.Parallel()
	for reach, addresses := range map[Reach][]string{
		Public: {
			"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0",
			"172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255",
			"2606:4700::1111", "2a00::1", "3ffe::1", "::ffff:1.1.1.1",
			"64:ff9b::1.1.1.1", "2002:101:101::1", "2001:0:101:101::fefe:fefe", "2a00::5efe:101:101",
		},
		Private: {
			"127.0.0.1", "127.255.255.255", "10.0.0.0", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "100.64.0.1", "100.127.255.255",
			"169.254.1.1", "::1", "fc00::1", "fdff::1", "fe80::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
		},
		Forbidden: {
			"0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0",
			"169.254.169.254", "::ffff:169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254",
			"192.0.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.88.99.1", "198.18.0.1", "198.19.255.255", "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255",
			"2001:db8::1", "3fff::1", "2001:2::1", "2001:10::1", "100::1", "ff02::1", "fec0::1", "5f00::1", "4000::1", "::2", "fe80::1%lo",
			"::127.0.0.1", "::1.1.1.1", "::ffff:0:10.0.0.1", "64:ff9b:1::a00:1",
			"64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::169.254.169.254",
			"2002:a00:1::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2002:101:101::5efe:a00:1",
			"2001:0:a00:1::fefe:fefe", "2001:0:101:101::f5ff:fffe", // the client, turned, is 10.0.0.1
			"2a00::5efe:a00:1", "2a00::200:5efe:7f00:1",
		},
	} {
		for _, text := range addresses {
			if got := ReachOf(netip.MustParseAddr(text)); got != reach {
				t.Errorf("%s is %s, want %s", text, got, reach)
			}
		}
	}
	if got := ReachOf(netip.Addr{}); got != Forbidden {
		t.Errorf("no address is %s", got)
	}
}

// office allows one network, local the usual ones; the operator keeps 10.9.0.0/16
// and a public network, and guards ports.
func office() *Networks {
	return &Networks{
		Regions:   map[string][]netip.Prefix{"local": LocalNetworks(), "office": prefixes("10.1.0.0/16", "169.254.0.0/16"), "bare": nil},
		Forbidden: prefixes("10.9.0.0/16", "93.184.0.0/16"),
		Guards: []Guard{
			{First: 25, Last: 25, TCP: true},
			{Networks: prefixes("127.0.0.0/8", "5.5.5.5/32"), First: 8000, Last: 8010},
		},
	}
}

func TestPermit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		service ServiceType
		region  string
		to      string
		want    bool
	}{
		{URL, "", "1.1.1.1:80", true},
		{URL, "local", "1.1.1.1:80", true}, // a name may lead to both
		{URL, "", "10.1.0.1:80", false},
		{URL, "office", "10.1.0.1:80", true},
		{URL, "office", "[::ffff:10.1.0.1]:80", true},
		{URL, "office", "10.2.0.1:80", false},
		{URL, "bare", "10.1.0.1:80", false},
		{URL, "gone", "10.1.0.1:80", false},
		{URL, "local", "127.0.0.1:80", true},
		{URL, "local", "[::1]:80", true},
		{URL, "local", "[::]:80", false},
		{URL, "local", "10.9.0.1:80", false},
		{URL, "local", "100.64.0.1:80", false},
		{URL, "local", "169.254.1.1:80", false},
		{URL, "office", "169.254.1.1:80", true},
		{URL, "office", "169.254.169.254:80", false},
		{URL, "", "93.184.1.1:80", false},
		{URL, "", "[64:ff9b::93.184.1.1]:80", false},
		{URL, "", "1.1.1.1:25", false},
		{TCP, "", "1.1.1.1:25", true},
		{TCP, "local", "127.0.0.1:8005", false},
		{TCP, "local", "[::ffff:127.0.0.1]:8005", false},
		{TCP, "local", "127.0.0.1:7999", true},
		{TCP, "local", "127.0.0.1:8011", true},
		{TCP, "", "1.1.1.1:8005", true},
		{TCP, "", "[64:ff9b::5.5.5.5]:8005", false},
	}
	for _, test := range tests {
		if got := office().Permit(test.service, test.region, netip.MustParseAddrPort(test.to)); got != test.want {
			t.Errorf("%s in region %q to %s: %t, want %t", test.service, test.region, test.to, got, test.want)
		}
	}
}

func TestValidateDestination(t *testing.T) {
	t.Parallel()
	none := ""
	tests := []struct {
		service        ServiceType
		address        string
		region         *string
		field, reasons string // "" for no fault
	}{
		{URL, "http://1.1.1.1", nil, "", ""},
		{URL, "http://1.1.1.1", &none, "", ""},
		{URL, "http://1.1.1.1", new("local"), "region", "may not be set"},
		{URL, "http://1.1.1.1", new("gone"), "region", "region is not valid"},
		{URL, "http://10.1.0.1", nil, "region", "region is required"},
		{URL, "http://10.1.0.1", &none, "region", "region is required"},
		{URL, "http://10.1.0.1", new("office"), "", ""},
		{URL, "http://10.2.0.1", new("office"), "region", "does not reach"},
		{URL, "http://10.2.0.1", new("gone"), "region", "region is not valid"},
		{URL, "http://127.0.0.1", nil, "region", "region is required"},
		{URL, "http://127.0.0.1", new("local"), "", ""},
		{URL, "http://[::1]", new("local"), "", ""},
		{URL, "http://[::ffff:7f00:1]", nil, "region", "region is required"},
		{URL, "http://169.254.169.254", nil, "address", "may not be monitored"},
		{URL, "http://169.254.169.254", new("office"), "address", "may not be monitored"},
		{URL, "http://169.254.1.1", new("local"), "region", "does not reach"},
		{URL, "http://0.0.0.0", new("local"), "address", "may not be monitored"},
		{URL, "http://10.9.0.1", new("local"), "address", "may not be monitored"},
		{URL, "http://1.1.1.1:25", nil, "address", "Port 25"},
		{TCP, "1.1.1.1:25", nil, "", ""},
		{TCP, "127.0.0.1:8001", new("local"), "address", "Port 8001"},
		{URL, "http://intranet.example", nil, "", ""},
		{URL, "http://intranet.example", new("local"), "", ""},
		{URL, "http://intranet.example", new("gone"), "region", "region is not valid"},
		{URL, "http://intranet.example:25", nil, "address", "Port 25"},
		{TCP, "intranet.example:8001", nil, "", ""},
	}
	for _, test := range tests {
		a, err := ParseAddress(test.service, test.address)
		if err != nil {
			t.Fatal(err)
		}
		faults := office().ValidateDestination(a, test.region)
		switch {
		case test.field == "" && len(faults) == 0:
		case len(faults) == 1 && faults[0].Field == test.field && strings.Contains(faults[0].Reason, test.reasons):
		default:
			t.Errorf("%s: %v, want %q on %q", test.address, faults, test.reasons, test.field)
		}
	}
}

func TestAllowedNetwork(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"10.0.0.0/8": true, "10.1.0.0/16": true, "127.0.0.1/32": true, "100.64.0.0/10": true, "fd00::/8": true, "::1/128": true, "fe80::/10": true,
		"10.0.0.0/7": false, "0.0.0.0/0": false, "::/0": false, "1.1.1.0/24": false, "2001:db8::/32": false, "172.16.0.0/11": false,
	} {
		if got := AllowedNetwork(netip.MustParsePrefix(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

// FuzzNetworks: whatever form an address takes, it is never permitted where its
// plain form, or one that it carries, isn't; and nothing reaches the metadata.
func FuzzNetworks(f *testing.F) {
	for _, text := range []string{"127.0.0.1", "169.254.169.254", "::ffff:10.1.0.1", "64:ff9b::7f00:1", "2002:a00:1::", "2001:0:a00:1::1", "fd00:ec2::254", "8.8.8.8"} {
		f.Add(netip.MustParseAddr(text).AsSlice(), uint16(80))
	}
	networks := office()
	f.Fuzz(func(t *testing.T, raw []byte, port uint16) {
		a, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		for _, region := range []string{"", "local", "office", "gone"} {
			for _, service := range []ServiceType{URL, TCP} {
				permitted := networks.Permit(service, region, netip.AddrPortFrom(a, port))
				if permitted != networks.Permit(service, region, netip.AddrPortFrom(a.Unmap(), port)) {
					t.Fatalf("%s isn't judged as %s", a, a.Unmap())
				}
				if permitted && (a.IsUnspecified() || a.IsMulticast() || a.Unmap().IsMulticast() || within(metadata, a.Unmap()) || within(networks.Forbidden, a.Unmap())) {
					t.Fatalf("%s is permitted", a)
				}
				if permitted && region == "" && (a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.Unmap().IsPrivate() || a.Unmap().IsLoopback()) {
					t.Fatalf("%s is permitted without a region", a)
				}
			}
		}
		if a4 := a.Unmap(); a4.Is4() {
			checkDisguises(t, a4)
		}
	})
}

// checkDisguises puts an address of IPv4 into all that carries one.
func checkDisguises(t *testing.T, a netip.Addr) {
	t.Helper()
	b := a.As4()
	disguise := func(prefix string, at int, turned bool) netip.Addr {
		d := netip.MustParseAddr(prefix).As16()
		copy(d[at:], b[:])
		if turned {
			binary.BigEndian.PutUint32(d[at:], ^binary.BigEndian.Uint32(b[:]))
		}
		return netip.AddrFrom16(d)
	}
	for _, d := range []netip.Addr{
		disguise("64:ff9b::", 12, false), disguise("2002::1", 2, false), disguise("2001:0:808:808::", 12, true), disguise("2001::f7f7:f7f7", 4, false),
		disguise("::", 12, false), disguise("::ffff:0:0:0", 12, false), disguise("64:ff9b:1::", 12, false), disguise("2a00::5efe:0:0", 12, false),
	} {
		if got := ReachOf(d); got == Public && ReachOf(a) != Public || got == Private && d != netip.IPv6Loopback() {
			t.Fatalf("%s is %s, but %s in it is %s", d, got, a, ReachOf(a))
		}
	}
}
