package seal

import (
	"fmt"
	"io"
	"log/slog"
)

// hidden is what a Secret shows of itself.
const hidden = "[sealed]"

// Secret is a value in clear that must not get into logs, errors or answers by
// accident: however it is printed or encoded, it shows "[sealed]". The pointer
// keeps it unreadable even inside structs whose fields fmt reads by reflection.
type Secret struct{ value *string }

// NewSecret hides a value.
func NewSecret(value string) Secret { return Secret{value: &value} }

// Reveal is the value in clear.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// String hides the value.
func (Secret) String() string { return hidden }

// GoString hides the value.
func (Secret) GoString() string { return hidden }

// Format hides the value from all verbs, those that ask for bytes or numbers too.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// LogValue hides the value.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalJSON hides the value.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MarshalText hides the value from all other encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }
