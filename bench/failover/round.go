package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"steward/bench/command"
)

const (
	// inFlight is how long answers may still come that were on their way when the
	// fault struck; only later ones tell that the endpoint serves again.
	inFlight = 500 * time.Millisecond
	// tailLoad is how long the load goes on once all is well.
	tailLoad = 500 * time.Millisecond
)

// Round is what one fault came to.
type Round struct {
	Gap        time.Duration  `json:"gap_ns"`
	Healthy    time.Duration  `json:"healthy_ns"` // from the fault on
	Acked      int            `json:"acknowledged"`
	Lost       int            `json:"lost"`
	Duplicates int            `json:"duplicates"`
	Stale      int            `json:"stale_writes"`         // taken by the thawed former primary
	StaleSaid  string         `json:"stale_said,omitempty"` // its last refusal
	Errors     map[string]int `json:"other_errors,omitempty"`
}

// series is rounds of one fault on one target.
type series struct {
	target   Target
	fault    fault
	settings settings
	rounds   int
	kept     []ack // of all rounds so far, less those found lost
}

// one does one round on a healthy cluster.
func (s *series) one(ctx context.Context) (r Round, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.settings.deadline, fmt.Errorf("a round's %v are over", s.settings.deadline))
	defer cancel()
	if _, err := awaitHealthy(ctx, s.target); err != nil {
		return r, err
	}
	s.rounds++
	l, err := startLoad(ctx, s.target.Endpoint(), s.rounds, s.settings.writers, s.settings.timeout)
	if err != nil {
		return r, err
	}
	defer l.stop()
	if err := warmUp(ctx, l, s.settings.warm); err != nil {
		return r, err
	}
	at, healthy, err := s.strike(ctx, l, &r)
	if at.IsZero() {
		return r, err
	}
	command.Sleep(ctx, tailLoad)
	end := time.Now()
	l.stop()
	if err != nil {
		healthy = end // it isn't: at least so long
	}
	acks := l.acks()
	r.Gap, r.Healthy, r.Acked, r.Errors = longestGap(acks, at, end), healthy.Sub(at), len(acks), l.otherErrors()
	return r, errors.Join(err, s.judge(ctx, acks, &r))
}

func warmUp(ctx context.Context, l *load, warm time.Duration) error {
	err := command.Until(ctx, 10*time.Millisecond, func() error {
		if !l.everyAfter(time.Time{}) {
			return errors.New("not every writer was answered")
		}
		return nil
	})
	command.Sleep(ctx, warm)
	return err
}

// strike injects the fault, sees it through and tells when it was, zero when it
// wasn't, and when the cluster was whole again.
func (s *series) strike(ctx context.Context, l *load, r *Round) (at, healthy time.Time, err error) {
	hit, err := s.target.Primary(ctx)
	if err != nil {
		return at, healthy, fmt.Errorf("find the primary: %w", err)
	}
	begun := time.Now()
	frozen, err := s.fault.inject(ctx, s.target, hit)
	defer thaw(frozen)
	if err != nil {
		return at, healthy, fmt.Errorf("%s: %w", s.fault, err)
	}
	at = begun
	if s.fault.kind != switchover {
		// A removal takes a while, and some writes go well meanwhile.
		if err := resumed(ctx, l, time.Now()); err != nil {
			return at, healthy, err
		}
	}
	if len(frozen) > 0 {
		thaw(frozen)
		if err := s.tempt(ctx, hit, r); err != nil {
			return at, healthy, err
		}
	}
	if err := s.target.Restart(ctx, hit); err != nil {
		return at, healthy, fmt.Errorf("restart: %w", err)
	}
	if healthy, err = awaitHealthy(ctx, s.target); err != nil {
		return at, healthy, err
	}
	now, err := s.target.Primary(ctx)
	if err != nil {
		return at, healthy, fmt.Errorf("find the primary afterwards: %w", err)
	}
	if err := s.fault.happened(s.settings.size, hit, now); err != nil {
		return at, healthy, fmt.Errorf("the %s didn't happen: %w", s.fault, err)
	}
	return at, healthy, nil
}

// resumed returns once a write was acknowledged that isn't an answer to one from before the fault.
func resumed(ctx context.Context, l *load, struck time.Time) error {
	err := command.Until(ctx, 5*time.Millisecond, func() error {
		if !l.anyAfter(struck.Add(inFlight)) {
			return errors.New("no write was acknowledged")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("not served again in time: %w", err)
	}
	return nil
}

// tempt writes to the thawed node, unless it is the primary still.
func (s *series) tempt(ctx context.Context, hit Node, r *Round) (err error) {
	now, err := s.target.Primary(ctx)
	if err == nil && now.Address == hit.Address {
		r.StaleSaid = "it is the primary"
		return nil
	}
	r.Stale, r.StaleSaid, err = tempt(ctx, s.target.Endpoint(), hit, s.rounds)
	return err
}

// judge looks for this round's rows, and for earlier rounds' again: a failover
// can lose what an earlier one kept.
func (s *series) judge(ctx context.Context, acks []ack, r *Round) error {
	// What a cluster that never recovered has lost is worth knowing too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	found, err := s.target.Endpoint().rows(ctx)
	if err != nil {
		return err
	}
	s.kept = append(s.kept, acks...)
	v := check(s.kept, found)
	r.Lost, r.Duplicates = len(v.lost), v.duplicates
	s.kept = slices.DeleteFunc(s.kept, func(a ack) bool { return found[a.row] == 0 }) // told once
	return nil
}
