package host_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/engine"
	"steward/internal/platform/host"
	"steward/internal/testdir"
)

// TestToolSandbox: a program of an import sees the servers' programs and its folder, has no network and no rights, and reaches what its socket leads to.
func TestToolSandbox(t *testing.T) {
	t.Parallel()
	found := distribution(t)
	s := newSite(t, found)
	d := s.open(t)
	t.Cleanup(d.Close)
	secret := filepath.Join(s.o.DataDir, "secret")
	if err := os.WriteFile(secret, []byte("hidden"), 0o644); err != nil {
		t.Fatal(err)
	}
	address := testdir.ServeLocally(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "reached\n") })
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	script := `
cat "$1" && echo sees-files
test -w /usr && echo writes
cat login
id -u
echo "memory $(ulimit -v)"
perl -MIO::Socket::INET -e 'print "has-network\n" if IO::Socket::INET->new(PeerAddr => $ARGV[0], Timeout => 2)' "$2"
perl -MIO::Socket::UNIX -e 'print IO::Socket::UNIX->new($ARGV[0])->getline' "$3/door"
`
	var out bytes.Buffer
	said, err := host.RunTool(t.Context(), d, found[0], s.firstPort, func(dir string) engine.Tool {
		return engine.Tool{
			Argv:  []string{"/bin/sh", "-c", script, "sh", secret, address, dir},
			Files: map[string][]byte{"login": []byte("password\n")}, Socket: "door", Connect: dial, Stdout: &out,
		}
	})
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for _, wrong := range []string{"hidden", "sees-files", "writes", "has-network"} {
		if strings.Contains(out.String(), wrong) {
			t.Errorf("it says %s: %s", wrong, out.String())
		}
	}
	if !strings.Contains(out.String(), "password") || !strings.Contains(out.String(), "reached") {
		t.Errorf("it doesn't find its file and its server: %s %s", out.String(), said)
	}
	if !strings.Contains(out.String(), "memory 2097152\n") {
		t.Errorf("it may have other memory than it should: %s %s", out.String(), said)
	}
	if os.Geteuid() == 0 && strings.Contains(out.String(), "\n0\n") {
		t.Error("it runs as root")
	}
}
