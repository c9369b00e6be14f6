package host

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"steward/internal/engine"
	"steward/internal/pki"
)

// authority is a cluster's own certificate authority, in PEM.
type authority struct{ cert, key []byte }

// due tells whether the node needs a new certificate: it has none, one of
// another authority or without one of the names, or one near its end.
func (a authority) due(n engine.Node, names []string, now time.Time, patch bool) bool {
	shown, err := os.ReadFile(filepath.Join(n.TLS, engine.TLSCA))
	if err != nil || string(shown) != string(a.cert) || !exists(filepath.Join(n.TLS, engine.TLSKey)) {
		return true
	}
	content, err := os.ReadFile(filepath.Join(n.TLS, engine.TLSCert))
	if err != nil {
		return true
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return true
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return true
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.cert)
	for _, name := range names {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now}); err != nil {
			return true
		}
	}
	// A patch renews what is half used, so that it need not be done between patches.
	left := cert.NotAfter.Sub(now)
	return left < pki.RenewBefore || patch && left < cert.NotAfter.Sub(cert.NotBefore)/2
}

// names are all names and addresses that customers and we reach the node by.
func (j *job) names() []string {
	return append(j.dnsNames(), addressTexts(j.addresses())...)
}

func (j *job) dnsNames() []string {
	return append([]string{"localhost"}, j.d.o.Hostnames...)
}

func (j *job) addresses() []netip.Addr {
	return []netip.Addr{
		j.d.o.PrimaryAddress, j.d.o.SecondaryAddress,
		listenAddress(0, j.want.Port).Addr(), listenAddress(1, j.want.Port).Addr(), listenAddress(2, j.want.Port).Addr(),
		netip.AddrFrom4([4]byte{127, 0, 0, 1}),
	}
}

func addressTexts(addresses []netip.Addr) []string {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = a.String()
	}
	return texts
}

// certificate issues a certificate and puts it where the server reads it. The
// certificate itself comes last: by it due tells that all is in place.
func (j *job) certificate() error {
	cert, key, err := pki.Issue(j.ca.cert, j.ca.key, j.dnsNames(), j.addresses(), j.d.o.Now())
	if err != nil {
		return fmt.Errorf("issue certificate: %w", err)
	}
	for _, f := range []engine.File{
		{Path: filepath.Join(j.node.TLS, engine.TLSCA), Content: j.ca.cert},
		{Path: filepath.Join(j.node.TLS, engine.TLSKey), Content: key},
		{Path: filepath.Join(j.node.TLS, engine.TLSCert), Content: cert},
	} {
		if err := j.writeFile(f); err != nil {
			return fmt.Errorf("write %s: %w", filepath.Base(f.Path), err)
		}
	}
	return j.render() // the digest covers the certificate
}
