package notifytest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"
)

// Mail is a message that was taken.
type Mail struct {
	EnvelopeFrom, EnvelopeTo string
	// Header is as it came; Subject, From and To are decoded.
	Header   mail.Header
	Subject  string
	From, To *mail.Address
	// Text and HTML are the two parts of the message, decoded.
	Text, HTML string
	Raw        []byte
	// TLS reports whether it came encrypted, User who authenticated.
	TLS  bool
	User string
	// Connection counts from 1.
	Connection int
	At         time.Time
}

// MessageID is what a repeated message would be known by.
func (m Mail) MessageID() string { return m.Header.Get("Message-Id") }

// Mails is the mailbox, in the order of arrival.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

// To is the mailbox of one recipient.
func (s *Server) To(address string) []Mail {
	return slices.DeleteFunc(s.Mails(), func(m Mail) bool { return m.EnvelopeTo != address })
}

// Await waits until there are n mails that match, all of them if match is nil, and
// returns them. The test ends when there aren't within the patience.
func (s *Server) Await(t testing.TB, n int, patience time.Duration, match func(Mail) bool) []Mail {
	t.Helper()
	late := time.After(patience)
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		found := slices.DeleteFunc(s.Mails(), func(m Mail) bool { return match != nil && !match(m) })
		if len(found) >= n {
			return found
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%d of %d mails after %s", len(found), n, patience)
		}
	}
}

func (s *Server) put(m Mail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, m)
	close(s.changed)
	s.changed = make(chan struct{})
}

// parse reads a message, and refuses what isn't one.
func parse(raw []byte) (Mail, error) {
	m := Mail{Raw: raw}
	message, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return m, err
	}
	m.Header = message.Header
	if m.Subject, err = new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil {
		return m, err
	}
	if m.From, err = address(m.Header, "From"); err != nil {
		return m, err
	}
	if m.To, err = address(m.Header, "To"); err != nil {
		return m, err
	}
	return m, m.read(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), message.Body)
}

// read takes the text of a part, and of the parts within it.
func (m *Mail) read(contentType, encoding string, body io.Reader) error {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return err
	}
	if strings.HasPrefix(kind, "multipart/") {
		parts := multipart.NewReader(body, params["boundary"])
		for {
			part, err := parts.NextRawPart()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			if err := m.read(part.Header.Get("Content-Type"), part.Header.Get("Content-Transfer-Encoding"), part); err != nil {
				return err
			}
		}
	}
	switch strings.ToLower(encoding) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	plain := strings.ReplaceAll(string(text), "\r\n", "\n")
	switch kind {
	case "text/plain":
		m.Text = plain
	case "text/html":
		m.HTML = plain
	}
	return nil
}

func address(h mail.Header, name string) (*mail.Address, error) {
	list, err := h.AddressList(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("%s: %d addresses", name, len(list))
	}
	return list[0], nil
}

// certificate is one for the loopback address, and the same as PEM.
func certificate(t testing.TB) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail.example.org"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
