package host

import (
	"context"
	"errors"

	"steward/internal/engine"
	"steward/internal/platform"
)

// checkStoppable returns why a running server must not be stopped: it could not be started again.
func (nr *nodeReconciler) checkStoppable() error { return customerError(nr.eng.CheckNames(nr.node)) }

// checkStoppable checks the primary before customers are turned away, who have to log
// in to mend it.
func (cr *clusterReconciler) checkStoppable(ctx context.Context) error {
	nr, err := cr.nodeReconciler(ctx, cr.top.Primary)
	if err != nil || !nr.ns.running() {
		return err
	}
	return nr.checkStoppable()
}

// customerError makes an engine's ReservedNameError a CustomerError of the platform's.
func customerError(err error) error {
	if h, ok := errors.AsType[*engine.ReservedNameError](err); ok {
		return &platform.CustomerError{Reason: h.Error()}
	}
	return err
}
