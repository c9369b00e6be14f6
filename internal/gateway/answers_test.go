package gateway

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

func TestParseSessions(t *testing.T) {
	t.Parallel()
	const text = `0x55bbe433d650: proto=tcpv4 src=127.0.0.1:45583 fe=primary-29000 be=primary-29000 srv=s0 ts=00 epoch=0 age=1s calls=22 scf=[8,0h,fd=9] scb=[3,1h,fd=-1] exp=0s rc=11 c_exp=0s
0x55bbe433d651: proto=tcpv6 src=2001:db8::1:443 fe=reads-29000 be=reads-29000 srv=s0 ts=00
0x55bbe444ddc0: proto=unix_stream src=unix:1 fe=GLOBAL be=<NONE> srv=<none> ts=00 epoch=0 age=0s

`
	list, err := parseSessions(text)
	want := []session{
		{"0x55bbe433d650", "primary-29000", netip.MustParseAddrPort("127.0.0.1:45583")},
		{"0x55bbe433d651", "reads-29000", netip.MustParseAddrPort("[2001:db8::1]:443")},
	}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("got %v, %v; want %v", list, err, want)
	}
	// A source that can't be read must not be passed over in silence.
	if _, err := parseSessions("0x1: proto=tcpv4 src=? fe=primary-29000"); err == nil {
		t.Error("an unreadable source was skipped")
	}
}

func TestParseServerAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"  backend=primary-29000 (id=2 mode=tcp) addr=127.0.0.1:48176\n  server=s0 (id=1) addr=127.0.77.1:29000\n": "127.0.77.1:29000",
		"  server=s0 (id=1) addr=::1:99\n": "[::1]:99",
		"  server=s0 (id=1)\n":             "",
		"  server=<NONE> (id=0)\n":         "",
		"  backend=x addr=127.0.0.1:48176": "",
	} {
		got, connected := parseServerAddress(text)
		if connected != (want != "") || connected && got != netip.MustParseAddrPort(want) {
			t.Errorf("%q: %v, %v; want %q", text, got, connected, want)
		}
	}
}

func TestParseFrontends(t *testing.T) {
	t.Parallel()
	found, err := parseFrontends("# pxname,svname,scur,slim,status,\nprimary-1,FRONTEND,7,9,OPEN,\nreads-1,FRONTEND,0,9,STOP,\n")
	if got, want := fmt.Sprint(found), "map[primary-1:{true 7} reads-1:{false 0}]"; err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	for _, bad := range []string{"# a,b\n1,2\n", "# pxname,svname,scur,slim,status,\nprimary-1,FRONTEND,many,9,OPEN,\n", "# pxname,svname,scur,slim,status,\nx\n"} {
		if found, err := parseFrontends(bad); err == nil {
			t.Errorf("%q: got %v", bad, found)
		}
	}
}

func TestParseLimits(t *testing.T) {
	t.Parallel()
	const head = "# pxname,svname,scur,slim,status,\n"
	servers := map[string]server{"s0": {}, "s1": {connections: 3}}
	if err := parseLimits(head+"primary-1,s0,7,9,no check,\nprimary-1,s1,0,,MAINT,\n", servers); err != nil || servers["s0"].connections != 9 || servers["s1"].connections != 0 {
		t.Errorf("got %v, %v", servers, err)
	}
	if err := parseLimits(head+"primary-1,s0,7,many,no check,\n", servers); err == nil {
		t.Error("a limit that is no number was taken")
	}
}

func TestPortOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{
		"primary-21000": 21000, "reads-1": 1, "GLOBAL": 0, "primary-": 0, "primary-x": 0, "primary-+1": 0, "other-1": 0, "primary-01": 0,
	} {
		if port, ours := portOf(name); ours != (want != 0) || ours && port != want {
			t.Errorf("%q: %d, %v", name, port, ours)
		}
	}
}

// FuzzAnswers: whatever HAProxy says, reading it ends, and what is read is usable.
func FuzzAnswers(f *testing.F) {
	f.Add("0x55: proto=tcpv4 src=127.0.0.1:1 fe=primary-1\n")
	f.Add("1\n# be_id\n5 reads-29000 1 s0 127.0.0.1 0 5 1 1 0 1 0 0 8 0 0 0 - 1 - 0 0 - - 0\n")
	f.Add("# pxname,svname,scur,status,\nprimary-1,FRONTEND,7,OPEN,\n")
	f.Add("Name: HAProxy\nVersion: 2.6\n")
	f.Fuzz(func(t *testing.T, text string) {
		parseInfo(text)
		parseServerAddress(text)
		if _, err := parseFrontends(text); err != nil {
			t.Log(err)
		}
		for _, entry := range parseACL(text) {
			if entry == "" {
				t.Error("empty entry")
			}
		}
		if list, err := parseSessions(text); err == nil {
			for _, s := range list {
				if !s.source.IsValid() {
					t.Errorf("session %+v without a source", s)
				}
			}
		}
		if found, err := parseServers(text); err == nil {
			for name, s := range found {
				if name == "" || !s.address.IsValid() {
					t.Errorf("server %q %+v", name, s)
				}
			}
		}
	})
}
