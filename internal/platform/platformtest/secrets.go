package platformtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/platform"
)

// Secrets keeps the secrets of the suite's clusters.
type Secrets struct {
	mu  sync.Mutex
	all map[cluster.ID]map[platform.SecretName][]byte
}

// NewSecrets has none yet.
func NewSecrets() *Secrets {
	return &Secrets{all: map[cluster.ID]map[platform.SecretName][]byte{}}
}

var _ platform.Secrets = (*Secrets)(nil)

// Secret implements platform.Secrets.
func (s *Secrets) Secret(_ context.Context, id cluster.ID, name platform.SecretName) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.all[id][name]
	if !ok {
		return nil, fault.NewNotFound()
	}
	return value, nil
}

// SaveSecret implements platform.Secrets.
func (s *Secrets) SaveSecret(_ context.Context, id cluster.ID, name platform.SecretName, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[id] == nil {
		s.all[id] = map[platform.SecretName][]byte{}
	}
	s.all[id][name] = value
	return nil
}

// Text is a secret as text, "" when there is none.
func (s *Secrets) Text(id cluster.ID, name platform.SecretName) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.all[id][name])
}

// Set replaces a secret, as a reset of credentials does.
func (s *Secrets) Set(id cluster.ID, name platform.SecretName, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[id][name] = []byte(value)
}

// Make makes all secrets that a create makes.
func (s *Secrets) Make(t testing.TB, id cluster.ID) {
	t.Helper()
	cert, key := newAuthority(t)
	atRest := make([]byte, 32)
	rand.Read(atRest)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[id] = map[platform.SecretName][]byte{
		platform.RootPassword: []byte(rand.Text()), platform.AdminPassword: []byte(rand.Text()),
		platform.CACert: cert, platform.CAKey: key, platform.AtRestKey: atRest,
	}
}

func newAuthority(t testing.TB) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "platformtest CA"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * 365 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}
