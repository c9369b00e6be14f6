package mysql

import (
	"net/netip"
	"strings"
	"testing"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/parameter"
)

// hosted is a node that something else starts, of a plan with so much memory.
func hosted(memory int) engine.Node {
	n := engine.Node{
		Conf: "/etc/steward", Installation: engine.Installation{Flavour: engine.FlavourMariaDB, Series: "10.11", Version: "10.11.19"},
		ClusterSize: 1, Role: cluster.Primary, SSLConnection: true,
	}
	n.Plan.MemoryMB, n.Plan.DiskMB = memory, 25600
	return n
}

// TestPlace: what is placed says nothing that is whoever's to decide who starts the server, and asks for a restart where one is needed and no else.
func TestPlace(t *testing.T) {
	t.Parallel()
	place := func(n engine.Node) (string, string) {
		files, restart, err := (&Driver{}).Place(n)
		if err != nil {
			t.Fatal(err)
		}
		for name := range files {
			if strings.Contains(name, "/") || files[engine.MainFile] == nil {
				t.Errorf("files: %q", name)
			}
		}
		return string(files[engine.MainFile]), restart
	}
	text, restart := place(hosted(1024))
	for _, s := range decided {
		if strings.Contains(text, "\n"+s+" ") {
			t.Errorf("%s is placed", s)
		}
	}
	for _, s := range []string{"require_secure_transport = ON", `tls_version = "TLSv1.2,TLSv1.3"`, "innodb_buffer_pool_size", "max_connections", "local_infile = OFF"} {
		if !strings.Contains(text, "\n"+s) {
			t.Errorf("%s isn't placed", s)
		}
	}
	live := hosted(1024)
	live.SSLConnection, live.ReadOnly, live.Config = false, true, parameter.Config{"mysql.connect_timeout": int64(7)}
	if changed, same := place(live); changed == text || same != restart {
		t.Errorf("what can be changed in a server that runs has it start anew, or isn't placed: %s", changed)
	}
	if _, other := place(hosted(2048)); other == restart {
		t.Error("a server of a larger plan isn't started anew")
	}
}

// TestStatementsIn: a script's statements each by itself, whatever ends them.
func TestStatementsIn(t *testing.T) {
	t.Parallel()
	got := statementsIn("-- what follows\nSET @a = 1;\nSELECT 1,\n  2;\n\nDELIMITER $$\nCREATE PROCEDURE p() BEGIN\n  SELECT 1;\nEND$$\n\nDELIMITER ;\nSELECT 3;\n")
	want := []string{"SET @a = 1\n", "SELECT 1,\n\n  2\n", "CREATE PROCEDURE p() BEGIN\n\n  SELECT 1;\n\nEND\n", "SELECT 3\n"}
	if len(got) != len(want) {
		t.Fatalf("got %q", got)
	}
	for i := range want {
		if strings.ReplaceAll(got[i], "\n", "") != strings.ReplaceAll(want[i], "\n", "") {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
	if all := statementsIn(mariaDBAccounts); len(all) < 15 || strings.Contains(strings.Join(all, ""), "DELIMITER") {
		t.Errorf("%d statements of ours", len(all))
	}
}

// TestLet: sessions of allowed networks stay, and those of which nobody knows where they come from don't.
func TestLet(t *testing.T) {
	t.Parallel()
	from := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	for host, want := range map[string]bool{
		"192.0.2.7:5000": true, "::ffff:192.0.2.7:5000": true, "2001:db8::7:5000": true, "198.51.100.1:5000": false, "2001:db9::7:5000": false, "localhost": false, "": false,
	} {
		if let(host, from) != want {
			t.Errorf("%s: want %v", host, want)
		}
	}
}
