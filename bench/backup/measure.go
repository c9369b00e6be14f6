package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/bench/command"
)

// Target is a way to back a server up, and the server.
type Target interface {
	Name() string
	// Server is where the data is; some targets share one.
	Server() Server
	// Backup takes a backup, complete and on the disk when it returns.
	Backup(ctx context.Context) error
	// Stored is how large the last backup is.
	Stored() (int64, error)
	// Restore restores the last backup; when it returns, a query was answered.
	Restore(ctx context.Context) error
	// Restored is the server that Restore made, until it is tidied.
	Restored() Server
	// Tidy undoes what is left of a restore.
	Tidy() error
	// CPU is the processor time used so far, in seconds, by the server and all that
	// takes part in a backup or a restore.
	CPU() float64
	// Peak is the most memory of the process that is meant to be small since the
	// last call; 0 when there is none.
	Peak() int64
	Close() error
}

// measure loads one engine's data and measures all that there is to measure.
func (s settings) measure(ctx context.Context, engine string) (results []Result, err error) {
	if s.atOnce > 1 {
		return s.crowd(ctx, engine)
	}
	targets, err := s.startFilled(ctx, engine)
	defer closeAll(targets, &err)
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		results = append(results, Result{Target: t.Name(), Engine: engine, Bytes: t.bytes})
	}
	each := func(do func(Target, *Result) error) error {
		for i, t := range targets {
			if err := do(t, &results[i]); err != nil {
				return fmt.Errorf("%s: %w", t.Name(), err)
			}
		}
		return ctx.Err()
	}
	for range s.rounds {
		if err := each(func(t Target, r *Result) error { return s.backUp(ctx, t, r) }); err != nil {
			return results, err
		}
	}
	for range s.rounds {
		if s.writers == 0 {
			break
		}
		if err := each(func(t Target, r *Result) error { return s.backUpUnderLoad(ctx, t, r) }); err != nil {
			return results, err
		}
	}
	for range s.rounds {
		if !s.restores {
			break
		}
		if err := each(func(t Target, r *Result) error { return s.restore(ctx, t, r) }); err != nil {
			return results, err
		}
	}
	return results, nil
}

// filled is a target with data in it.
type filled struct {
	Target
	bytes int64
}

// startFilled starts all targets of an engine and fills them. Those it started are
// returned with an error, too.
func (s settings) startFilled(ctx context.Context, engine string) ([]filled, error) {
	targets, err := s.start(ctx, engine)
	all := make([]filled, len(targets))
	for i, t := range targets {
		all[i].Target = t
	}
	if err != nil {
		return all, err
	}
	if err := s.fill(ctx, engine, targets); err != nil {
		return all, err
	}
	for i, t := range all {
		if all[i].bytes, err = t.Server().size(ctx); err != nil {
			return all, err
		}
	}
	return all, nil
}

// closeAll closes targets and joins what went wrong to err.
func closeAll(targets []filled, err *error) {
	for _, t := range targets {
		*err = errors.Join(*err, t.Close())
	}
}

// start starts all targets of an engine.
func (s settings) start(ctx context.Context, engine string) (targets []Target, err error) {
	var hand *hand
	switch engine {
	case "postgresql/15":
		hand, err = startPostgreSQL(ctx)
	case "mysql/10.11":
		hand, err = startMariaDB(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("start the floor: %w", err)
	}
	if hand != nil {
		targets = append(targets, hand)
	}
	product, err := startSteward(engine, s.plan, s.s3)
	if err != nil {
		return targets, err
	}
	targets = append(targets, product)
	if s.peers && engine == "postgresql/15" {
		peer, err := newPgBackRest(ctx, hand)
		if err != nil {
			return targets, err
		}
		targets = append(targets, peer)
	}
	return targets, nil
}

// fill gives each server the same data; the peer has the floor's.
func (s settings) fill(ctx context.Context, engine string, targets []Target) error {
	for _, t := range targets {
		if _, shares := t.(*pgBackRest); shares {
			continue
		}
		begun := time.Now()
		if err := fill(ctx, t.Server(), s.gigabytes); err != nil {
			return fmt.Errorf("fill the server of %s: %w", t.Name(), err)
		}
		progress("%s: server of %s filled in %v", engine, t.Name(), time.Since(begun).Round(time.Second))
	}
	return nil
}

// timed is what one run of a step took.
func (s settings) timed(ctx context.Context, t Target, step func(context.Context) error) (Run, error) {
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	t.Peak()
	cpu, begun := t.CPU(), time.Now()
	if err := step(ctx); err != nil {
		return Run{}, err
	}
	wall := time.Since(begun)
	return Run{Wall: wall.Seconds(), CPU: t.CPU() - cpu, Peak: t.Peak()}, nil
}

func (s settings) backUp(ctx context.Context, t Target, r *Result) error {
	if err := t.Server().quiet(ctx); err != nil {
		return err
	}
	one, err := s.timed(ctx, t, t.Backup)
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	r.Backups = append(r.Backups, one)
	if r.Stored, err = t.Stored(); err != nil {
		return err
	}
	progress("%s %s: backup %s, %d MB", r.Engine, r.Target, one, r.Stored/1e6)
	return nil
}

func (s settings) restore(ctx context.Context, t Target, r *Result) error {
	p, err := newProof(ctx, t.Server())
	if err != nil {
		return err
	}
	one, err := s.timed(ctx, t, t.Restore)
	if err == nil {
		err = p.restored(ctx, t.Restored())
	}
	if err == nil {
		err = t.Tidy()
	}
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	r.Restores = append(r.Restores, one)
	progress("%s %s: restore %s", r.Engine, r.Target, one)
	return nil
}

// backUpUnderLoad counts what writers get written before, while and after a
// backup is taken.
func (s settings) backUpUnderLoad(ctx context.Context, t Target, r *Result) error {
	if err := t.Server().quiet(ctx); err != nil {
		return err
	}
	w, err := startWriters(ctx, t.Server(), s.writers)
	if err != nil {
		return err
	}
	defer func() { _ = w.stop() }() // who got there has been told
	command.Sleep(ctx, s.load/2)    // caches
	before := w.during(func() { command.Sleep(ctx, s.load) })
	var one Run
	during := w.during(func() { one, err = s.timed(ctx, t, t.Backup) })
	if err != nil {
		return fmt.Errorf("back up under load: %w", err)
	}
	after := w.during(func() { command.Sleep(ctx, s.load) })
	if failed := w.stop(); failed != nil {
		return failed
	}
	l := Load{Before: before, During: during, After: after, Backup: one, Kept: 2 * during / (before + after)}
	r.Loads = append(r.Loads, l)
	progress("%s %s: %.0f writes a second, %.0f during a backup of %.1f s, %.0f after: %.2f", r.Engine, r.Target, before, during, one.Wall, after, l.Kept)
	return ctx.Err()
}
