package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine/pgbouncer"
	"steward/internal/failpoint"
	"steward/internal/platform/host/state"
	"steward/internal/wait"
)

// PgBouncer is told who may log in, and by which verifier, before they come. What customers change by SQL is looked for again
// and again; what they change by the API is told at once.

// lookAtUsers is how often it is looked who may log in.
const lookAtUsers = 3 * time.Second

// writeUsers writes who may log in for a pooler that isn't started yet. Without an answer of the primary it is who could last.
func (d *Driver) writeUsers(ctx context.Context, cs *clusterState, l *poolerLook) error {
	short, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	verifiers, err := l.eng.Verifiers(short, l.primary)
	if err != nil {
		verifiers = cs.pooler.users
		d.log.Warn("a pooler starts with the users that were known last", "cluster_id", cs.id, "error", err)
	}
	if err := d.putUsers(l, verifiers); err != nil {
		return err
	}
	if err := removeEnding(d.layout.poolerEnding(cs.id)); err != nil { // nobody has a session
		return err
	}
	cs.pooler.users, cs.pooler.usersTold = verifiers, true
	return nil
}

// syncUsers tells the pooler who may log in now, and ends the sessions of those in pools whose password is another, or who are no more.
func (d *Driver) syncUsers(ctx context.Context, cs *clusterState) error {
	ps := &cs.pooler
	if !ps.running() {
		return nil
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	l, err := d.newPoolerLook(ctx, cs)
	if err != nil || !ps.running() {
		return err
	}
	short, cancel := context.WithTimeout(ctx, inspectTime)
	defer cancel()
	verifiers, err := l.eng.Verifiers(short, l.primary)
	if err != nil {
		return err
	}
	if ps.users == nil { // another process wrote them, and may have ended before it told the pooler
		content, err := os.ReadFile(filepath.Join(l.conf.Keys, pgbouncer.UsersFile))
		if err != nil {
			return fmt.Errorf("read who may log in: %w", err)
		}
		ps.users, ps.usersTold = pgbouncer.ReadUsers(content), false
	}
	if ps.usersTold && maps.Equal(verifiers, ps.users) {
		return nil
	}
	ps.usersTold = false
	ending, err := noteEnding(d.layout.poolerEnding(cs.id), changedUsers(ps.users, verifiers))
	if err != nil {
		return err
	}
	if err := d.putUsers(l, verifiers); err != nil {
		return err
	}
	ps.users = verifiers
	failpoint.Here("host: before telling a pooler who may log in")
	if err := l.console.Reload(ctx); err != nil {
		return err
	}
	if err := l.endUsers(ctx, ending); err != nil {
		return err
	}
	if err := removeEnding(d.layout.poolerEnding(cs.id)); err != nil {
		return err
	}
	ps.usersTold = true
	return nil
}

// changedUsers are those who could log in before and can't now by the same verifier. Somebody who is new isn't one: nobody has a
// session of theirs that began with anything else.
func changedUsers(before, now map[string]string) []string {
	var changed []string
	for user, verifier := range before {
		if now[user] != verifier {
			changed = append(changed, user)
		}
	}
	return changed
}

// noteEnding adds users to those in a file whose sessions are still to be ended, and returns all of them.
func noteEnding(path string, users []string) ([]string, error) {
	ending, _, err := state.Read[[]string](path)
	if err != nil || len(users) == 0 {
		return ending, err
	}
	ending = append(ending, users...)
	slices.Sort(ending)
	ending = slices.Compact(ending)
	return ending, state.Write(path, ending)
}

func removeEnding(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forget whose sessions were to be ended: %w", err)
	}
	return nil
}

// endUsers ends the pools' sessions in which one of some users takes part. A pool's connections to the server are its users' by
// name: who came with an old password would go on with those that a new one opened. PgBouncer ends whole pools only; others
// connect again.
func (l *poolerLook) endUsers(ctx context.Context, ending []string) error {
	if len(ending) == 0 {
		return nil
	}
	users, err := l.console.Users(ctx)
	if err != nil {
		return err
	}
	for _, p := range l.rec.Pools {
		if slices.ContainsFunc(users[p.Label], func(user string) bool { return slices.Contains(ending, user) }) {
			if err := l.end(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// endOthers ends the sessions of pools that are one user's, in which others take part.
func (l *poolerLook) endOthers(ctx context.Context) error {
	users, err := l.console.Users(ctx)
	if err != nil {
		return err
	}
	for _, p := range l.rec.Pools {
		if p.User != "" && slices.ContainsFunc(users[p.Label], func(user string) bool { return user != p.User }) {
			if err := l.end(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// end ends all sessions of a pool, whose clients may come again.
func (l *poolerLook) end(ctx context.Context, p cluster.Pool) error {
	if err := l.console.Kill(ctx, p.Label); err != nil {
		return err
	}
	return l.console.Resume(ctx, p.Label)
}

// tellUsers is syncUsers after a change that the API was asked for, which is done whatever comes of this: keepUsers tries again.
func (d *Driver) tellUsers(ctx context.Context, id cluster.ID) {
	if err := d.syncUsers(ctx, d.clusterState(id)); err != nil {
		d.log.Warn("a pooler isn't told yet who may log in", "cluster_id", id, "error", err)
	}
}

// keepUsers looks again and again who may log in. A cluster that is being changed is left for the next time.
func (d *Driver) keepUsers() {
	for wait.Sleep(d.quit, lookAtUsers) == nil {
		for _, cs := range d.all() {
			if !cs.pooler.running() {
				continue
			}
			ctx, unlock, ok := cs.tryAcquire(d.quit)
			if !ok {
				continue
			}
			d.spawn(func() {
				defer unlock()
				short, cancel := context.WithTimeout(ctx, inspectTime)
				defer cancel()
				if err := d.syncUsers(short, cs); err != nil && d.quit.Err() == nil {
					d.log.Warn("a pooler isn't told who may log in", "cluster_id", cs.id, "error", err)
				}
			})
		}
	}
}
