package host

import (
	"context"
	"errors"

	"steward/internal/engine"
	"steward/internal/platform"
)

// hindered says why a running server must not be stopped: it couldn't be started again.
func (j *job) hindered() error { return asHindrance(j.eng.Hindrance(j.node)) }

// hindered says so of the primary, before customers are turned away, who have to
// come in to mend it.
func (p *pass) hindered(ctx context.Context) error {
	j, err := p.job(ctx, p.top.Primary)
	if err != nil || !j.m.running() {
		return err
	}
	return j.hindered()
}

// asHindrance makes an engine's hindrance one of the platform's.
func asHindrance(err error) error {
	if h, ok := errors.AsType[*engine.Hindrance](err); ok {
		return &platform.Hindrance{Reason: h.Error()}
	}
	return err
}
