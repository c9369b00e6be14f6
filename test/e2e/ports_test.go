package e2e

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"steward/test/harness"
)

// otherPorts: a database gets the first port at which the gateway and all of its servers
// can listen. One that another program frees is given again.
func otherPorts(t *testing.T, s *harness.Server) {
	leftOut := func() int {
		t.Helper()
		log, err := os.ReadFile(s.LogPath)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(log), "left out")
	}
	s.Stop()
	before := leftOut()
	var others []net.Listener
	for i, host := range []string{"127.0.0.1", "127.0.0.2", "127.0.77.2"} {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, s.FirstPort+i))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		others = append(others, l)
	}
	s.Start()
	if d := s.CreateActive(harness.Small("beyond", "postgresql/15")); d.Port != s.FirstPort+len(others) {
		t.Errorf("port %d, want %d", d.Port, s.FirstPort+len(others))
	}
	if n := leftOut() - before; n != 1 {
		t.Errorf("%d lines say which ports are left out, want 1", n)
	}
	others[0].Close()
	if d := s.CreateActive(harness.Small("freed", "postgresql/15")); d.Port != s.FirstPort {
		t.Errorf("port %d, want the freed %d", d.Port, s.FirstPort)
	}
}
