package monitor

import (
	"time"
	"unicode/utf8"

	"steward/internal/account"
	"steward/internal/fault"
)

// Credential is a user name and a password in our care. Both are sealed, and
// not part of it: only support staff ever read them, and each time is recorded.
type Credential struct {
	ID      CredentialID
	Account account.ID
	Label   string
	// LastDecrypted is when staff last read it, nil for never.
	LastDecrypted *time.Time
	Created       time.Time
	Updated       time.Time
}

// Reveal reports whether somebody of the staff read a credential, which may be gone.
type Reveal struct {
	Account    account.ID
	Credential CredentialID
	Label      string
	Staff      string
	Purpose    string
	Created    time.Time
}

// Bounds of service.md 2.7 and decisions.md §6, in characters; those of staff
// and purpose are ours.
const (
	minLabel, maxLabel = 2, 75
	maxUsername        = 5000
	maxPassword        = 5000
	maxStaff           = 64
	maxPurpose         = 500
)

// Validate finds everything that is wrong with a credential.
func (c Credential) Validate() fault.Faults {
	return validateText("label", c.Label, minLabel, maxLabel)
}

// ValidateLogin finds what is wrong with a user name and a password; nil is one
// that isn't to be set.
func ValidateLogin(username, password *string) fault.Faults {
	var faults fault.Faults
	if username != nil && utf8.RuneCountInString(*username) > maxUsername {
		faults = append(faults, fault.Length("username", 0, maxUsername))
	}
	if password == nil {
		return append(faults, fault.Required("password"))
	}
	if n := utf8.RuneCountInString(*password); n < 1 || n > maxPassword {
		faults = append(faults, fault.Length("password", 1, maxPassword))
	}
	return faults
}

// Validate finds what is wrong with a request to read a credential.
func (r Reveal) Validate() fault.Faults {
	return append(validateText("staff", r.Staff, 1, maxStaff), validateText("purpose", r.Purpose, 1, maxPurpose)...)
}

// CredentialLabelTaken is the fault of a label that another credential of the
// account has.
func CredentialLabelTaken() *fault.Fault {
	return fault.NewInvalid("label", "Label must be unique among your credentials")
}
