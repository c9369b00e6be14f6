// Package fault is the one error type for everything that is expected to go
// wrong: a caller's mistake or a state that forbids what was asked. Anything
// that is not a fault is a bug or a broken machine, and never shown to callers.
package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind says what sort of problem a fault is; the API door maps it to a status.
type Kind int

const (
	// Invalid is bad input: a field and the reason it was refused (400).
	Invalid Kind = iota + 1
	// Precondition is a request that is fine in itself but not now (400).
	Precondition
	// Unauthenticated is a missing, unknown, expired or revoked token (401).
	Unauthenticated
	// ScopeTooSmall is a token whose scopes don't reach the endpoint (401).
	ScopeTooSmall
	// Forbidden is a user who may not do this, whatever the token (403).
	Forbidden
	// NotFound is absent or another account's, which must look the same (404).
	NotFound
	// TooMany is a caller over its rate limit (429).
	TooMany
)

// Fault is one problem. Field is empty where no single field is at fault.
type Fault struct {
	Kind   Kind
	Field  string
	Reason string
}

func (f *Fault) Error() string {
	if f.Field == "" {
		return f.Reason
	}
	return f.Field + ": " + f.Reason
}

// Is makes errors.Is compare by value, so that callers can name the fault they mean.
func (f *Fault) Is(target error) bool {
	other, ok := errors.AsType[*Fault](target)
	return ok && *f == *other
}

// Faults are all the problems of one request. Never empty when used as an error.
type Faults []*Fault

func (fs Faults) Error() string {
	texts := make([]string, len(fs))
	for i, f := range fs {
		texts[i] = f.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap lets errors.Is and errors.AsType look at each fault.
func (fs Faults) Unwrap() []error {
	errs := make([]error, len(fs))
	for i, f := range fs {
		errs[i] = f
	}
	return errs
}

// Add appends an Invalid fault.
func (fs *Faults) Add(field, format string, args ...any) {
	*fs = append(*fs, NewInvalid(field, format, args...))
}

// Name reports whether any of the faults is of a field.
func (fs Faults) Name(field string) bool {
	return slices.ContainsFunc(fs, func(f *Fault) bool { return f.Field == field })
}

// Err is nil when nothing was found.
func (fs Faults) Err() error {
	if len(fs) == 0 {
		return nil
	}
	return fs
}

// All returns every fault inside err, and false when err is not made of faults.
func All(err error) ([]*Fault, bool) {
	if fs, ok := errors.AsType[Faults](err); ok {
		return fs, true
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		return []*Fault{f}, true
	}
	return nil, false
}

// IsKind reports whether err holds a fault of the kind.
func IsKind(err error, k Kind) bool {
	fs, ok := All(err)
	if !ok {
		return false
	}
	for _, f := range fs {
		if f.Kind == k {
			return true
		}
	}
	return false
}

// NewInvalid is bad input in one field.
func NewInvalid(field, format string, args ...any) *Fault {
	return &Fault{Kind: Invalid, Field: field, Reason: fmt.Sprintf(format, args...)}
}

// NewPrecondition is a sentence that says what to wait for or do first.
func NewPrecondition(format string, args ...any) *Fault {
	return &Fault{Kind: Precondition, Reason: fmt.Sprintf(format, args...)}
}

// Reason texts below are those of docs/rules.md, Errors.

// NewUnauthenticated is the answer to a token that doesn't count.
func NewUnauthenticated() *Fault { return &Fault{Kind: Unauthenticated, Reason: "Invalid Token"} }

// NewScopeTooSmall is the answer to a token whose scopes don't reach the endpoint.
func NewScopeTooSmall() *Fault {
	return &Fault{Kind: ScopeTooSmall, Reason: "Your OAuth token is not authorized to use this endpoint."}
}

// NewForbidden is the answer to a user without the right.
func NewForbidden() *Fault { return &Fault{Kind: Forbidden, Reason: "Unauthorized"} }

// NewSuspended is the answer to the users of an account that the operator suspended.
func NewSuspended() *Fault {
	return &Fault{Kind: Forbidden, Reason: "Your account is suspended; ask the operator of this service."}
}

// NewNotFound is the answer for what is not there, or not the caller's.
func NewNotFound() *Fault { return &Fault{Kind: NotFound, Reason: "Not found"} }

// NewTooMany is the answer to a caller over its limit.
func NewTooMany() *Fault { return &Fault{Kind: TooMany, Reason: "Too many requests"} }

// Required is the reason for a missing field.
func Required(field string) *Fault { return NewInvalid(field, "%s is required", field) }

// NotValid is the reason for an unknown region, type, engine or other reference.
func NotValid(field string) *Fault { return NewInvalid(field, "%s is not valid", field) }

// Length is the reason for a text of the wrong length.
func Length(field string, least, most int) *Fault {
	if least == 0 {
		return NewInvalid(field, "Length must be at most %d characters", most)
	}
	return NewInvalid(field, "Length must be %d-%d characters", least, most)
}

// Range is the reason for a number out of its bounds.
func Range(field string, least, most int) *Fault {
	return NewInvalid(field, "Must be %d-%d", least, most)
}

// OneOf is the reason for a value outside an enumeration.
func OneOf[T ~string](field string, allowed ...T) *Fault {
	texts := make([]string, len(allowed))
	for i, a := range allowed {
		texts[i] = string(a)
	}
	if len(texts) == 1 {
		return NewInvalid(field, "Must be %s", texts[0])
	}
	return NewInvalid(field, "Must be one of %s", strings.Join(texts, ", "))
}

// Blank is the reason for a text that shows nothing.
func Blank(field string) *Fault { return NewInvalid(field, "Must not be blank") }

// Quote lists what a caller sent, for a reason: the first few items, each cut
// short, so that an answer never grows with what was sent. One that couldn't be
// seen as it is stands in quotation marks.
func Quote(items []string) string {
	const most, length = 20, 64
	shown := make([]string, 0, min(len(items), most))
	for _, item := range items[:min(len(items), most)] {
		if runes := []rune(strings.ToValidUTF8(item, "?")); len(runes) > length {
			item = string(runes[:length]) + "…"
		}
		if strings.TrimSpace(item) != item || item == "" {
			item = `"` + item + `"`
		}
		shown = append(shown, item)
	}
	text := strings.Join(shown, ", ")
	if len(items) > most {
		text += fmt.Sprintf(" and %d more", len(items)-most)
	}
	return text
}
