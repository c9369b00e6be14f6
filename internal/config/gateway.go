package config

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Ways of leading connections to databases.
const (
	GatewayAuto    = "auto"
	GatewayKernel  = "kernel"
	GatewayHAProxy = "haproxy"
)

// Gateway is where customers reach their databases.
type Gateway struct {
	PrimaryAddress   string `koanf:"primary_address"`
	SecondaryAddress string `koanf:"secondary_address"`
	// Ports is "first-last"; a database takes one port, on both addresses.
	Ports string `koanf:"ports"`
	// Driver is what leads connections: "kernel", "haproxy", or "auto" for the kernel where that is possible.
	Driver string `koanf:"driver"`
	// Hold is how long a new connection waits for a server while there is none, with the kernel's gateway.
	Hold time.Duration `koanf:"hold"`
	// Hostnames are further names for the databases' certificates.
	Hostnames []string `koanf:"hostnames"`
}

// PortRange is Ports as numbers, both ends included.
func (g Gateway) PortRange() ([2]int, error) {
	first, last, _ := strings.Cut(g.Ports, "-")
	a, errA := strconv.Atoi(strings.TrimSpace(first))
	b, errB := strconv.Atoi(strings.TrimSpace(last))
	if errA != nil || errB != nil || a < 1024 || b > 65535 || a > b {
		return [2]int{}, fmt.Errorf("%q must be first-last within 1024-65535", g.Ports)
	}
	return [2]int{a, b}, nil
}

// Addresses are those of the primary and the replicas, as customers reach them.
func (g Gateway) Addresses() (primary, secondary netip.Addr, err error) {
	if primary, err = netip.ParseAddr(g.PrimaryAddress); err != nil {
		return primary, secondary, fmt.Errorf("gateway.primary_address: %w", err)
	}
	if secondary, err = netip.ParseAddr(g.SecondaryAddress); err != nil {
		return primary, secondary, fmt.Errorf("gateway.secondary_address: %w", err)
	}
	return primary, secondary, nil
}
