package host

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"steward/internal/engine"
	"steward/internal/pki"
	"steward/internal/platform"
)

// certificateDue reports whether the node needs a new certificate. A failover
// goes by the one that is there: a new one takes a key that only the store has.
func (nr *nodeReconciler) certificateDue(ctx context.Context) (bool, error) {
	if nr.keys.offline {
		return false, nil
	}
	ca, err := nr.keys.secret(ctx, platform.CACert)
	if err != nil {
		return false, err
	}
	return certificateDue(ca, nr.node, nr.dnsNames(), nr.addresses(), nr.d.o.Now(), nr.want.Patch), nil
}

// certificateDue reports whether the node has no certificate, one of another
// authority or without one of the names, or one near its end.
func certificateDue(ca []byte, n engine.Node, names []string, addresses []netip.Addr, now time.Time, patch bool) bool {
	shown, err := os.ReadFile(filepath.Join(n.TLS, engine.TLSCA))
	if err != nil || !bytes.Equal(shown, ca) || !exists(filepath.Join(n.TLS, engine.TLSKey)) {
		return true
	}
	content, err := os.ReadFile(filepath.Join(n.TLS, engine.TLSCert))
	if err != nil || !pki.Covers(ca, content, names, addresses, now) {
		return true
	}
	cert, err := pki.ParseCertificate(content)
	if err != nil {
		return true
	}
	// A patch renews what is half used, so that it need not be done between patches.
	// Without one, what would end before the next window surely opens.
	left := cert.NotAfter.Sub(now)
	return left < pki.RenewAtOnce || patch && left < cert.NotAfter.Sub(cert.NotBefore)/2
}

// dnsNames and addresses are all that customers and we reach the node by.
func (nr *nodeReconciler) dnsNames() []string {
	return append([]string{"localhost"}, nr.d.o.Hostnames...)
}

func (nr *nodeReconciler) addresses() []netip.Addr {
	return []netip.Addr{
		nr.d.o.PrimaryAddress, nr.d.o.SecondaryAddress,
		nr.d.listenAddress(0, nr.want.Port).Addr(), nr.d.listenAddress(1, nr.want.Port).Addr(), nr.d.listenAddress(2, nr.want.Port).Addr(),
		netip.AddrFrom4([4]byte{127, 0, 0, 1}),
	}
}

// certificate issues a certificate and puts it where the server reads it. The
// certificate itself comes last: by it due sees that all is in place.
func (nr *nodeReconciler) certificate(ctx context.Context) error {
	ca, err := nr.keys.secret(ctx, platform.CACert)
	if err != nil {
		return err
	}
	caKey, err := nr.keys.secret(ctx, platform.CAKey)
	if err != nil {
		return err
	}
	cert, key, err := pki.Issue(ca, caKey, nr.dnsNames(), nr.addresses(), nr.d.o.Now())
	if err != nil {
		return fmt.Errorf("issue certificate: %w", err)
	}
	for _, f := range []engine.File{
		{Path: filepath.Join(nr.node.TLS, engine.TLSCA), Content: ca},
		{Path: filepath.Join(nr.node.TLS, engine.TLSKey), Content: key},
		{Path: filepath.Join(nr.node.TLS, engine.TLSCert), Content: cert},
	} {
		if err := nr.writeFile(f); err != nil {
			return fmt.Errorf("write %s: %w", filepath.Base(f.Path), err)
		}
	}
	return nr.render() // the digest covers the certificate
}
