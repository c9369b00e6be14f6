package enginetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"steward/internal/engine"
)

// NewCertificates makes a new CA and a server certificate of it, puts them
// where the platform does, and makes s.CA verify them.
func (s *Server) NewCertificates(t *testing.T) {
	t.Helper()
	now := time.Now()
	caKey := newKey(t)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: fmt.Sprintf("enginetest CA %d", now.UnixNano())},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER := sign(t, ca, ca, caKey, caKey)
	key := newKey(t)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano() + 1), Subject: pkix.Name{CommonName: "enginetest server"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{s.Node.Listen.Addr().AsSlice()},
	}
	leafDER := sign(t, leaf, ca, key, caKey)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err, "encode key")
	s.writeTLS(t, engine.TLSCA, "CERTIFICATE", caDER)
	s.writeTLS(t, engine.TLSCert, "CERTIFICATE", leafDER)
	s.writeTLS(t, engine.TLSKey, "PRIVATE KEY", keyDER)
	parsed, err := x509.ParseCertificate(caDER)
	must(t, err, "parse CA")
	s.CA = x509.NewCertPool()
	s.CA.AddCert(parsed)
}

// trustEachOther makes each of the servers' CAs one that all of them verify by.
func trustEachOther(t *testing.T, servers []*Server) {
	t.Helper()
	var all []byte
	for _, s := range servers {
		ca, err := os.ReadFile(filepath.Join(s.Node.TLS, engine.TLSCA))
		must(t, err, "read CA")
		all = append(all, ca...)
	}
	for _, s := range servers {
		must(t, os.WriteFile(filepath.Join(s.Node.TLS, engine.TLSCA), all, 0o600), "write CAs")
	}
}

func (s *Server) writeTLS(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	path := filepath.Join(s.Node.TLS, name)
	must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600), "write "+name)
	giveAway(t, path, s.uid)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err, "make key")
	return key
}

func sign(t *testing.T, cert, parent *x509.Certificate, key, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, by)
	must(t, err, "sign certificate")
	return der
}
