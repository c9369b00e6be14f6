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
func (nr *nodeReconciler) seed(ctx context.Context, cs *clusterState, dir string) error {
	s, mine := cs.joinSeed(nr.ns.ordinal, dir)
	var err error
	if mine {
		failpoint.Here("host: before seed")
		err = cs.endSeed(s, nr.eng.Seed(ctx, nr.node, dir, nr.d.runAsOwner))
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
func (cs *clusterState) joinSeed(primary int, dir string) (s *seed, mine bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if s := cs.seed; s != nil && s.primary == primary {
		s.takers.Add(1)
		return s, false
	}
	cs.seed = &seed{primary: primary, dir: dir, ended: make(chan struct{})}
	return cs.seed, true
}

// endSeed tells the takers, and waits until they have theirs.
func (cs *clusterState) endSeed(s *seed, err error) error {
	cs.mu.Lock()
	if cs.seed == s { // nobody joins any more
		cs.seed = nil
	}
	cs.mu.Unlock()
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
