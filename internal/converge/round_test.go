package converge

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/cluster"
)

// ward is a round over databases that only count who looked at them.
type ward struct {
	mu      sync.Mutex
	ids     []cluster.ID
	fail    bool
	looks   map[cluster.ID]int
	at      map[cluster.ID]time.Time
	most    int
	now     int
	takes   time.Duration
	wait    time.Duration
	changes chan cluster.ID
}

func (w *ward) list(context.Context) ([]cluster.ID, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail {
		return nil, errors.New("the store is away")
	}
	return append([]cluster.ID{}, w.ids...), nil
}

func (w *ward) look(_ context.Context, id cluster.ID, p target) (target, time.Duration) {
	w.mu.Lock()
	w.looks[id]++
	w.at[id] = time.Now()
	w.now++
	w.most = max(w.most, w.now)
	w.mu.Unlock()
	time.Sleep(w.takes)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now--
	p.tries++
	return p, w.wait
}

func (w *ward) count(id cluster.ID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks[id]
}

// start runs a round in a bubble of its own time until the test's function returns.
func start(t *testing.T, w *ward, f func()) {
	synctest.Test(t, func(t *testing.T) {
		w.looks, w.at, w.changes = map[cluster.ID]int{}, map[cluster.ID]time.Time{}, make(chan cluster.ID)
		if w.wait == 0 {
			w.wait = 20 * time.Second
		}
		ctx, cancel := context.WithCancel(t.Context())
		r := &round{
			every: 20 * time.Second, slots: 4, changes: w.changes, list: w.list, look: w.look,
			ended: make(chan result), targets: map[cluster.ID]*target{},
		}
		ended := make(chan struct{})
		go func() { r.run(ctx); close(ended) }()
		synctest.Wait()
		f()
		cancel()
		<-ended
	})
}

func TestEveryDatabaseIsLookedAtAtStartAndThenNowAndThen(t *testing.T) {
	t.Parallel()
	w := &ward{}
	for id := range cluster.ID(10) {
		w.ids = append(w.ids, id)
	}
	start(t, w, func() {
		for _, id := range w.ids {
			if n := w.count(id); n != 1 {
				t.Errorf("database %d: %d looks at start", id, n)
			}
		}
		time.Sleep(time.Hour + time.Second)
		for _, id := range w.ids {
			if n := w.count(id); n < 175 || n > 182 {
				t.Errorf("database %d: %d looks in an hour", id, n)
			}
		}
	})
}

func TestAChangeIsLookedAtAtOnce(t *testing.T) {
	t.Parallel()
	w := &ward{ids: []cluster.ID{1, 2}}
	start(t, w, func() {
		time.Sleep(time.Second)
		w.changes <- 2
		synctest.Wait()
		if w.count(1) != 1 || w.count(2) != 2 {
			t.Errorf("looks: %v", w.looks)
		}
	})
}

func TestAChangeDuringALookIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	w := &ward{ids: []cluster.ID{1}, takes: 3 * time.Second}
	start(t, w, func() {
		time.Sleep(time.Second)
		w.changes <- 1
		w.changes <- 1
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := w.count(1); n != 2 {
			t.Errorf("%d looks", n)
		}
		time.Sleep(10 * time.Second)
		if n := w.count(1); n != 2 {
			t.Errorf("%d looks: two changes during one look are one more look", n)
		}
	})
}

func TestANewDatabaseThatChangesIsFoundAtOnce(t *testing.T) {
	t.Parallel()
	w := &ward{ids: []cluster.ID{1}}
	start(t, w, func() {
		w.mu.Lock()
		w.ids = append(w.ids, 7)
		w.mu.Unlock()
		time.Sleep(time.Second)
		w.changes <- 7
		synctest.Wait()
		if w.count(7) != 1 {
			t.Errorf("looks: %v", w.looks)
		}
	})
}

func TestARemovedDatabaseIsForgotten(t *testing.T) {
	t.Parallel()
	w := &ward{ids: []cluster.ID{1, 2}}
	start(t, w, func() {
		w.mu.Lock()
		w.ids = w.ids[:1]
		w.mu.Unlock()
		time.Sleep(21 * time.Second)
		before := w.count(2)
		time.Sleep(5 * time.Minute)
		if w.count(2) != before || w.count(1) < 10 {
			t.Errorf("looks: %v", w.looks)
		}
	})
}

func TestFewLooksAtTheSameTimeAndNobodyStarves(t *testing.T) {
	t.Parallel()
	w := &ward{takes: time.Second}
	for id := range cluster.ID(50) {
		w.ids = append(w.ids, id)
	}
	start(t, w, func() {
		time.Sleep(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.most != 4 {
			t.Errorf("%d looks at the same time", w.most)
		}
		for _, id := range w.ids {
			if w.looks[id] < 2 {
				t.Errorf("database %d: %d looks in a minute", id, w.looks[id])
			}
		}
	})
}

func TestAStoreThatIsAwayIsAskedAgainSoon(t *testing.T) {
	t.Parallel()
	w := &ward{ids: []cluster.ID{1}, fail: true}
	start(t, w, func() {
		time.Sleep(30 * time.Second)
		if n := w.count(1); n != 0 {
			t.Fatalf("%d looks", n)
		}
		w.mu.Lock()
		w.fail = false
		w.mu.Unlock()
		time.Sleep(1100 * time.Millisecond)
		if n := w.count(1); n != 1 {
			t.Errorf("%d looks", n)
		}
	})
}

func TestALookSaysWhenTheNextIs(t *testing.T) {
	t.Parallel()
	w := &ward{ids: []cluster.ID{1}, wait: 250 * time.Millisecond}
	start(t, w, func() {
		time.Sleep(10*time.Second + time.Millisecond)
		if n := w.count(1); n != 41 {
			t.Errorf("%d looks in ten seconds", n)
		}
	})
}
