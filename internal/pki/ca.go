// Package pki is the certificate authority that every database has for itself:
// a customer who trusts one database's CA trusts no other server with it.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"time"
)

// Lifetimes. A server's certificate is renewed in a maintenance window when less
// than RenewBefore remains, which at least one window is in even if it opens once
// a month and one is missed. With less than RenewAtOnce it waits for none. The CA
// outlives many of them.
const (
	caYears     = 10
	serverYears = 1
	RenewBefore = 75 * 24 * time.Hour
	RenewAtOnce = 7 * 24 * time.Hour
	// clockSkew is how far a client's clock may be behind.
	clockSkew = time.Hour
)

// CA is a certificate authority: ECDSA on P-256, which every client of the
// databases' families verifies.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes an authority of that name.
func NewCA(name string, now time.Time) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make CA key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: []string{"steward"}},
		NotBefore: now.Add(-clockSkew), NotAfter: now.AddDate(caYears, 0, 0),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make CA certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back CA certificate: %w", err)
	}
	return &CA{cert, key}, nil
}

// Load reads an authority from its PEM.
func Load(certPEM, keyPEM []byte) (*CA, error) {
	cert, err := ParseCertificate(certPEM)
	if err != nil {
		return nil, fmt.Errorf("CA certificate: %w", err)
	}
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return nil, errors.New("CA key: not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("CA key: can't be read") // the parser's error could show key material
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok || !ec.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("CA key: doesn't belong to the certificate")
	}
	return &CA{cert, ec}, nil
}

// CertPEM is the certificate that clients trust.
func (ca *CA) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
}

// KeyPEM is the private key: a secret.
func (ca *CA) KeyPEM() ([]byte, error) { return keyPEM(ca.key) }

// Issue makes a server certificate for the names and addresses, and its key.
func (ca *CA) Issue(names []string, addresses []netip.Addr, now time.Time) (cert, key []byte, err error) {
	if len(names)+len(addresses) == 0 {
		return nil, nil, errors.New("make server certificate: it needs a name or an address")
	}
	end := now.AddDate(serverYears, 0, 0)
	if end.After(ca.cert.NotAfter) {
		end = ca.cert.NotAfter
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make server key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "steward database"},
		NotBefore: now.Add(-clockSkew), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: names, BasicConstraintsValid: true,
	}
	for _, a := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(a.Unmap().AsSlice()))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &private.PublicKey, ca.key)
	if err != nil {
		return nil, nil, fmt.Errorf("make server certificate: %w", err)
	}
	if key, err = keyPEM(private); err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key, nil
}

// Issue makes a server certificate with an authority given as PEM.
func Issue(caCert, caKey []byte, names []string, addresses []netip.Addr, now time.Time) (cert, key []byte, err error) {
	ca, err := Load(caCert, caKey)
	if err != nil {
		return nil, nil, err
	}
	return ca.Issue(names, addresses, now)
}

// NeedsRenewal reports whether a certificate is near its end, or can't be read.
func NeedsRenewal(certPEM []byte, now time.Time) bool {
	cert, err := ParseCertificate(certPEM)
	return err != nil || now.Add(RenewBefore).After(cert.NotAfter)
}

// Covers reports whether a certificate is valid now, and was issued by the authority for
// at least these names and addresses: one that doesn't, or can't be read, must be
// replaced before its time.
func Covers(caPEM, certPEM []byte, names []string, addresses []netip.Addr, now time.Time) bool {
	cert, err := ParseCertificate(certPEM)
	if err != nil {
		return false
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(caPEM)
	covers := func(name string) bool {
		_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: now})
		return err == nil
	}
	for _, n := range names {
		if !covers(n) {
			return false
		}
	}
	for _, a := range addresses {
		if !covers(a.Unmap().String()) {
			return false
		}
	}
	return true
}

// ParseCertificate reads the first certificate of a PEM text.
func ParseCertificate(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// newSerial is 128 random bits: never used twice, and within the 20 bytes that
// a serial number may have.
func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	return serial, nil
}
