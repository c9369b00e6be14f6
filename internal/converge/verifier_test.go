package converge

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/platform"
)

// verifications is a verifier over backups of which each takes the time it takes.
type verifications struct {
	mu      sync.Mutex
	waiting []candidate
	// takes is how long a backup's verification lasts; one second unless set.
	takes map[backup.ID]time.Duration
	// verified is when a backup was verified, late are those put off, twice those that
	// were verified at the same time as another of their database.
	verified map[backup.ID]time.Time
	late     []backup.ID
	twice    []cluster.ID
	now      map[cluster.ID]bool
	most     int
	// begun is called at each beginning, with the lock held.
	begun func()
}

func newVerifications() *verifications {
	return &verifications{takes: map[backup.ID]time.Duration{}, verified: map[backup.ID]time.Time{}, now: map[cluster.ID]bool{}}
}

// add is a new backup that takes so long.
func (p *verifications) add(a account.ID, c cluster.ID, b backup.ID, takes time.Duration) {
	p.waiting = append(p.waiting, candidate{cluster.Cluster{ID: c, Account: a}, backup.Backup{ID: b, Cluster: c}})
	p.takes[b] = takes
}

func (p *verifications) list(context.Context) ([]candidate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.waiting), nil
}

func (p *verifications) verify(ctx context.Context, c candidate) (found, err error) {
	p.mu.Lock()
	if p.now[c.c.ID] {
		p.twice = append(p.twice, c.c.ID)
	}
	p.now[c.c.ID] = true
	p.most = max(p.most, len(p.now))
	takes := p.takes[c.b.ID]
	if p.begun != nil {
		p.begun()
	}
	p.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.now, c.c.ID)
	return nil, err
}

func (p *verifications) record(_ context.Context, r *verification) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = slices.DeleteFunc(p.waiting, func(c candidate) bool { return c.b.ID == r.b.ID })
	if errors.Is(r.cause, errTookTooLong) || errors.Is(r.found, platform.ErrUnverified) {
		p.late = append(p.late, r.b.ID)
	} else if r.cause == nil {
		p.verified[r.b.ID] = time.Now()
	}
	return nil
}

// run verifies all there is in a bubble of its own time, and tells how long it was
// until the last of the backups was verified.
func (p *verifications) run(t *testing.T, limits VerifyLimits) (last time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := newVerifier(&Keeper{Options: Options{Backups: BackupOptions{Every: 10 * time.Second, Verification: limits.withDefaults()}}})
		v.list, v.verify, v.record = p.list, p.verify, p.record
		began := time.Now()
		if err := v.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, at := range p.verified {
			last = max(last, at.Sub(began))
		}
	})
	if len(p.twice) > 0 {
		t.Errorf("two at once of %v", p.twice)
	}
	return last
}

const forever = 1000 * time.Hour

// TestABackupThatHangsDelaysNoOther: all others are verified in the time that they
// take alone, a fifth more at most, wherever the one that hangs stands.
func TestABackupThatHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	for _, lanes := range []int{1, 2} {
		for _, takes := range []time.Duration{time.Second, 5 * time.Second, 25 * time.Second} {
			for _, hanging := range []backup.ID{1, 25, 50} {
				fleet := func(hangs bool) *verifications {
					p := newVerifications()
					for id := backup.ID(1); id <= 50; id++ {
						if id != hanging {
							p.add(1, cluster.ID(id), id, takes)
						} else if hangs {
							p.add(1, cluster.ID(id), id, forever)
						}
					}
					return p
				}
				limits := VerifyLimits{Quick: lanes, Slow: lanes}
				alone := fleet(false).run(t, limits)
				beside := fleet(true)
				with := beside.run(t, limits)
				if with > alone*12/10 {
					t.Errorf("%d lanes, %v each, the %d. hangs: %v, %v without it", lanes, takes, hanging, with, alone)
				}
				if !slices.Equal(beside.late, []backup.ID{hanging}) {
					t.Errorf("put off: %v", beside.late)
				}
			}
		}
	}
}

// TestBackupsThatHangTakeTurns: however many an account has of them, and however
// many lanes they could fill, those of others are verified before any of them ends.
func TestBackupsThatHangTakeTurns(t *testing.T) {
	t.Parallel()
	p := newVerifications()
	for id := backup.ID(1); id <= 30; id++ {
		p.add(1, cluster.ID(id), id, forever)
	}
	for id := backup.ID(31); id <= 35; id++ {
		p.add(2, cluster.ID(id), id, 5*time.Second)
	}
	limits := VerifyLimits{Quick: 2, Slow: 2}
	if last := p.run(t, limits); last > 2*time.Minute || len(p.verified) != 5 || len(p.late) != 30 {
		t.Errorf("verified after %v, %d of 5; %d put off", last, len(p.verified), len(p.late))
	}
	if p.most > limits.Quick+limits.Slow {
		t.Errorf("%d at once", p.most)
	}
}

// TestLargeBackupsKeepOutOfTheWay: what takes long by its size has lanes of its own.
func TestLargeBackupsKeepOutOfTheWay(t *testing.T) {
	t.Parallel()
	p := newVerifications()
	for id := backup.ID(1); id <= 5; id++ {
		p.add(1, cluster.ID(id), id, time.Hour)
		p.waiting[id-1].b.Bytes = 50 << 30
	}
	p.add(1, 6, 6, 10*time.Second)
	p.run(t, VerifyLimits{Quick: 1, Slow: 1})
	for id, at := range p.verified {
		if id < 6 && at.Before(p.verified[6]) {
			t.Errorf("backup %d before the small one", id)
		}
	}
	if len(p.verified) != 6 {
		t.Errorf("verified: %v, put off: %v", p.verified, p.late)
	}
}

// TestOneBackupOfADatabaseAtATime: they have one place to be restored to.
func TestOneBackupOfADatabaseAtATime(t *testing.T) {
	t.Parallel()
	p := newVerifications()
	for id := backup.ID(1); id <= 6; id++ {
		p.add(1, cluster.ID(1+id%2), id, 3*time.Second)
	}
	if p.run(t, VerifyLimits{Quick: 4, Slow: 4}); len(p.verified) != 6 || p.most != 2 {
		t.Errorf("%d verified, %d at once", len(p.verified), p.most)
	}
}

// TestAVerificationEndsWithItsBackup: what was deleted isn't looked through any more.
func TestAVerificationEndsWithItsBackup(t *testing.T) {
	t.Parallel()
	p := newVerifications()
	p.add(1, 1, 1, forever)
	p.begun = func() { p.waiting = nil }
	p.run(t, VerifyLimits{})
	if len(p.late) > 0 {
		t.Errorf("put off: %v", p.late)
	}
}

func TestVerifyAgain(t *testing.T) {
	t.Parallel()
	last := time.Duration(0)
	for tries := range 20 {
		pause := verifyAgain(tries)
		if pause < time.Hour || pause > verificationAge || pause < last {
			t.Errorf("after %d tries: %v", tries, pause)
		}
		last = pause
	}
	if last != verificationAge {
		t.Errorf("at last every %v", last)
	}
}
