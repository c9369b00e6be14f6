package operate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"steward/internal/account"
	"steward/internal/operation"
	"steward/internal/store"
)

// slots bounds how many operations of a kind are carried out at once. Copying
// databases takes hours: were it not bounded, all workers would be at it soon
// after midnight, and nobody would be left for what takes a second.
// The last of several slots is kept for an account that has none, so that no
// account can hold them all while others wait.
type slots struct {
	most int

	mu    sync.Mutex
	taken int
	by    map[account.ID]int
}

func newSlots(most int) *slots { return &slots{most: most, by: map[account.ID]int{}} }

func (t *slots) take(of account.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	free := t.most - t.taken
	if free == 0 || free == 1 && t.by[of] > 0 {
		return false
	}
	t.taken++
	t.by[of]++
	return true
}

func (t *slots) done(of account.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	if t.by[of]--; t.by[of] == 0 {
		delete(t.by, of)
	}
}

// slotsOf are those an operation needs; nil for one that doesn't take long.
func (r *Operator) slotsOf(op operation.Operation) *slots {
	switch op.Action {
	case operation.Backup:
		return r.backups
	case operation.Restore, operation.Upgrade, operation.UpgradeCheck:
		return r.restores
	case operation.Migration:
		if op.Params.Follows {
			return r.follows
		}
		return r.imports
	case operation.Delete:
		if op.Params.Final && !op.Params.Touched {
			return r.backups
		}
	case operation.Create:
		if op.Params.Fork != 0 {
			return r.restores
		}
	}
	return nil
}

// waitForSlot is when to try again after all slots were taken.
const waitForSlot = 3 * time.Second

// putOff keeps the sweep from waking an operation that waits; message says for what.
func (r *Operator) putOff(ctx context.Context, op operation.Operation, message string) error {
	if err := r.Store.ProgressOperation(ctx, op.ID, op.Percent, message, waitForSlot+store.WakeDelay); err != nil {
		return fmt.Errorf("put operation %d off: %w", op.ID, err)
	}
	return nil
}
