package monitor

import (
	"net/netip"
	"net/url"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/fault"
)

// Machine is a machine of an account: its load is shown in the stats, and
// support staff may log in to it as its settings say.
type Machine struct {
	ID      MachineID
	Account account.ID
	Label   string
	// Group is for display only.
	Group string
	// Source is the URL of the machine's node_exporter; "" is the host of a
	// steward server, which samples itself. Then Label is the host's name.
	Source  string
	SSH     SSHSettings
	Created time.Time
	Updated time.Time
}

// SSHSettings are how support staff may log in. Zero values are the defaults.
type SSHSettings struct {
	Access bool
	// User is "" for root.
	User string
	// IP is an address, or AnyIP.
	IP string
	// Port is 0 for 22.
	Port int
	// HostKey is the key that the machine has shown at the first log-in; "" before it.
	// It is forgotten with the address that it was seen at.
	HostKey string
}

// AnyIP stands for every address of a machine.
const AnyIP = "any"

// Login is the name to log in with.
func (s SSHSettings) Login() string {
	if s.User == "" {
		return "root"
	}
	return s.User
}

// DialPort is the port to log in at.
func (s SSHSettings) DialPort() int {
	if s.Port == 0 {
		return 22
	}
	return s.Port
}

// SSHChange is what becomes of SSHSettings; nil fields stay, and zero values
// bring the defaults back.
type SSHChange struct {
	Access *bool
	User   *string
	IP     *string
	Port   *int
}

// Change applies a change, and tells all that is wrong with it.
func (s SSHSettings) Change(by SSHChange) (SSHSettings, fault.Faults) {
	before := s
	if by.Access != nil {
		s.Access = *by.Access
	}
	if by.User != nil {
		s.User = *by.User
	}
	if by.IP != nil {
		s.IP = *by.IP
	}
	if by.Port != nil {
		s.Port = *by.Port
	}
	if s.IP != before.IP || s.DialPort() != before.DialPort() {
		s.HostKey = ""
	}
	return s, s.validate()
}

// maxUser is the longest user name of Linux (useradd(8)).
const maxUser = 32

func (s SSHSettings) validate() fault.Faults {
	var faults fault.Faults
	if len(s.User) > maxUser {
		faults = append(faults, fault.Length("ssh.user", 1, maxUser))
	} else if s.User != "" && !isUser(s.User) {
		faults.Add("ssh.user", "May only contain letters, digits, _, -, . and @, and must start with a letter, a digit or _")
	}
	if ip, err := netip.ParseAddr(s.IP); s.IP != AnyIP && (err != nil || ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast()) {
		faults.Add("ssh.ip", "Must be an IPv4 or IPv6 address, or any")
	}
	if s.Port < 0 || s.Port > 65535 {
		faults = append(faults, fault.Range("ssh.port", 1, 65535))
	}
	return faults
}

func isUser(name string) bool {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_'
		if !letter && (i == 0 || !strings.ContainsRune("-.@", r)) {
			return false
		}
	}
	return true
}

// Bounds of what an operator registers. maxHostName is what a host name can have (gethostname(2)).
const (
	maxHostName = 64
	maxSource   = 2000
)

// ValidateRegistered tells all that is wrong with a machine that an operator registers.
func (c Machine) ValidateRegistered() fault.Faults {
	faults := append(validateText("label", c.Label, 1, maxHostName), validateText("group", c.Group, 0, maxGroup)...)
	u, err := url.Parse(c.Source)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || len(c.Source) > maxSource:
		faults.Add("source", "Must be the URL of a node_exporter, such as http://host:9100/metrics")
	case u.User != nil || u.Fragment != "":
		faults.Add("source", "Must have neither a user nor a fragment")
	}
	return faults
}

// SourceHost is the host that the machine's node_exporter answers at, or "" for
// a steward server's own.
func (c Machine) SourceHost() string {
	u, err := url.Parse(c.Source)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// MachineLabelTaken is the fault of a second machine of the same label.
func MachineLabelTaken() *fault.Fault {
	return fault.NewInvalid("label", "Label must be unique among the account's machines")
}
