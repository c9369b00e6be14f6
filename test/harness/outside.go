package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Outside lets a program use the harness: it is what the harness needs of a test.
// What would fail a test panics here, for Attempt to catch.
type Outside struct {
	testing.TB // nil: what isn't below isn't used
	cleanups   []func()
	errs       []error
}

type fatal struct{ error }

// Helper implements testing.TB.
func (*Outside) Helper() {}

// Context implements testing.TB.
func (*Outside) Context() context.Context { return context.Background() }

// Failed implements testing.TB.
func (*Outside) Failed() bool { return false }

// Logf implements testing.TB.
func (*Outside) Logf(string, ...any) {}

// Cleanup implements testing.TB.
func (o *Outside) Cleanup(f func()) { o.cleanups = append(o.cleanups, f) }

// Errorf keeps the error for Close.
func (o *Outside) Errorf(format string, args ...any) {
	o.errs = append(o.errs, fmt.Errorf(format, args...))
}

// Fatal ends the Attempt.
func (*Outside) Fatal(args ...any) { panic(fatal{errors.New(fmt.Sprint(args...))}) }

// Fatalf ends the Attempt.
func (*Outside) Fatalf(format string, args ...any) { panic(fatal{fmt.Errorf(format, args...)}) }

// TempDir is a folder that Close removes.
func (o *Outside) TempDir() string {
	dir, err := os.MkdirTemp("", "steward-outside-")
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Close does the cleanups, last first, as a test does at its end.
func (o *Outside) Close() error {
	for _, f := range slices.Backward(o.cleanups) {
		if err := Attempt(f); err != nil {
			o.errs = append(o.errs, err)
		}
	}
	o.cleanups = nil
	return errors.Join(o.errs...)
}

// Attempt turns what would have failed a test into an error.
func Attempt(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fatal:
			err = errors.New(withoutRequests(r.Error()))
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// withoutRequests keeps of a log's end what tells why: not our own polling.
func withoutRequests(text string) string {
	kept := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return strings.Contains(line, " msg=request ") })
	return strings.Join(kept, "\n")
}
