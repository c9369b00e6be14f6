package regions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"steward/internal/catalog"
	"steward/internal/platform"
	"steward/internal/wait"
)

const (
	// openTime bounds an attempt to connect, and checkTime the question whether a platform is still there.
	openTime  = 30 * time.Second
	checkTime = 5 * time.Second
	// firstRetry doubles to Options.Every with each attempt in vain.
	firstRetry = time.Second
)

// errNotYet is why a region is away at first.
var errNotYet = errors.New("it hasn't been reached yet")

// remote is a region with a platform of its own.
type remote struct {
	Region
	every time.Duration
	log   *slog.Logger
	// looked is closed after the first attempt.
	looked chan struct{}

	mu sync.Mutex
	// driver is nil before it was reached for the first time.
	driver Driver
	away   error
	since  time.Time
}

// run connects and goes on looking until ctx ends. opened is called once.
func (m *remote) run(ctx context.Context, opened func(Driver)) {
	retry := min(firstRetry, m.every)
	for first := true; ctx.Err() == nil; first = false {
		err := m.attempt(ctx, opened)
		if ctx.Err() != nil {
			return // nobody wants to know any more
		}
		m.note(err, first)
		if first {
			close(m.looked)
		}
		pause := m.every
		if err == nil {
			retry = min(firstRetry, m.every)
		} else {
			pause, retry = retry, min(2*retry, m.every)
		}
		_ = wait.Sleep(ctx, pause) // the loop sees ctx end
	}
}

// attempt connects, or looks whether that still holds.
func (m *remote) attempt(ctx context.Context, opened func(Driver)) error {
	m.mu.Lock()
	d := m.driver
	m.mu.Unlock()
	if d != nil {
		ctx, cancel := context.WithTimeout(ctx, checkTime)
		defer cancel()
		return d.Check(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	d, err := m.Open(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.driver = d
	m.mu.Unlock()
	opened(d)
	return nil
}

// note keeps what came of an attempt, and tells of changes.
func (m *remote) note(err error, first bool) {
	m.mu.Lock()
	before := m.away
	m.away = err
	changed := (before == nil) != (err == nil)
	if changed || first {
		m.since = time.Now()
	}
	lasted := time.Since(m.since)
	m.mu.Unlock()
	switch {
	case err != nil && (changed || first || before.Error() != err.Error()):
		m.log.Warn("the region is degraded: it can't be reached; it is tried again", "for", lasted.Round(time.Second), "error", err)
	case err == nil && changed:
		m.log.Info("the region can be reached")
	}
}

func (m *remote) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.driver != nil {
		m.driver.Close()
	}
}

func (m *remote) state() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return State{Region: m.ID, Away: m.away, Since: m.since}
}

func (m *remote) abilities() catalog.Abilities {
	m.mu.Lock()
	d, away := m.driver, m.away
	m.mu.Unlock()
	var can catalog.Abilities
	if d != nil {
		can = d.Abilities()
	}
	if away != nil {
		can.Away = fmt.Sprintf("The region %s can't be reached now; try again later", m.ID)
	}
	return can
}

// forLooks is the platform as soon as it was reached once: what was seen of it, and its servers, tell more than nothing.
func (m *remote) forLooks() (platform.Driver, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.driver == nil {
		return nil, m.gone()
	}
	return m.driver, nil
}

// forChanges is the platform while it can be reached: who would change something doesn't wait for it in vain.
func (m *remote) forChanges() (platform.Driver, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.driver == nil || m.away != nil {
		return nil, m.gone()
	}
	return m.driver, nil
}

func (m *remote) gone() error {
	return fmt.Errorf("region %s: %w: %w", m.ID, platform.ErrAway, m.away)
}
