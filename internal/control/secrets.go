package control

import (
	"crypto/rand"
	"fmt"
	"math/big"
	"time"

	"steward/internal/cluster"
	"steward/internal/pki"
	"steward/internal/platform"
)

// passwordLetters have no look-alikes (0 O, 1 l I) and need no quoting in a URL.
const passwordLetters = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"

// passwordLength gives about 139 bits.
const passwordLength = 24

// keyLength is AES-256's: what MariaDB's and MySQL's keyrings take.
const keyLength = 32

func newKey() ([]byte, error) {
	key := make([]byte, keyLength)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return key, nil
}

func newPassword() ([]byte, error) {
	password := make([]byte, passwordLength)
	for i := range password {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(passwordLetters))))
		if err != nil {
			return nil, fmt.Errorf("make password: %w", err)
		}
		password[i] = passwordLetters[n.Int64()]
	}
	return password, nil
}

// newSecrets are those a database is born with. The key of its backups is made
// with the first of them.
func newSecrets(spec cluster.Spec, now time.Time) (map[platform.SecretName][]byte, error) {
	root, err := newPassword()
	if err != nil {
		return nil, err
	}
	admin, err := newPassword()
	if err != nil {
		return nil, err
	}
	ca, err := pki.NewCA("steward "+spec.Label, now)
	if err != nil {
		return nil, err
	}
	key, err := ca.KeyPEM()
	if err != nil {
		return nil, err
	}
	secrets := map[platform.SecretName][]byte{
		platform.RootPassword: root, platform.AdminPassword: admin, platform.CACert: ca.CertPEM(), platform.CAKey: key,
	}
	if spec.Encrypted {
		secrets[platform.AtRestKey], err = newKey()
	}
	return secrets, err
}
