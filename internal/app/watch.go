package app

import (
	"context"
	"fmt"

	"steward/internal/monitor"
	"steward/internal/outage"
	"steward/internal/watch"
)

// issueTracker opens and closes issues, and has contacts and the operator's channels told.
func (a *App) issueTracker() outage.IssueTracker {
	return outage.IssueTracker{Channels: a.o.Notify.ChannelNames(), Maintenance: a.o.Maintenance.Notify}
}

// openWatch makes what checks the services.
func (a *App) openWatch(context.Context) error {
	canaries, err := a.o.Monitor.CanaryTargets()
	if err != nil {
		return fmt.Errorf("monitor.canaries: %w", err)
	}
	rules := monitor.DefaultRules()
	rules.Confirm = a.o.Monitor.ConfirmAfter
	a.watcher = watch.New(watch.Options{
		Store: a.store, Prober: a.prober, Issues: a.issueTracker(), Logger: a.log,
		Interval: a.o.Monitor.Interval, Rules: rules, Canaries: canaries,
	})
	return nil
}
