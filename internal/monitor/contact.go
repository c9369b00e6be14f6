package monitor

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"steward/internal/account"
	"steward/internal/fault"
)

// Contact is a person to be told of issues.
type Contact struct {
	ID      ContactID
	Account account.ID
	Name    string
	Email   string
	// Group is what services name to have it told, "" for a contact of none.
	Group   string
	Phone   Phone
	Created time.Time
	Updated time.Time
}

// Phone is a contact's numbers, "" where there is none.
type Phone struct {
	Primary   string
	Secondary string
}

// Bounds in characters (docs/rules.md, Managed services).
const (
	minName, maxName   = 2, 64
	minEmail, maxEmail = 6, 100
	minGroup, maxGroup = 2, 50
	minPhone, maxPhone = 7, 32
	minDigits          = 7
)

// Validate finds everything that is wrong with a contact.
func (c Contact) Validate() fault.Faults {
	faults := validateText("name", c.Name, minName, maxName)
	switch n := utf8.RuneCountInString(c.Email); {
	case n < minEmail || n > maxEmail:
		faults = append(faults, fault.Length("email", minEmail, maxEmail))
	case !account.IsEmail(c.Email):
		faults.Add("email", "Must be an e-mail address")
	}
	if c.Group != "" {
		faults = append(faults, validateText("group", c.Group, minGroup, maxGroup)...)
	}
	faults = append(faults, validatePhone("phone.primary", c.Phone.Primary)...)
	return append(faults, validatePhone("phone.secondary", c.Phone.Secondary)...)
}

// validateText checks one line of text for people.
func validateText(field, text string, least, most int) fault.Faults {
	if n := utf8.RuneCountInString(text); n < least || n > most {
		return fault.Faults{fault.Length(field, least, most)}
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return fault.Faults{fault.NewInvalid(field, "Must not contain control characters")}
	}
	return nil
}

func validatePhone(field, number string) fault.Faults {
	if number == "" {
		return nil
	}
	if n := utf8.RuneCountInString(number); n < minPhone || n > maxPhone {
		return fault.Faults{fault.Length(field, minPhone, maxPhone)}
	}
	digits := 0
	for _, r := range number {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case !strings.ContainsRune(" +-().x", r):
			return fault.Faults{fault.NewInvalid(field, "May only contain digits, spaces and + - ( ) . x")}
		}
	}
	if digits < minDigits {
		return fault.Faults{fault.NewInvalid(field, "Must have at least %d digits", minDigits)}
	}
	return nil
}
