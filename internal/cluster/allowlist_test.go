package cluster_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/cluster"
	"steward/internal/fault"
)

func TestParseAllowList(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		items []string
		want  []string
		fault string
	}{
		{"nothing lets nobody in", nil, []string{}, ""},
		{"addresses and ranges, as given", []string{"192.0.2.1", "10.0.0.0/8", "2001:DB8::1", "2001:db8::/32"}, []string{"192.0.2.1", "10.0.0.0/8", "2001:DB8::1", "2001:db8::/32"}, ""},
		{"duplicates go, order stays", []string{"10.0.0.2", "10.0.0.1", "10.0.0.2"}, []string{"10.0.0.2", "10.0.0.1"}, ""},
		{"everybody", []string{"0.0.0.0/0"}, []string{"0.0.0.0/0"}, ""},
		{"bad IPv4, all of them", []string{"300.1.1.1", "10.0.0.1", "10.0.0.0/33", "example.org"}, nil, "allow_list: Invalid IPv4 address(es) or range(s): 300.1.1.1, 10.0.0.0/33, example.org"},
		{"bad IPv6", []string{"::zz", "2001:db8::/129"}, nil, "allow_list: Invalid IPv6 address(es) or range(s): ::zz, 2001:db8::/129"},
		{"both", []string{"1.2.3", ":::"}, nil, "allow_list: Invalid IPv4 address(es) or range(s): 1.2.3; allow_list: Invalid IPv6 address(es) or range(s): :::"},
		{"empty items", []string{""}, nil, "allow_list: Invalid IPv4 address(es) or range(s): \"\""},
		{"bits beyond the prefix", []string{"1.2.3.4/0", "127.0.0.9/24", "10.0.0.1", "2001:db8::1/32", "::ffff:10.0.0.1/104"}, nil, "allow_list: Must be whole ranges or single addresses: 1.2.3.4/0 would be 0.0.0.0/0, 127.0.0.9/24 would be 127.0.0.0/24, 2001:db8::1/32 would be 2001:db8::/32, ::ffff:10.0.0.1/104 would be 10.0.0.0/8"},
		{"whole single addresses", []string{"1.2.3.4/32", "2001:db8::1/128"}, []string{"1.2.3.4/32", "2001:db8::1/128"}, ""},
		{"spaces", []string{" 10.0.0.1"}, nil, "allow_list: Invalid IPv4 address(es) or range(s): \" 10.0.0.1\""},
		{"leading zeros, which some read as octal", []string{"010.0.0.1"}, nil, "allow_list: Invalid IPv4 address(es) or range(s): 010.0.0.1"},
		{"a zone of this machine", []string{"fe80::1%eth0"}, nil, "allow_list: Invalid IPv6 address(es) or range(s): fe80::1%eth0"},
		{"a range with a zone", []string{"fe80::1%eth0/64"}, nil, "allow_list: Invalid IPv6 address(es) or range(s): fe80::1%eth0/64"},
		{"lines that could reach a configuration file", []string{"10.0.0.1\nlisten x"}, nil, "allow_list: Invalid IPv4 address(es) or range(s): 10.0.0.1\nlisten x"},
	} {
		list, err := cluster.ParseAllowList(c.items)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != c.fault || !slices.Equal(list, c.want) || (list == nil) != (c.want == nil) {
			t.Errorf("%s: %#v, %q", c.name, list, text)
		}
	}
}

func TestAllowListIsBounded(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 1001 {
		many = append(many, fmt.Sprintf("10.0.%d.%d", i/256, i%256))
	}
	if _, err := cluster.ParseAllowList(many[:1000]); err != nil {
		t.Errorf("a thousand: %v", err)
	}
	if _, err := cluster.ParseAllowList(many); !fault.IsKind(err, fault.Invalid) {
		t.Errorf("a thousand and one: %v", err)
	}
	bad := make([]string, 10000)
	for i := range bad {
		bad[i] = fmt.Sprint(i, strings.Repeat("x", 1000))
	}
	if _, err := cluster.ParseAllowList(bad); err == nil || len(err.Error()) > 4096 {
		t.Errorf("the answer has %d bytes", len(err.Error()))
	}
}

func TestAllows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list, address string
		want          bool
	}{
		{"", "127.0.0.1", false},
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "127.0.0.2", false},
		{"10.0.0.0/8", "10.255.0.1", true},
		{"10.0.0.0/8", "11.0.0.1", false},
		{"0.0.0.0/0", "203.0.113.9", true},
		{"0.0.0.0/0", "2001:db8::1", true}, // "allows every address"
		{"::/0", "203.0.113.9", false},
		{"::/0", "2001:db8::1", true},
		{"::ffff:192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"::ffff:10.0.0.0/104", "10.200.0.1", true},
		{"::ffff:0.0.0.0/96", "2001:db8::1", false},
		{"fe80::/10", "fe80::1%lo", true},
	} {
		var items []string
		if c.list != "" {
			items = strings.Split(c.list, " ")
		}
		list, err := cluster.ParseAllowList(items)
		if err != nil {
			t.Fatal(err)
		}
		if got := list.Allows(netip.MustParseAddr(c.address)); got != c.want {
			t.Errorf("%q lets %s in: %v", c.list, c.address, got)
		}
	}
}

func TestUnreadableItemsOpenNothing(t *testing.T) {
	t.Parallel()
	if p := (cluster.AllowList{"nonsense", "10.0.0.0/8/8", "0.0.0.0/0x"}).Prefixes(); len(p) != 0 {
		t.Errorf("%v", p)
	}
}

// TestListsOfEarlierTimes: what was taken with bits beyond its prefix goes on
// meaning what it meant.
func TestListsOfEarlierTimes(t *testing.T) {
	t.Parallel()
	l := cluster.AllowList{"10.1.2.3/8"}
	if !l.Allows(netip.MustParseAddr("10.255.0.1")) || l.Allows(netip.MustParseAddr("11.0.0.1")) || l.Prefixes()[0].String() != "10.0.0.0/8" {
		t.Errorf("%v", l.Prefixes())
	}
}

// TestAllowListKeepsItsPromise: an item lets exactly its own addresses in.
func TestAllowListKeepsItsPromise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var prefixes []netip.Prefix
		var items []string
		for range rapid.IntRange(0, 5).Draw(t, "items") {
			a := netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address")))
			p := netip.PrefixFrom(a, rapid.IntRange(1, 32).Draw(t, "bits"))
			prefixes, items = append(prefixes, p.Masked()), append(items, p.Masked().String())
		}
		list, err := cluster.ParseAllowList(items)
		if err != nil {
			t.Fatal(err)
		}
		probe := netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "probe")))
		want := slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(probe) })
		if list.Allows(probe) != want {
			t.Fatalf("%v lets %s in: %v", items, probe, !want)
		}
		again, err := cluster.ParseAllowList(list)
		if err != nil || !again.Equal(list) {
			t.Fatalf("read back: %v, %v", again, err)
		}
	})
}

func FuzzParseAllowList(f *testing.F) {
	for _, seed := range []string{"10.0.0.1", "0.0.0.0/0,::/0", "::ffff:1.2.3.4/100", "fe80::1%eth0", "1.2.3.4/", "/8", "\x00", "10.0.0.1\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		items := strings.Split(text, ",")
		list, err := cluster.ParseAllowList(items)
		if err != nil {
			if list != nil || !fault.IsKind(err, fault.Invalid) {
				t.Fatalf("%v with %v", list, err)
			}
			return
		}
		prefixes := list.Prefixes()
		if len(list) > 0 && len(prefixes) == 0 {
			t.Fatalf("%q is accepted but lets nobody in", list)
		}
		for _, p := range prefixes {
			if !p.IsValid() || p != p.Masked() || strings.ContainsAny(p.String(), " \n\r\t;#'\"\\") {
				t.Fatalf("%q gives %v", list, p)
			}
		}
		for _, item := range list {
			if !slices.Contains(items, item) {
				t.Fatalf("%q isn't as given", item)
			}
		}
	})
}
