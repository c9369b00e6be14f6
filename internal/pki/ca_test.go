package pki

import (
	"crypto/x509"
	"net/netip"
	"testing"
	"time"
)

var now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func newCA(t *testing.T, name string) *CA {
	t.Helper()
	ca, err := NewCA(name, now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func TestIssuedVerifies(t *testing.T) {
	t.Parallel()
	ca := newCA(t, "one")
	key, err := ca.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	cert, _, err := Issue(ca.CertPEM(), key, []string{"localhost", "db.example"}, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, now)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, host string
		ca         *CA
		at         time.Time
		valid      bool
	}{
		{"address", "127.0.0.1", ca, now, true},
		{"name", "db.example", ca, now, true},
		{"another name", "db2.example", ca, now, false},
		{"another address", "127.0.0.2", ca, now, false},
		{"another CA", "127.0.0.1", newCA(t, "one"), now, false},
		{"a clock that is behind", "127.0.0.1", ca, now.Add(-30 * time.Minute), true},
		{"after its end", "127.0.0.1", ca, now.Add(serverLife + time.Minute), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(test.ca.CertPEM())
			_, err := parsed.Verify(x509.VerifyOptions{DNSName: test.host, Roots: roots, CurrentTime: test.at})
			if (err == nil) != test.valid {
				t.Errorf("verify: %v, want valid: %v", err, test.valid)
			}
		})
	}
}

func TestLoadRefusesAForeignKey(t *testing.T) {
	t.Parallel()
	a, b := newCA(t, "a"), newCA(t, "b")
	key, err := b.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(a.CertPEM(), key); err == nil {
		t.Error("a key of another CA was accepted")
	}
	for _, text := range []string{"", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if _, err := Load([]byte(text), key); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestNeedsRenewal(t *testing.T) {
	t.Parallel()
	cert, _, err := newCA(t, "a").Issue([]string{"localhost"}, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	end := now.Add(serverLife)
	for at, want := range map[time.Time]bool{now: false, end.Add(-RenewBefore - time.Hour): false, end.Add(-RenewBefore + time.Hour): true} {
		if got := NeedsRenewal(cert, at); got != want {
			t.Errorf("at %s: %v, want %v", at, got, want)
		}
	}
	if !NeedsRenewal([]byte("nonsense"), now) {
		t.Error("what can't be read must be renewed")
	}
}
