package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"steward/test/harness"
)

// crowd measures what memory steward takes for several backups at once, and then
// as many restores: of databases of the size given, each with data of its own.
func (s settings) crowd(ctx context.Context, engine string) (results []Result, err error) {
	first, err := startSteward(engine, s.plan, s.s3)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, first.Close()) }()
	all := []*steward{first}
	for i := 1; i < s.atOnce; i++ {
		next, err := first.another(i, engine, s.plan)
		if err != nil {
			return nil, err
		}
		all = append(all, next)
	}
	r := Result{Target: fmt.Sprintf("steward, %d at once", s.atOnce), Engine: engine}
	for _, t := range all {
		if err := fill(ctx, t, s.gigabytes); err != nil {
			return nil, err
		}
		bytes, err := t.size(ctx)
		if err != nil {
			return nil, err
		}
		r.Bytes += bytes
	}
	progress("%s: %d databases filled", engine, len(all))
	for range s.rounds {
		one, err := s.timed(ctx, first, together(all, (*steward).Backup))
		if err != nil {
			return nil, fmt.Errorf("back up: %w", err)
		}
		r.Backups = append(r.Backups, one)
		progress("%s %s: backups %s", engine, r.Target, one)
		if !s.restores {
			continue
		}
		if one, err = s.restoreAll(ctx, all); err != nil {
			return nil, fmt.Errorf("restore: %w", err)
		}
		r.Restores = append(r.Restores, one)
		progress("%s %s: restores %s", engine, r.Target, one)
	}
	for _, t := range all {
		stored, err := t.Stored()
		if err != nil {
			return nil, err
		}
		r.Stored += stored
	}
	return []Result{r}, nil
}

// restoreAll restores all at once, and sees that it was done.
func (s settings) restoreAll(ctx context.Context, all []*steward) (one Run, err error) {
	proofs := make([]proof, len(all))
	for i, t := range all {
		if proofs[i], err = newProof(ctx, t); err != nil {
			return one, err
		}
	}
	if one, err = s.timed(ctx, all[0], together(all, (*steward).Restore)); err != nil {
		return one, err
	}
	for i, t := range all {
		if err := proofs[i].restored(ctx, t); err != nil {
			return one, err
		}
	}
	return one, nil
}

// another is a further database behind the same server, which isn't its to close.
func (s *steward) another(i int, engine, plan string) (*steward, error) {
	next := &steward{test: s.test, server: s.server}
	err := harness.Attempt(func() {
		spec := harness.Small(fmt.Sprintf("backup-%d", i), engine)
		spec["type"] = plan
		next.database = s.server.CreateActive(spec)
		next.credentials = s.server.Credentials(next.database)
	})
	return next, err
}

// together does something with all at once.
func together(all []*steward, do func(*steward, context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		errs := make([]error, len(all))
		var wg sync.WaitGroup
		for i, t := range all {
			wg.Go(func() { errs[i] = do(t, ctx) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}
}
