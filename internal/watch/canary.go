package watch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"steward/internal/monitor"
	"steward/internal/probe"
)

// canary knows whether this server can reach the world at all.
type canary struct {
	prober  Prober
	targets []probe.Target
	log     *slog.Logger

	mu     sync.Mutex
	asked  time.Time
	silent bool
}

// canaryFresh is how long an answer holds: less than the time between the looks
// that confirm an outage.
const canaryFresh = time.Second

// healthy reports whether a canary answers, or there are none to ask. Many may
// ask at once: one looks, the others wait for it.
func (c *canary) healthy(ctx context.Context) bool {
	if len(c.targets) == 0 {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.asked) < canaryFresh {
		return !c.silent
	}
	silent := !c.ask(ctx)
	if silent != c.silent {
		if silent {
			c.log.Error("No canary answers: checks that fail say nothing until one does. Look after this server's network.", "canaries", len(c.targets))
		} else {
			c.log.Info("Canaries answer again.")
		}
	}
	c.silent, c.asked = silent, time.Now()
	return !silent
}

func (c *canary) ask(ctx context.Context) bool {
	results := make(chan monitor.Result, len(c.targets))
	for _, t := range c.targets {
		go func() { results <- c.prober.Check(ctx, t) }()
	}
	for range c.targets {
		if r := <-results; r.Good() {
			return true
		}
	}
	return false
}
