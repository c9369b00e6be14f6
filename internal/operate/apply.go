package operate

import "context"

// apply brings the cluster to what its row says, which is all there is to
// creating, resizing and changing the allow_list.
func (w *work) apply(ctx context.Context) error {
	want, err := w.wanted(false)
	if err != nil {
		return err
	}
	seen, err := w.settle(ctx, want)
	if err != nil {
		return err
	}
	return w.finish(ctx, seen)
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
