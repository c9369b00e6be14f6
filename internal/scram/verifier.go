// Package scram makes what PostgreSQL stores for a password (RFC 7677).
package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Rounds of hashing. Stretching protects passwords that can be guessed. Ours
// is random and long, and each connection of ours would pay for it.
const (
	CustomerRounds = 4096
	OwnRounds      = 1
)

// Verifier is what PostgreSQL stores for a password: with it the server never
// sees the password itself, nor does its log.
func Verifier(password string, rounds int) (string, error) {
	salt := make([]byte, 16)
	rand.Read(salt)
	return withSalt(password, salt, rounds)
}

func withSalt(password string, salt []byte, rounds int) (string, error) {
	if err := checkPassword(password); err != nil {
		return "", err
	}
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("hash password: %w", err)
	}
	stored := sha256.Sum256(sign(salted, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", rounds, encode(salt), encode(stored[:]), encode(sign(salted, "Server Key"))), nil
}

// Verifies reports whether a stored verifier is of the password.
func Verifies(stored, password string) bool {
	var rounds int
	parts := strings.FieldsFunc(stored, func(c rune) bool { return c == '$' || c == ':' })
	if len(parts) != 5 || parts[0] != "SCRAM-SHA-256" {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(parts[2])
	if _, errRounds := fmt.Sscan(parts[1], &rounds); err != nil || errRounds != nil {
		return false
	}
	again, err := withSalt(password, salt, rounds)
	return err == nil && again == stored
}

// checkPassword refuses what SCRAM would normalise before hashing, which we don't.
func checkPassword(password string) error {
	if password == "" {
		return errors.New("password is empty")
	}
	for _, c := range []byte(password) {
		if c < ' ' || c > '~' {
			return errors.New("password has characters other than printable ASCII")
		}
	}
	return nil
}

func sign(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
