package pki

import (
	"crypto/tls"
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
	cert, certKey, err := Issue(ca.CertPEM(), key, []string{"localhost", "db.example"}, []netip.Addr{netip.MustParseAddr("127.0.0.1")}, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(cert, certKey); err != nil {
		t.Fatalf("certificate and key don't belong together: %v", err)
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
		{"the last hour", "127.0.0.1", ca, now.AddDate(1, 0, 0).Add(-time.Hour), true},
		{"after its end", "127.0.0.1", ca, now.AddDate(1, 0, 0).Add(time.Minute), false},
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
	end := now.AddDate(1, 0, 0)
	for at, want := range map[time.Time]bool{now: false, end.Add(-RenewBefore - time.Hour): false, end.Add(-RenewBefore + time.Hour): true} {
		if got := NeedsRenewal(cert, at); got != want {
			t.Errorf("at %s: %v, want %v", at, got, want)
		}
	}
	if !NeedsRenewal([]byte("nonsense"), now) {
		t.Error("what can't be read must be renewed")
	}
}

func TestServerCertificateIsNoAuthorityAndEndsWithItsOwn(t *testing.T) {
	t.Parallel()
	ca := newCA(t, "a")
	late := now.AddDate(9, 6, 0)
	cert, _, err := ca.Issue([]string{"localhost"}, nil, late)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := ParseCertificate(cert)
	if err != nil {
		t.Fatal(err)
	}
	if parsed.IsCA || parsed.KeyUsage&x509.KeyUsageCertSign != 0 {
		t.Error("a server could issue certificates")
	}
	if !parsed.NotAfter.Equal(now.AddDate(10, 0, 0)) {
		t.Errorf("ends %s, want the authority's end %s", parsed.NotAfter, now.AddDate(10, 0, 0))
	}
	if _, _, err := ca.Issue(nil, nil, now); err == nil {
		t.Error("a certificate for nobody was issued")
	}
}

func TestSerialsAreRandomAndPositive(t *testing.T) {
	t.Parallel()
	seen, longest := map[string]bool{}, 0
	for range 200 {
		serial, err := newSerial()
		if err != nil {
			t.Fatal(err)
		}
		if serial.Sign() <= 0 || serial.BitLen() > 128 || seen[serial.String()] {
			t.Fatalf("serial %s", serial)
		}
		seen[serial.String()], longest = true, max(longest, serial.BitLen())
	}
	if longest < 120 {
		t.Errorf("the longest of 200 serials has %d bits", longest)
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	ca := newCA(t, "a")
	address := netip.MustParseAddr("127.0.0.1")
	cert, _, err := ca.Issue([]string{"db.example"}, []netip.Addr{address}, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ca        *CA
		cert      []byte
		names     []string
		addresses []netip.Addr
		want      bool
	}{
		"all of them":         {ca, cert, []string{"db.example"}, []netip.Addr{address}, true},
		"fewer":               {ca, cert, nil, []netip.Addr{address}, true},
		"mapped address":      {ca, cert, nil, []netip.Addr{netip.MustParseAddr("::ffff:127.0.0.1")}, true},
		"a further name":      {ca, cert, []string{"db.example", "new.example"}, nil, false},
		"a further address":   {ca, cert, nil, []netip.Addr{address, address.Next()}, false},
		"another authority":   {newCA(t, "a"), cert, []string{"db.example"}, nil, false},
		"no certificate text": {ca, []byte("x"), nil, nil, false},
	} {
		if got := Covers(c.ca.CertPEM(), c.cert, c.names, c.addresses, now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
