package probe

import (
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"steward/internal/monitor"
)

// local are rules as they are out of the box.
func local() *monitor.Networks {
	return &monitor.Networks{Regions: map[string][]netip.Prefix{"local": monitor.LocalNetworks()}}
}

// prober trusts the servers of httptest, which all show the same certificate.
func prober(t *testing.T) *Prober {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return New(Options{Networks: local(), Roots: roots, UserAgent: "steward/test"})
}

func address(t testing.TB, text string) monitor.Address {
	t.Helper()
	service := monitor.TCP
	if len(text) > 4 && text[:4] == "http" {
		service = monitor.URL
	}
	a, err := monitor.ParseAddress(service, text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return a
}

// patience is longer than any check here takes that doesn't wait for its timeout.
const patience = 10 * time.Second

// here is a check of a server of this test.
func here(t *testing.T, text, body string) Target {
	t.Helper()
	return Target{Address: address(t, text), Timeout: patience, Body: body, Region: "local"}
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

func serveTLS(t *testing.T, h2 bool, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.EnableHTTP2 = h2
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// found fails unless the check found that, in those words.
func found(t *testing.T, r monitor.Result, class monitor.Class, detail string) {
	t.Helper()
	if r.Class != class || r.Detail != detail {
		t.Errorf("%s, %q; want %s, %q", r.Class, r.Detail, class, detail)
	}
	if r.Took <= 0 || r.Started.IsZero() {
		t.Errorf("started %s, took %s", r.Started, r.Took)
	}
}

var discard = log.New(io.Discard, "", 0)
