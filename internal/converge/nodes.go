package converge

import (
	"context"
	"fmt"
	"strings"

	"steward/internal/cluster"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// fewerServe says how many nodes serve, and why not all of them.
func fewerServe(c cluster.Cluster, seen platform.Observed) string {
	var why []string
	for _, n := range seen.Nodes {
		if n.Problem != "" {
			why = append(why, n.Problem)
		}
	}
	if len(why) == 0 && seen.Problem != "" {
		why = []string{seen.Problem}
	}
	text := fmt.Sprintf("The database takes writes, but only %d of %d nodes serve", seen.Healthy, c.Size)
	if len(why) == 0 {
		return text + "."
	}
	return text + ": " + strings.TrimSuffix(strings.Join(why, "; "), ".") + "."
}

// tellFailover tells once of changes of the primary: the row counts those that
// have been told of, and goes up in the transaction of the event.
func (a *attendance) tellFailover(ctx context.Context) error {
	if a.seen.Failovers <= a.c.Failovers {
		return nil
	}
	message, told := failoverMessage(a.seen.Failovers-a.c.Failovers, a.seen.FailoverReason), false
	err := a.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if told, err = tx.RecordFailovers(ctx, a.c, a.seen.Failovers); err != nil || !told {
			return err
		}
		return notify(ctx, tx, a.c, operation.Failover, message)
	})
	if err != nil {
		return fmt.Errorf("record a failover: %w", err)
	}
	a.c.Failovers = a.seen.Failovers
	if told {
		a.Logger.WarnContext(ctx, "the primary has changed", "cluster_id", int64(a.c.ID), "failovers", a.c.Failovers, "message", message)
	}
	return nil
}

func failoverMessage(changes int, reason string) string {
	if reason == "" {
		reason = "Another node has taken over as primary."
	}
	if changes > 1 {
		return fmt.Sprintf("The primary changed %d times. The last time: %s", changes, reason)
	}
	return reason
}
