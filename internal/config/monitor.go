package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"steward/internal/monitor"
	"steward/internal/probe"
)

// Monitor is how services are watched.
type Monitor struct {
	// Interval is between two checks of a service that has none of its own,
	// ConfirmAfter the time to the looks that confirm an outage or its end.
	Interval     time.Duration `koanf:"interval"`
	ConfirmAfter time.Duration `koanf:"confirm_after"`
	// Canaries are addresses that answer unless this server's own network is down:
	// while none does, checks that fail say nothing.
	Canaries []string `koanf:"canaries"`
	// ForbiddenNetworks are prefixes that no check may go to, whatever a region allows.
	ForbiddenNetworks []string `koanf:"forbidden_networks"`
	// ForbiddenPorts are those that url services may not be at.
	ForbiddenPorts []int `koanf:"forbidden_ports"`
	// CAFile has certificates of authorities that are trusted beside the system's.
	CAFile string `koanf:"ca_file"`
	// AbuseContact is told to the web servers that are checked: a URL or an e-mail address.
	AbuseContact string `koanf:"abuse_contact"`
}

func (c Monitor) validate() []error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, text := range c.ForbiddenNetworks {
		if err := checkNetwork(text); err != nil {
			bad("monitor.forbidden_networks: %w", err)
		}
	}
	for _, port := range c.ForbiddenPorts {
		if port < 1 || port > 65535 {
			bad("monitor.forbidden_ports: %d is no port", port)
		}
	}
	if !within(c.Interval, time.Second, 24*time.Hour) {
		bad("monitor.interval: must be 1s-24h")
	}
	if !within(c.ConfirmAfter, 100*time.Millisecond, time.Minute) {
		bad("monitor.confirm_after: must be 100ms-1m")
	}
	if _, err := c.CanaryTargets(); err != nil {
		bad("monitor.canaries: %w", err)
	}
	if _, err := c.Roots(); err != nil {
		bad("monitor.ca_file: %w", err)
	}
	if strings.ContainsFunc(c.AbuseContact, unfitForHeader) {
		bad("monitor.abuse_contact: must be a URL or an e-mail address")
	}
	return errs
}

func within(d, least, most time.Duration) bool { return least <= d && d <= most }

// checkNetwork returns an error unless a text is a prefix without host bits.
func checkNetwork(text string) error {
	p, err := netip.ParsePrefix(text)
	if err == nil && (p != p.Masked() || p.Addr().Is4In6()) {
		err = fmt.Errorf("%s is no network such as 10.1.0.0/16", text)
	}
	return err
}

// unfitForHeader reports whether a character would end or break the comment of a
// User-Agent header.
func unfitForHeader(r rune) bool { return r <= ' ' || r >= 0x7f || r == '(' || r == ')' }

// Roots are the authorities that services' certificates are checked with; nil for
// those of the system.
func (c Monitor) Roots() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the system's authorities: %w", err)
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New("there is no certificate in it")
	}
	return roots, nil
}

// UserAgent tells web servers who looks at them, and whom to tell when it's too often.
func (c Monitor) UserAgent() string {
	agent := "steward"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		agent += "/" + strings.Trim(info.Main.Version, "()")
	}
	if c.AbuseContact != "" {
		agent += " (+" + c.AbuseContact + ")"
	}
	return agent
}

// canaryTimeout bounds a look at a canary: what they are asked decides about
// outages of others, so they must be quick.
const canaryTimeout = 3 * time.Second

// CanaryTargets are what the operator is sure of. One that is of a private network has
// its region before it: local=http://10.0.0.1/.
func (c Monitor) CanaryTargets() ([]probe.Target, error) {
	var targets []probe.Target
	for _, text := range c.Canaries {
		region, address, found := strings.Cut(text, "=")
		if !found || strings.ContainsAny(region, ":/") {
			region, address = "", text
		}
		kind := monitor.TCP
		if strings.HasPrefix(address, "http") {
			kind = monitor.URL
		}
		parsed, err := monitor.ParseAddress(kind, address)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		targets = append(targets, probe.Target{Address: parsed, Region: region, Timeout: canaryTimeout})
	}
	return targets, nil
}
