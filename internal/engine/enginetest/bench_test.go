package enginetest

import (
	"fmt"
	"os"
	"testing"
)

// TestNodesHavePortsThatNobodyElseGets: a port that the kernel picks goes to another
// node, or to any connection, until the server listens there.
func TestNodesHavePortsThatNobodyElseGets(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	var first, last uint16
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		t.Fatal(err)
	}
	seen := map[uint16]bool{}
	for range 50 {
		port := freePort(t).Port()
		if port >= first && port <= last {
			t.Fatalf("port %d is of those that the kernel picks, %d-%d", port, first, last)
		}
		if seen[port] {
			t.Fatalf("port %d is two nodes'", port)
		}
		seen[port] = true
	}
}
