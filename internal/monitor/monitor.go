// Package monitor holds the nouns and rules of the monitoring service: what is
// watched, what a check found, when that makes an outage, and who is told.
package monitor

// Every noun has an id of a type of its own.
type (
	// ServiceID identifies a monitored service.
	ServiceID int64
	// ContactID identifies a person to be told.
	ContactID int64
	// CredentialID identifies a sealed user name and password.
	CredentialID int64
	// IssueID identifies an outage.
	IssueID int64
	// TicketID identifies what people write about an issue.
	TicketID int64
	// ReplyID identifies an entry of a ticket.
	ReplyID int64
	// NoticeID identifies what one contact is told of an issue.
	NoticeID int64
	// MachineID identifies a machine.
	MachineID int64
)

// ServiceType is how a service is checked.
type ServiceType string

// What a service is checked by.
const (
	URL ServiceType = "url"
	TCP ServiceType = "tcp"
)
