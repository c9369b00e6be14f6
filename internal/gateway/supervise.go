package gateway

import (
	"context"
	"time"

	"steward/internal/process"
)

// upkeepEvery is how often it is looked whether HAProxy answers, and whether older
// generations have any sessions left.
const upkeepEvery = 30 * time.Second

// supervisor restarts HAProxy when it dies.
func (g *Gateway) supervisor() *process.Supervisor {
	return &process.Supervisor{
		Name: "HAProxy", Logger: g.log, Ended: g.died, Restart: g.restart,
		Output: g.outputFile(), OutputMost: outputMost, OutputKeep: outputKeep, OutputEvery: upkeepEvery,
	}
}

// upkeep keeps spare ports, and what runs as it should be.
func (g *Gateway) upkeep(ctx context.Context) {
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.nudge:
			g.keepSpare(ctx)
		case <-tick.C:
			if err := g.Ensure(ctx); err != nil && ctx.Err() == nil {
				g.log.Error("HAProxy can't be restarted", "error", err)
			}
			g.settleRest(ctx)
			g.endDrained(ctx)
		}
	}
}

// died is closed when the current HAProxy has ended, or there is none.
func (g *Gateway) died() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return g.current.process.Done()
}

func (g *Gateway) restart(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ready(ctx)
}

// unavailable reports whether a database that comes can't have the port at once.
func (g *Gateway) unavailable(port int) bool { return g.routed(port) || !g.current.serves(port) }

// keepSpare makes another block of frontends when few are left.
func (g *Gateway) keepSpare(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current == nil || !g.current.process.Running() || g.slots >= growSlots(g.o.Ports[0], g.total(), g.slots, g.unavailable) {
		return
	}
	if err := g.replace(ctx); err != nil && ctx.Err() == nil {
		g.log.Error("no more ports can be made", "error", err)
	}
}

// settleRest brings routes into force that HAProxy didn't take when they were set.
func (g *Gateway) settleRest(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for port := range g.routes {
		if g.settled[port] {
			continue
		}
		if err := g.settle(ctx, port); err != nil && ctx.Err() == nil {
			g.log.Warn("a route isn't in force yet", "port", port, "error", err)
		}
	}
}

// endDrained ends older generations without sessions.
func (g *Gateway) endDrained(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, i := range g.older {
		counts := map[int]Count{}
		if err := g.count(ctx, i, counts); err != nil || len(counts) > 0 {
			continue
		}
		if err := g.end(i); err != nil && ctx.Err() == nil {
			g.log.Warn("old HAProxy can't be ended", "pid", i.process.Pid(), "error", err)
		}
	}
	if err := g.drainOlder(ctx); err != nil && ctx.Err() == nil {
		g.log.Warn("old HAProxy can't be drained", "error", err)
	}
}

func (g *Gateway) wake() {
	select {
	case g.nudge <- struct{}{}:
	default:
	}
}
