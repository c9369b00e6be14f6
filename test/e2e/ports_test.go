package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"steward/test/harness"
)

// occupy listens where the first databases of a server that hasn't been started would be: at the gateway, or at one of their servers.
func occupy(t *testing.T, s *harness.Server) (others []net.Listener) {
	t.Helper()
	for i, host := range []string{"127.0.0.1", "127.0.0.2", "127.0.77.2"} {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, s.FirstPort+i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		others = append(others, l)
	}
	return others
}

// otherPorts: a database gets the first port at which the gateway and all of its servers
// can listen. One that another program frees is given again.
func otherPorts(t *testing.T, s *harness.Server, others []net.Listener) {
	beyond := s.CreateActive(harness.Small("beyond", "postgresql/15"))
	if beyond.Port != s.FirstPort+len(others) {
		t.Errorf("port %d, want %d", beyond.Port, s.FirstPort+len(others))
	}
	log, err := os.ReadFile(s.LogPath)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), "left out"); n != 1 {
		t.Errorf("%d lines say which ports are left out, want 1", n)
	}
	others[0].Close()
	freed := s.CreateActive(harness.Small("freed", "postgresql/15"))
	if freed.Port != s.FirstPort {
		t.Errorf("port %d, want the freed %d", freed.Port, s.FirstPort)
	}
	for _, d := range []harness.Database{beyond, freed} {
		if status, body := s.Call("DELETE", d.Path(), nil, nil); status != http.StatusOK {
			t.Fatalf("delete: %d %s", status, body)
		}
	}
	s.Eventually("removed", s.Leftovers)
}
