package monitor

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"steward/internal/account"
	"steward/internal/fault"
)

// Status is how a service is, as customers see it.
type Status string

// The statuses of service.md 3.3. A pending service has not been judged since it
// was made, changed or enabled.
const (
	Disabled Status = "disabled"
	Pending  Status = "pending"
	Up       Status = "ok"
	Down     Status = "problem"
)

// Service is what is watched.
type Service struct {
	ID      ServiceID
	Account account.ID
	Label   string
	Type    ServiceType
	// Address is as the customer wrote it; ParseAddress reads it.
	Address string
	// Timeout covers a whole check, in seconds.
	Timeout int
	// Body must occur in the answer; "" asks for nothing.
	Body string
	// Group is whose contacts are told; "": all of the account's.
	Group       string
	Credentials []CredentialID
	Notes       string
	Region      string
	// Interval is between checks, in seconds; 0: the operator's.
	Interval int
	Status   Status
	// Since is when it got the status, Reason what was found then.
	Since  time.Time
	Reason string
	// CertificateEnds is when the certificate that the last check was shown ends; nil
	// without TLS.
	CertificateEnds *time.Time
	// Generation counts the changes that checks must know of.
	Generation int64
	Created    time.Time
	Updated    time.Time
}

// Host is whom the checks go to: Address.Host; "" for an address that can't be read.
func (s Service) Host() string {
	a, err := ParseAddress(s.Type, s.Address)
	if err != nil {
		return ""
	}
	return a.Host
}

// ChecksPerMinute is how often it is checked, usual being the operator's interval.
func (s Service) ChecksPerMinute(usual time.Duration) float64 {
	if s.Interval != 0 {
		usual = time.Duration(s.Interval) * time.Second
	}
	return float64(time.Minute) / float64(usual)
}

// Shards is how many parts the services are split into: each is checked by one
// server at a time. A few hundred spread evenly over a few servers.
const Shards = 256

// Shard is the part that the service belongs to.
func (id ServiceID) Shard() int { return int(id % Shards) }

// Validate finds what is wrong with the service itself: the bounds of service.md
// 2.11. Where it leads is judged by ValidateDestination.
func (s Service) Validate() fault.Faults {
	var faults fault.Faults
	length := func(field, text string, least, most int) {
		if n := utf8.RuneCountInString(text); n < least || n > most {
			faults = append(faults, fault.Length(field, least, most))
		} else if field != "notes" && strings.ContainsFunc(text, unicode.IsControl) {
			faults.Add(field, "Must not contain control characters")
		}
	}
	length("label", s.Label, 3, 64)
	if s.Type != URL && s.Type != TCP {
		faults = append(faults, fault.OneOf("service_type", URL, TCP))
	}
	if s.Timeout < 1 || s.Timeout > 255 {
		faults = append(faults, fault.Range("timeout", 1, 255))
	}
	if s.Body != "" {
		length("body", s.Body, 1, 100)
	}
	length("consultation_group", s.Group, 0, 50)
	length("notes", s.Notes, 0, 65536)
	if s.Interval != 0 && (s.Interval < MinInterval || s.Interval > MaxInterval) {
		faults = append(faults, fault.Range("interval", MinInterval, MaxInterval))
	}
	if len(s.Credentials) > maxCredentials {
		faults.Add("credentials", "Must have at most %d items", maxCredentials)
	}
	return faults
}

// The bounds on the time between two checks of a service, in seconds.
const (
	MinInterval = 10
	MaxInterval = 86400
)

const maxCredentials = 100

// Normalized has each credential once, in the order given.
func (s Service) Normalized() Service {
	var once []CredentialID
	for _, id := range s.Credentials {
		if !slices.Contains(once, id) {
			once = append(once, id)
		}
	}
	s.Credentials = once
	return s
}

// SameChecks reports whether the checks of both find the same: only then what was
// found of one still holds for the other.
func (s Service) SameChecks(o Service) bool {
	return s.Type == o.Type && s.Address == o.Address && s.Timeout == o.Timeout && s.Body == o.Body && s.Region == o.Region
}
