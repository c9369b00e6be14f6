package app

import (
	"net"
	"net/netip"
	"testing"

	"steward/internal/catalog"
	"steward/internal/config"
	"steward/internal/monitor"
)

// TestOwnPorts proves that checks leave alone what steward itself is made of.
func TestOwnPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	metrics, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer metrics.Close()
	config := config.Default()
	config.Monitor.ForbiddenNetworks = []string{"10.20.0.0/16"}
	c, err := catalog.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &App{o: Options{Config: config, Store: "postgres://steward@10.30.0.1:5433,10.30.0.2/steward"}, listener: l, metrics: metrics, catalog: c}
	if err := a.openProbe(t.Context()); err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]struct{ url, tcp bool }{
		l.Addr().String():       {false, true},
		metrics.Addr().String(): {false, true},
		"127.0.0.1:1":           {true, true},
		"127.0.0.1:21000":       {false, true},
		"127.0.0.2:21255":       {false, true},
		"127.0.0.2:21256":       {true, true},
		"127.0.77.1:21000":      {false, false},
		"127.0.79.1:21000":      {false, false},
		"10.20.0.1:80":          {false, false},
		"10.30.0.1:5433":        {false, false},
		"10.30.0.2:5432":        {false, false},
		"10.30.0.1:80":          {true, true},
		"10.30.0.1:587":         {false, true},
	} {
		at := netip.MustParseAddrPort(to)
		if url, tcp := a.networks.Permit(monitor.URL, "local", at), a.networks.Permit(monitor.TCP, "local", at); url != want.url || tcp != want.tcp {
			t.Errorf("%s: url %t, tcp %t; want %t, %t", to, url, tcp, want.url, want.tcp)
		}
	}
}

func TestMachineAddresses(t *testing.T) {
	all, err := machineAddresses(netip.IPv6Unspecified())
	if err != nil {
		t.Fatal(err)
	}
	one, err := machineAddresses(netip.MustParseAddr("10.1.1.1"))
	if err != nil || len(one) != 1 || one[0].String() != "10.1.1.1/32" {
		t.Errorf("%v, %v", one, err)
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		a := netip.MustParsePrefix(address.String()).Addr().WithZone("")
		if (&monitor.Networks{Forbidden: all}).Reach(a) != monitor.Forbidden {
			t.Errorf("%s isn't among %v", a, all)
		}
	}
}
