package host

import (
	"context"
	"fmt"
	"sync"

	"steward/internal/engine"
	"steward/internal/failpoint"
)

// seed is a copy of a primary's data while it is made. A replica that wants one
// meanwhile takes a copy of it when it is complete: that costs the server nothing.
type seed struct {
	primary int
	dir     string
	// ended is closed when the copy is complete, or err says why it isn't.
	ended chan struct{}
	err   error
	// takers are those who wait for it, or copy it.
	takers sync.WaitGroup
}

// seed copies the primary's data to dir, which is empty, and brings it to disk.
func (j *job) seed(ctx context.Context, u *unit, dir string) error {
	s, mine := u.joinSeed(j.m.ordinal, dir)
	var err error
	if mine {
		failpoint.Here("host: before seed")
		err = u.endSeed(s, j.eng.BaseBackup(ctx, j.node, dir, j.d.runAsOwner))
	} else {
		err = s.take(ctx, dir)
	}
	if err != nil {
		return err
	}
	if err := syncAll(dir); err != nil {
		return err
	}
	failpoint.Here("host: after seed")
	return nil
}

// joinSeed is the copy of the node's data that is being made; mine when the caller
// is to make it, in dir, and to end it.
func (u *unit) joinSeed(primary int, dir string) (s *seed, mine bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.seed; s != nil && s.primary == primary {
		s.takers.Add(1)
		return s, false
	}
	u.seed = &seed{primary: primary, dir: dir, ended: make(chan struct{})}
	return u.seed, true
}

// endSeed tells the takers, and waits until they have theirs.
func (u *unit) endSeed(s *seed, err error) error {
	u.mu.Lock()
	if u.seed == s { // nobody joins any more
		u.seed = nil
	}
	u.mu.Unlock()
	s.err = err
	close(s.ended)
	s.takers.Wait()
	return err
}

// take waits until the copy is complete, and copies it.
func (s *seed) take(ctx context.Context, dir string) error {
	defer s.takers.Done()
	select {
	case <-ctx.Done():
		return fmt.Errorf("wait for the copy of another replica: %w", ctx.Err())
	case <-s.ended:
	}
	if s.err != nil {
		return fmt.Errorf("the copy of another replica: %w", s.err)
	}
	return engine.CopyTree(ctx, s.dir, dir)
}
