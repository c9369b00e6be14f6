package mysql

import (
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Verifiers are what a server stores of a password. We make them here, so that
// a clear password is in no statement: processlist and logs show statements.

// verifier is mysql_native_password's, the plugin that all clients of
// MariaDB know.
func (mariaDB) verifier(password string) (string, error) {
	first := sha1.Sum([]byte(password))
	second := sha1.Sum(first[:])
	return "VIA mysql_native_password USING '*" + strings.ToUpper(hex.EncodeToString(second[:])) + "'", nil
}

// Parameters of caching_sha2_password's verifier: $A$005$ and 20 bytes of salt,
// then 43 of digest; 005 stands for 5000 rounds.
const (
	cachingSaltSize = 20
	cachingRounds   = 5000
)

// verifier is caching_sha2_password's, MySQL's default: sha256-crypt.
func (mySQL) verifier(password string) (string, error) {
	salt, err := newSalt()
	if err != nil {
		return "", err
	}
	stored := "$A$005$" + string(salt) + string(sha256Crypt([]byte(password), salt, cachingRounds))
	return "WITH caching_sha2_password AS 0x" + hex.EncodeToString([]byte(stored)), nil
}

func newSalt() ([]byte, error) {
	salt := make([]byte, cachingSaltSize)
	if _, err := rand.Read(salt); err != nil {
		return nil, fmt.Errorf("make salt: %w", err)
	}
	for i, b := range salt {
		salt[i] = cryptAlphabet[b&63]
	}
	return salt, nil
}

const cryptAlphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// sha256Crypt is the digest of Ulrich Drepper's "Unix crypt using SHA-256",
// with a salt of any length, as MySQL has it.
func sha256Crypt(password, salt []byte, rounds int) []byte {
	h := sha256.New()
	sum := func(parts ...[]byte) []byte {
		h.Reset()
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	stretch := func(block []byte, size int) []byte {
		out := make([]byte, 0, size+len(block))
		for len(out) < size {
			out = append(out, block...)
		}
		return out[:size]
	}

	b := sum(password, salt, password)
	parts := [][]byte{password, salt, stretch(b, len(password))}
	for n := len(password); n > 0; n >>= 1 {
		if n&1 != 0 {
			parts = append(parts, b)
		} else {
			parts = append(parts, password)
		}
	}
	a := sum(parts...)

	p := stretch(sum(stretch(password, len(password)*len(password))), len(password))
	s := stretch(sum(stretch(salt, len(salt)*(16+int(a[0])))), len(salt))
	for i := range rounds {
		var parts [][]byte
		if i&1 != 0 {
			parts = append(parts, p)
		} else {
			parts = append(parts, a)
		}
		if i%3 != 0 {
			parts = append(parts, s)
		}
		if i%7 != 0 {
			parts = append(parts, p)
		}
		if i&1 != 0 {
			parts = append(parts, a)
		} else {
			parts = append(parts, p)
		}
		a = sum(parts...)
	}
	return cryptEncode(a)
}

// cryptEncode writes the digest's bytes in crypt's own order and base 64.
func cryptEncode(a []byte) []byte {
	out := make([]byte, 0, 43)
	put := func(w uint, n int) {
		for range n {
			out = append(out, cryptAlphabet[w&63])
			w >>= 6
		}
	}
	i, j, k := 0, 10, 20
	for range 10 {
		put(uint(a[i])<<16|uint(a[j])<<8|uint(a[k]), 4)
		i, j, k = k+1, i+1, j+1
	}
	put(uint(a[31])<<8|uint(a[30]), 3)
	return out
}
