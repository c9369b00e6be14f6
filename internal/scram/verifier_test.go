package scram

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The exchange printed in RFC 7677: a client's proof and a server's signature
// that only the right keys explain.
func TestVerifierAgainstRFC7677(t *testing.T) {
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	if err != nil {
		t.Fatal(err)
	}
	got, err := withSalt("pencil", salt, 4096)
	if err != nil {
		t.Fatal(err)
	}
	keys, ok := strings.CutPrefix(got, "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$")
	if !ok {
		t.Fatalf("verifier is %q", got)
	}
	storedText, serverText, _ := strings.Cut(keys, ":")
	stored, _ := base64.StdEncoding.DecodeString(storedText)
	server, _ := base64.StdEncoding.DecodeString(serverText)

	const nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	exchange := "n=user,r=rOprNGfwEbeRWgbNEkqO,r=" + nonce + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=" + nonce
	if got := base64.StdEncoding.EncodeToString(sign(server, exchange)); got != "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" {
		t.Errorf("server's signature is %s", got)
	}
	proof, _ := base64.StdEncoding.DecodeString("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
	for i, b := range sign(stored, exchange) {
		proof[i] ^= b
	}
	if client := sha256.Sum256(proof); !bytes.Equal(client[:], stored) {
		t.Error("the client's proof doesn't match the stored key")
	}
}

func TestVerifierIsSafeInSQL(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		password := rapid.StringMatching(`[ -~]{1,40}`).Draw(t, "password")
		got, err := Verifier(password, 1)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(got, `'"\ ;`) || len(password) > 8 && strings.Contains(got, password) {
			t.Fatalf("verifier is %q", got)
		}
	})
}

func TestVerifierRefuses(t *testing.T) {
	for _, password := range []string{"", "tab\t", "newline\n", "é", "\x00", "\x7f"} {
		if _, err := Verifier(password, 1); err == nil {
			t.Errorf("%q is taken", password)
		} else if password != "" && strings.Contains(err.Error(), password) {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}
