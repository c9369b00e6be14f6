package engine

import "errors"

// ErrStarting is returned by Ping while the server starts or recovers.
var ErrStarting = errors.New("server is starting")

// ErrAuthentication is returned when the server refuses our own password.
var ErrAuthentication = errors.New("server refuses the password")

// ErrUnchecked is returned by Check when it found no damage, but part of the
// data took too long to look through.
var ErrUnchecked = errors.New("not all of it was checked, as that took too long")

// ErrBlocked is returned by Backup when somebody holds a lock that a copy needs.
var ErrBlocked = errors.New("the copy waited for a lock")
