package converge

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
)

// VerifyLimits bound the verification of backups, in whose length customers have a
// say: what is in a database decides how long it takes to look through it.
type VerifyLimits struct {
	// Quick is how many are verified at once of those that don't take long, Slow how
	// many of the others, beside them. By the machine's processors unless set.
	Quick, Slow int
	// Patience is after how long one doesn't count as quick any more when others
	// wait; earlier, while a slow lane is free, if it takes much longer than others
	// do. 30 s unless set.
	Patience time.Duration
	// Base is how long one may take whatever its size, and one second more for each
	// SlowestRate bytes of it: 10 min and 4 MiB unless set.
	Base        time.Duration
	SlowestRate int64
}

func (l VerifyLimits) withDefaults() VerifyLimits {
	lanes := 1
	if runtime.NumCPU() >= 4 {
		lanes = 2
	}
	return VerifyLimits{
		Quick: cmp.Or(l.Quick, lanes), Slow: cmp.Or(l.Slow, lanes), Patience: cmp.Or(l.Patience, 30*time.Second),
		Base: cmp.Or(l.Base, 10*time.Minute), SlowestRate: cmp.Or(l.SlowestRate, 4<<20),
	}
}

// limit is how long a backup's verification may take.
func (l VerifyLimits) limit(b backup.Backup) time.Duration {
	return l.Base + time.Duration(b.Bytes/l.SlowestRate)*time.Second
}

// quick reports whether a backup may be verified among those that don't take long.
func (l VerifyLimits) quick(b backup.Backup) bool {
	const rate = 32 << 20 // a second, of what is unpacked and looked through
	return b.VerifyTries == 0 && b.Bytes < int64(l.Patience.Seconds()*rate)
}

// Why a verification is ended before it is done.
var (
	errTookTooLong = errors.New("it took too long")
	errOutlasted   = errors.New("it isn't quick, and is begun anew among those that aren't")
	errNotNeeded   = errors.New("the database was deleted")
)

// candidate is a backup to verify.
type candidate struct {
	c cluster.Cluster
	b backup.Backup
}

// verifier verifies backups in two kinds of lanes, so that no database delays
// another's verification for long: what isn't quick makes room in the quick lanes, by
// going on in a slow one or by beginning anew there once one is free; what outlasts
// its limit is put off. A database has one lane at a time; accounts and databases
// take turns.
type verifier struct {
	limits VerifyLimits
	// every is the time between two looks at what there is to do, while there is.
	every time.Duration
	// list is what is to be verified, with what is being.
	list func(ctx context.Context) ([]candidate, error)
	// verify verifies one: found is what is wrong with it, err why that isn't known.
	verify func(ctx context.Context, c candidate) (found, err error)
	// record keeps what came of it.
	record func(ctx context.Context, r *verification) error

	running map[cluster.ID]*verification
	ended   chan *verification
	// outlasted are backups that aren't quick, begun is when a database last had a lane.
	outlasted map[backup.ID]bool
	begun     map[cluster.ID]time.Time
	// crowded is whether somebody waits for a quick lane.
	crowded bool
	// typical is about how long quick ones have lasted of late.
	typical time.Duration
}

func newVerifier(k *Keeper) *verifier {
	return &verifier{
		limits: k.Backups.Verification, every: k.Backups.Every, list: k.listUnverified, verify: k.verify, record: k.recordVerification,
		running: map[cluster.ID]*verification{}, ended: make(chan *verification),
		outlasted: map[backup.ID]bool{}, begun: map[cluster.ID]time.Time{},
	}
}

// verification is a backup that is being verified.
type verification struct {
	candidate
	slow  bool
	began time.Time
	end   context.CancelCauseFunc
	// found and err are those of verifier.verify, cause is why it was ended early.
	found, err, cause error
}

// run verifies until there is nothing left to do.
func (v *verifier) run(ctx context.Context) error {
	defer v.stop()
	tick := time.NewTicker(v.every)
	defer tick.Stop()
	for {
		v.makeRoom()
		if err := v.begin(ctx); err != nil {
			return err
		}
		if len(v.running) == 0 {
			return nil
		}
		select {
		case done := <-v.ended:
			if err := v.take(ctx, done); err != nil {
				return err
			}
		case <-time.After(v.untilLate()):
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take records what came of a verification. One that turned out not to be quick
// is begun anew.
func (v *verifier) take(ctx context.Context, done *verification) error {
	delete(v.running, done.c.ID)
	delete(v.outlasted, done.b.ID)
	if errors.Is(done.cause, errOutlasted) {
		v.outlasted[done.b.ID] = true
		return nil
	}
	if done.cause == nil && v.limits.quick(done.b) {
		lasted := time.Since(done.began)
		v.typical = (3*cmp.Or(v.typical, lasted) + lasted) / 4
	}
	return v.record(ctx, done)
}

// stop ends what goes on.
func (v *verifier) stop() {
	for _, r := range v.running {
		r.end(context.Canceled)
	}
	for len(v.running) > 0 {
		delete(v.running, (<-v.ended).c.ID)
	}
}

// begin ends what isn't needed any more and fills the lanes that are free.
func (v *verifier) begin(ctx context.Context) error {
	all, err := v.list(ctx)
	if err != nil {
		return err
	}
	for _, r := range v.running {
		if !slices.ContainsFunc(all, func(c candidate) bool { return c.b.ID == r.b.ID }) {
			r.end(errNotNeeded)
		}
	}
	for _, slow := range []bool{false, true} {
		next, ok := v.next(all, slow)
		for ; ok && v.free(slow); next, ok = v.next(all, slow) {
			v.start(ctx, next, slow)
		}
		v.crowded = v.crowded && slow || ok && !slow
	}
	return nil
}

// free reports whether another backup can be begun in a lane of the kind.
func (v *verifier) free(slow bool) bool {
	lanes := v.limits.Quick
	if slow {
		lanes = v.limits.Slow
	}
	for _, r := range v.running {
		if r.slow == slow {
			lanes--
		}
	}
	return lanes > 0
}

// next is what is verified next: of the account with the fewest lanes, the database that
// has waited for the longest, with its oldest backup.
func (v *verifier) next(all []candidate, slow bool) (candidate, bool) {
	lanes := map[account.ID]int{}
	for _, r := range v.running {
		lanes[r.c.Account]++
	}
	var fit []candidate
	for _, c := range all {
		quick := v.limits.quick(c.b) && !v.outlasted[c.b.ID]
		if v.running[c.c.ID] == nil && quick != slow {
			fit = append(fit, c)
		}
	}
	if len(fit) == 0 {
		return candidate{}, false
	}
	return slices.MinFunc(fit, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(lanes[a.c.Account], lanes[b.c.Account]), v.begun[a.c.ID].Compare(v.begun[b.c.ID]), cmp.Compare(a.b.ID, b.b.ID))
	}), true
}

func (v *verifier) start(ctx context.Context, next candidate, slow bool) {
	r := &verification{candidate: next, slow: slow, began: time.Now()}
	ctx, r.end = context.WithCancelCause(ctx)
	limited, cancel := context.WithTimeoutCause(ctx, v.limits.limit(r.b), errTookTooLong)
	v.running[r.c.ID], v.begun[r.c.ID] = r, r.began
	go func() {
		r.found, r.err = v.verify(limited, r.candidate)
		r.cause = context.Cause(limited)
		cancel()
		r.end(nil)
		v.ended <- r
	}()
}

// unusual is after how long a quick verification takes much longer than others do.
func (v *verifier) unusual() time.Duration {
	return min(max(2*v.typical, v.limits.Patience/10), v.limits.Patience)
}

// untilLate is how long until somebody may have to make room.
func (v *verifier) untilLate() time.Duration {
	wait := v.limits.Patience
	for _, r := range v.running {
		for _, late := range []time.Duration{v.unusual(), v.limits.Patience} {
			if left := late - time.Since(r.began); !r.slow && left > 0 {
				wait = min(wait, left)
			}
		}
	}
	return wait
}

// makeRoom has those leave the quick lanes that take long while others wait.
func (v *verifier) makeRoom() {
	for _, r := range v.running {
		lasted := time.Since(r.began)
		switch {
		case r.slow || !v.crowded:
		case lasted >= v.unusual() && v.free(true):
			r.slow = true
		case lasted >= v.limits.Patience:
			r.end(errOutlasted)
		}
	}
}
