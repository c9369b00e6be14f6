package converge

import (
	"context"
	"fmt"
	"time"

	"steward/internal/cluster"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// fewerServe says how many nodes serve. Why not all of them is in the words of
// servers and of the host: that is for the operator's log, unless it is for the
// customer to mend.
func fewerServe(c cluster.Cluster, seen platform.Observed) string {
	text := fmt.Sprintf("The database takes writes, but only %d of %d nodes serve.", seen.Healthy, c.Size)
	if seen.CustomerProblem != "" {
		text += " " + seen.CustomerProblem
	}
	return text
}

// doesntServe says that a database is down, and why where the reason is in our
// own words.
func doesntServe(seen platform.Observed) string {
	if seen.Problem == platform.LostReason {
		return "The database doesn't serve: " + seen.Problem
	}
	return "The database doesn't serve. The operator's log tells why."
}

// problems are the reasons of what was seen, for the operator's log.
func problems(seen platform.Observed) []string {
	var all []string
	if seen.Problem != "" {
		all = append(all, seen.Problem)
	}
	for _, n := range seen.Nodes {
		if n.Problem != "" {
			all = append(all, fmt.Sprintf("node %d: %s", n.Ordinal, n.Problem))
		}
	}
	return all
}

// unfinishedTime is for how long a change of the primary isn't told of that goes on.
const unfinishedTime = 2 * time.Minute

// tellFailover tells once of changes of the primary: the row counts those that
// have been told of, and goes up in the transaction of the event.
func (r *repair) tellFailover(ctx context.Context) error {
	if r.seen.Failovers <= r.c.Failovers {
		return nil
	}
	if change := r.seen.LastChange; change.Unfinished() && r.Now().Sub(change.Began) < unfinishedTime {
		return nil // how long it took will be known
	}
	message, told := failoverMessage(r.seen.Failovers-r.c.Failovers, r.seen.FailoverReason), false
	err := r.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if told, err = tx.RecordFailovers(ctx, r.c, r.seen.Failovers); err != nil || !told {
			return err
		}
		return notifyOfChange(ctx, tx, r.c, r.seen.LastChange, message)
	})
	if err != nil {
		return fmt.Errorf("record a failover: %w", err)
	}
	r.c.Failovers = r.seen.Failovers
	if told {
		r.Logger.WarnContext(ctx, "the primary has changed", "cluster_id", int64(r.c.ID), "failovers", r.c.Failovers, "message", message)
	}
	return nil
}

// notifyOfChange tells of a change of the primary, with its nodes where they are known.
func notifyOfChange(ctx context.Context, tx *store.Tx, c cluster.Cluster, change cluster.PrimaryChange, message string) error {
	o := notification(c, operation.Failover, message)
	if change.From != change.To {
		o.Params.Primary = &change
	}
	_, err := tx.CreateOperation(ctx, o)
	return err
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
