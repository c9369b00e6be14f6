package operate

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/cluster"
	"steward/internal/platform"
)

// apply brings the cluster to what its row says, which is all there is to
// creating, resizing and changing the allow_list.
func (w *work) apply(ctx context.Context) error {
	want, err := w.wanted(false)
	if err != nil {
		return err
	}
	if err := w.fits(ctx, want); err != nil {
		return err
	}
	seen, err := w.settle(ctx, want)
	if err != nil {
		return err
	}
	return w.finish(ctx, seen)
}

// fits is nil unless the data, which may have grown since the request was accepted, has no room in a plan with less disk.
func (w *work) fits(ctx context.Context, want platform.Wanted) error {
	before, known := w.Catalog.Plan(w.op.Params.OldType)
	if !known || want.Plan.DiskMB >= before.DiskMB {
		return nil
	}
	seen, err := w.Driver.Observe(ctx, w.c.ID)
	if err != nil {
		return fmt.Errorf("look how much disk the data takes: %w", err)
	}
	if seen.UsedBytes != nil && !want.Plan.HasRoomFor(*seen.UsedBytes) {
		return &impossible{reason: "It was left as it is: " + want.Plan.NoRoom(*seen.UsedBytes) + "."}
	}
	return nil
}

// restart has each server started anew, once.
func (w *work) restart(ctx context.Context) error {
	want, err := w.wanted(false)
	if err != nil {
		return err
	}
	want.Restart = int64(w.op.ID)
	seen, err := w.settle(ctx, want)
	if err != nil {
		return err
	}
	return w.finish(ctx, seen)
}

// switchOver has another node become the primary than the one that is it at the first attempt.
func (w *work) switchOver(ctx context.Context) error {
	want, err := w.wanted(false)
	if err != nil {
		return err
	}
	if err := w.noteFrom(ctx); err != nil {
		return err
	}
	want.Switchover = w.op.Params.From
	seen, err := w.settle(ctx, want)
	if err != nil {
		return err
	}
	return w.finish(ctx, seen)
}

// noteFrom keeps which node is the primary at first, so that who goes on doesn't switch back.
func (w *work) noteFrom(ctx context.Context) error {
	if w.op.Params.From != nil {
		return nil
	}
	seen, err := w.Driver.Observe(ctx, w.c.ID)
	if err != nil {
		return fmt.Errorf("look which node is the primary: %w", err)
	}
	for _, n := range seen.Nodes {
		if n.Role == cluster.Primary {
			w.op.Params.From = &n.Ordinal
			return w.Store.SaveParams(ctx, w.op.ID, w.op.Params)
		}
	}
	return errors.New("no node is the primary")
}
