package email

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"strings"
)

// security is what is asked of the connection.
type security string

const (
	// required: nothing is said before the server has proved who it is.
	required security = "required"
	// opportunistic: encrypted when the server offers it, whoever it is.
	opportunistic security = "opportunistic"
	none          security = "none"
	// implicit is required, from the first byte on.
	implicit security = "implicit"
)

// server is what an smtp.url says.
type server struct {
	// address is host:port.
	address, host      string
	security           security
	username, password string
	authenticate       bool
	loopback           bool
}

// parseURL reads smtp://[user:password@]host[:587][?tls=required|opportunistic|none]
// or smtps://[user:password@]host[:465]. Its errors don't show the password.
func parseURL(text string) (server, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Opaque != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return server{}, errors.New("must be smtp://user:password@host:587 or smtps://user:password@host:465; special characters of a password are written as %XX")
	}
	s := server{host: u.Hostname()}
	ip, err := netip.ParseAddr(s.host)
	s.loopback = err == nil && ip.IsLoopback() || s.host == "localhost"
	if err := s.readScheme(u.Scheme, u.Port()); err != nil {
		return server{}, err
	}
	if err := s.readOptions(u.Query()); err != nil {
		return server{}, err
	}
	return s, s.readUser(u.User)
}

// readScheme reads how the connection is secured, unless an option says otherwise.
func (s *server) readScheme(scheme, port string) error {
	switch {
	case scheme == "smtps":
		s.security, port = implicit, cmp.Or(port, "465")
	case scheme != "smtp":
		return errors.New("must begin with smtp:// or smtps://")
	case s.loopback:
		s.security, port = opportunistic, cmp.Or(port, "587")
	default:
		s.security, port = required, cmp.Or(port, "587")
	}
	s.address = net.JoinHostPort(s.host, port)
	return nil
}

// readUser reads whom to log in as, which takes a connection that nobody listens to.
func (s *server) readUser(user *url.Userinfo) error {
	if user == nil {
		return nil
	}
	s.username, s.authenticate = user.Username(), true
	s.password, _ = user.Password()
	switch {
	case s.username == "" || s.password == "":
		return errors.New("a user needs a password, and the other way round")
	case !s.loopback && (s.security == none || s.security == opportunistic):
		return errors.New("a password is sent with tls=required only")
	}
	return nil
}

func (s *server) readOptions(query url.Values) error {
	for key, values := range query {
		if key != "tls" || len(values) != 1 {
			return fmt.Errorf("unknown or repeated option %q: there is tls alone", key)
		}
	}
	given := security(query.Get("tls"))
	switch {
	case given == "":
		return nil
	case s.security == implicit:
		return errors.New("smtps:// is encrypted anyway: leave tls out")
	case given != required && given != opportunistic && given != none:
		return errors.New("tls must be required, opportunistic or none")
	}
	s.security = given
	return nil
}

// parseFrom reads "Name <address>" or an address.
func parseFrom(text string) (*mail.Address, error) {
	from, err := mail.ParseAddress(text)
	if err != nil {
		return nil, errors.New("must be an e-mail address, such as Steward <alerts@example.org>")
	}
	return from, nil
}

// roots are the system's certificate authorities, with those of the file if one is named.
func roots(file string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if file == "" {
		return pool, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM format", file)
	}
	return pool, nil
}
