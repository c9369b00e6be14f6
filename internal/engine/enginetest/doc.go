// Package enginetest is the conformance suite of engine drivers. It runs real
// servers, on every installation it finds, the way the platform does: from a
// template, as an unprivileged user when the tests run as root, in a session of
// their own.
package enginetest
