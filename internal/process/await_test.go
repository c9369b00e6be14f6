package process

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwait: a process is asked until that is over, it has ended, or nobody waits any more.
func TestAwait(t *testing.T) {
	t.Parallel()
	errNotYet, errRefused := errors.New("not yet"), errors.New("refused")
	for name, c := range map[string]struct {
		answer error // after a second
		ends   time.Duration
		want   []error
		after  time.Duration
	}{
		"answers":         {nil, time.Hour, []error{nil}, time.Second},
		"refuses":         {errRefused, time.Hour, []error{errRefused}, time.Second},
		"ends":            {errNotYet, 1500 * time.Millisecond, []error{ErrEnded}, 1500 * time.Millisecond},
		"doesn't ever":    {errNotYet, time.Hour, []error{errNotYet, context.DeadlineExceeded}, time.Minute},
		"ends, but after": {nil, 1500 * time.Millisecond, []error{nil}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, began := &Process{done: make(chan struct{})}, time.Now()
				end := time.AfterFunc(c.ends, func() { close(p.done) })
				defer end.Stop()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := p.Await(ctx, 10*time.Millisecond, func(context.Context) (bool, error) {
					if time.Since(began) < time.Second {
						return false, errNotYet
					}
					return !errors.Is(c.answer, errNotYet), c.answer
				})
				for _, want := range c.want {
					if !errors.Is(err, want) {
						t.Errorf("got %v, want %v", err, want)
					}
				}
				if took := time.Since(began); took != c.after {
					t.Errorf("waited %v, want %v", took, c.after)
				}
			})
		})
	}
}
