package host

import (
	"context"
	"fmt"
	"sync"

	"steward/internal/durable"
	"steward/internal/engine"
	"steward/internal/failpoint"
)

// baseBackup is a copy of a primary's data that is being made. A replica that wants one
// meanwhile copies this one when it is complete: that costs the server nothing.
type baseBackup struct {
	primary int
	dir     string
	// ended is closed when the copy is complete, or err says why it isn't.
	ended chan struct{}
	err   error
	// copiers are those who wait for it, or copy it.
	copiers sync.WaitGroup
}

// baseBackup copies the primary's data to dir, which is empty, and syncs it.
func (nr *nodeReconciler) baseBackup(ctx context.Context, cs *clusterState, dir string) error {
	s, mine := cs.joinBaseBackup(nr.ns.ordinal, dir)
	var err error
	if mine {
		failpoint.Here("host: before base backup")
		err = cs.endBaseBackup(s, nr.eng.BaseBackup(ctx, nr.node, dir, nr.d.tools.Run))
	} else {
		err = s.copyTo(ctx, dir)
	}
	if err != nil {
		return err
	}
	if err := durable.SyncFileSystem(dir); err != nil {
		return err
	}
	failpoint.Here("host: after base backup")
	return nil
}

// joinBaseBackup returns the base backup of the node that is under way. mine reports
// that the caller is to make it, in dir, and to call endBaseBackup.
func (cs *clusterState) joinBaseBackup(primary int, dir string) (s *baseBackup, mine bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if s := cs.baseBackup; s != nil && s.primary == primary {
		s.copiers.Add(1)
		return s, false
	}
	cs.baseBackup = &baseBackup{primary: primary, dir: dir, ended: make(chan struct{})}
	return cs.baseBackup, true
}

// endBaseBackup releases those who wait for the copy, and waits until they have theirs.
func (cs *clusterState) endBaseBackup(s *baseBackup, err error) error {
	cs.mu.Lock()
	if cs.baseBackup == s { // nobody joins any more
		cs.baseBackup = nil
	}
	cs.mu.Unlock()
	s.err = err
	close(s.ended)
	s.copiers.Wait()
	return err
}

// copyTo waits until the copy is complete, and copies it.
func (s *baseBackup) copyTo(ctx context.Context, dir string) error {
	defer s.copiers.Done()
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
