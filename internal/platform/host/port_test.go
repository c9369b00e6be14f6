package host

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"steward/internal/testdir"
)

func TestPortInUseNamesTheProgram(t *testing.T) {
	port := uint16(testdir.Ports(t, 1))
	for _, address := range []string{"127.0.77.1", "0.0.0.0", "::"} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(int(port))))
		if err != nil {
			t.Fatal(err)
		}
		err = checkPort(t.Context(), netip.AddrPortFrom(netip.MustParseAddr("127.0.77.1"), port))
		var problem *permanentError
		if !errors.As(err, &problem) || !strings.Contains(problem.problem, "process "+strconv.Itoa(os.Getpid())) {
			t.Errorf("%s: got %v, want a permanent error that names process %d", address, err, os.Getpid())
		}
		testdir.Free(l)
		if err := checkPort(t.Context(), netip.AddrPortFrom(netip.MustParseAddr("127.0.77.1"), port)); err != nil {
			t.Errorf("%s: free again, but %v", address, err)
		}
	}
}
