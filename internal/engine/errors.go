package engine

import "errors"

// ErrStarting is returned by Ping while the server starts or recovers.
var ErrStarting = errors.New("server is starting")

// ErrAuthentication is returned when the server refuses our own password.
var ErrAuthentication = errors.New("server refuses the password")
