package mysql

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// copied is how long a copy of two seconds takes, in segments of a hundredth, and
// what part of its throughput a writer keeps that gets speed, a second, while
// it runs and 1000 while it pauses.
func copied(t *testing.T, speed, alone float64, fails bool) (took time.Duration, kept float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begun, written, running := time.Now(), 0.0, 0.0
		last := begun
		advance := func() {
			now := time.Now()
			written += alone*(now.Sub(last).Seconds()-running) + speed*running
			last, running = now, 0
		}
		p := newPace(t.Context(), io.Discard, func() (uint64, error) {
			if fails {
				return 0, errors.New("no such server")
			}
			advance()
			return uint64(written), nil
		})
		for range 200 {
			time.Sleep(10 * time.Millisecond)
			running = 0.01
			advance()
			if _, err := p.Write(make([]byte, 1)); err != nil {
				t.Error(err)
			}
		}
		took = time.Since(begun)
		kept = written / (alone * took.Seconds())
	})
	return took, kept
}

func TestPace(t *testing.T) {
	t.Parallel()
	const alone = 2 * time.Second
	for _, c := range []struct {
		name         string
		speed, alone float64
		fails        bool
		least, most  time.Duration
		kept         float64
	}{
		{"writers that get a third", 10000. / 3, 10000, false, 5 * alone, 7 * alone, 0.85},
		{"writers that get nothing to speak of", 100, 10000, false, 6 * alone, 15 * alone / 2, 0.8},
		{"writers that aren't disturbed", 9900, 10000, false, alone, 5 * alone / 4, 0.8},
		{"nobody writes", 0, 0, false, alone, alone, 0},
		{"nobody can tell", 3000, 10000, true, alone, alone, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			took, kept := copied(t, c.speed, c.alone, c.fails)
			if took < c.least || took > c.most || kept < c.kept {
				t.Errorf("took %v, writers keep %.2f", took, kept)
			}
		})
	}
}

// TestPaceOfBlockedWriters: those that wait for the copy's own lock aren't waited for.
func TestPaceOfBlockedWriters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		written := uint64(0)
		p := newPace(t.Context(), io.Discard, func() (uint64, error) { return written, nil })
		time.Sleep(paceRun)
		written += 1000 // and from now on no more
		begun := time.Now()
		if _, err := p.Write(nil); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > paceLook {
			t.Errorf("waited for %v", took)
		}
	})
}
