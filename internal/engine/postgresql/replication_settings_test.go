package postgresql

import (
	"bytes"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// nodeOfThree is a node of three.
func nodeOfThree(role cluster.Role) engine.Node {
	n := node("15")
	n.ClusterSize, n.Ordinal, n.Role = 3, 1, role
	if role == cluster.Replica {
		n.Source = engine.Peer{Ordinal: 0, Listen: netip.MustParseAddrPort("127.0.77.1:21009"), Run: "/r0"}
	}
	return n
}

func conf(t *testing.T, n engine.Node) string {
	t.Helper()
	files, err := Driver{}.Files(n)
	if err != nil {
		t.Fatal(err)
	}
	return string(files[0].Content)
}

func TestRolesDifferInTheSourceOnly(t *testing.T) {
	primary, replica := conf(t, nodeOfThree(cluster.Primary)), conf(t, nodeOfThree(cluster.Replica))
	const line = `primary_conninfo = 'host=''/r0'' port=21009 user=steward passfile=''/r/source.pass'' application_name=node1 connect_timeout=10'` + "\n"
	if got := strings.Replace(replica, line, "primary_conninfo = ''\n", 1); got != primary || got == replica {
		t.Errorf("a primary has\n%s\na replica\n%s", primary, replica)
	}
}

func TestConninfoQuotes(t *testing.T) {
	n := nodeOfThree(cluster.Replica)
	n.Source.Run, n.Run = `/it's \ "x" host=evil`, "/n 1"
	want := `host='/it\'s \\ "x" host=evil' port=21009 user=steward passfile='/n 1/source.pass' application_name=node1 connect_timeout=10`
	if got := sourceConninfo(n); got != want {
		t.Errorf("conninfo is\n%s, want\n%s", got, want)
	}
	want = `'host=''/it\\''s \\\\ "x" host=evil'' port=21009 user=steward passfile=''/n 1/source.pass'' application_name=node1 connect_timeout=10'`
	if !strings.Contains(conf(t, n), want) {
		t.Errorf("the file hasn't %s:\n%s", want, conf(t, n))
	}
}

func TestPasswordFile(t *testing.T) {
	if got, want := string(renderPassword(`a:b\c 'd'`)), `*:*:*:steward:a\:b\\c 'd'`+"\n"; got != want {
		t.Errorf("password file is %q, want %q", got, want)
	}
	files, err := Driver{}.Files(nodeOfThree(cluster.Replica))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		// The server logs settings when they change.
		if has := bytes.Contains(f.Content, []byte("secret")); has != (filepath.Base(f.Path) == passFile) {
			t.Errorf("a password in %s: %v", f.Path, has)
		}
	}
}

func TestSynchronousNames(t *testing.T) {
	for commit, want := range map[cluster.Commit]string{
		"": "", cluster.CommitLocal: "", cluster.CommitOff: "",
		cluster.CommitOn:          "ANY 1 (node0, node1, node2)",
		cluster.CommitRemoteWrite: "ANY 1 (node0, node1, node2)",
		cluster.CommitRemoteApply: "ANY 1 (node0, node1, node2)",
	} {
		n := nodeOfThree(cluster.Primary)
		n.Commit = commit
		if got := synchronousNames(n); got != want {
			t.Errorf("commit %q: names are %q, want %q", commit, got, want)
		}
	}
}

func TestFilesOfThreeNodes(t *testing.T) {
	for _, role := range []cluster.Role{cluster.Primary, cluster.Replica} {
		files, err := Driver{}.Files(nodeOfThree(role))
		if err != nil {
			t.Fatal(err)
		}
		// Our own line has to come before those that refuse everybody.
		if !bytes.Contains(files[1].Content, []byte("local    replication  steward  scram-sha-256\nlocal    all          all      reject\nhost     replication  all      all          reject\n")) {
			t.Errorf("who replicates how:\n%s", files[1].Content)
		}
		signal := len(files) == 5 && files[4].Path == filepath.Join("/n/data", standbySignal)
		if signal != (role == cluster.Replica) {
			t.Errorf("files of a %s: %v", role, files)
		}
	}
	alone, err := Driver{}.Files(node("15"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(alone[1].Content, []byte("local    replication")) {
		t.Error("a node that is alone lets itself be copied")
	}
}
