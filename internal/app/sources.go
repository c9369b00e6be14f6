package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"time"

	"steward/internal/engine"
	"steward/internal/probe"
)

// importRegion is what the networks are called, among regions', that databases may be brought over from. No region has its name.
const importRegion = "imports.networks"

// connectToSource is how long a source may take to be connected to.
const connectToSource = 15 * time.Second

// sources connects to where databases are brought over from.
type sources struct{ dialer *probe.Dialer }

// openSources makes the rules of where databases may be brought over from: where checks may go, but private addresses only
// in networks that the operator has named, and no port of steward's own.
func (a *App) openSources(context.Context) error {
	allowed := []netip.Prefix{}
	for _, text := range a.o.Imports.Networks {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("imports.networks: %w", err)
		}
		allowed = append(allowed, p)
	}
	networks := *a.networks
	networks.Regions = maps.Clone(networks.Regions)
	if networks.Regions == nil {
		networks.Regions = map[string][]netip.Prefix{}
	}
	networks.Regions[importRegion] = allowed
	a.sources = &sources{&probe.Dialer{Networks: &networks, Region: importRegion, Timeout: connectToSource}}
	return nil
}

const blockedSource = "The source's address may not be reached from this server. Its operator names private networks that may in imports.networks."

// Dial implements platform.SourceDialer.
func (s *sources) Dial(ctx context.Context, host string, port int) (net.Conn, error) {
	conn, err := s.dialer.Dial(ctx, host, port)
	if errors.Is(err, probe.ErrBlocked) {
		return nil, &engine.SourceError{Reason: blockedSource}
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok && name.IsNotFound {
		return nil, &engine.SourceError{Reason: "The source's name leads to no address."}
	}
	return conn, err
}

// Barrier implements platform.SourceDialer.
func (s *sources) Barrier(host string, port int) string {
	if s.dialer.Permits(host, port) {
		return ""
	}
	return blockedSource
}
