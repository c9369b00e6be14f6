package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"steward/internal/failpoint"
	"steward/internal/platform"
)

// rebuildTime bounds the copying of a primary's data to a replica.
const rebuildTime = 6 * time.Hour

func (m *member) isRebuilding() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rebuilding
}

func (m *member) isDiverged() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.diverged
}

// rebuild has a replica given a new copy of the data, unless no server could be
// started with such a copy.
func (p *pass) rebuild(ctx context.Context, m *member, reason string) error {
	if m.isRebuilding() {
		return p.d.beginRebuild(p.u, m, p.want, reason)
	}
	err := p.hindered(ctx)
	hindrance, _ := errors.AsType[*platform.Hindrance](err)
	m.setHindrance(hindrance)
	if err != nil {
		return fmt.Errorf("node %d isn't given a new copy of the data, though %s: %w", m.ordinal, reason, err)
	}
	return p.d.beginRebuild(p.u, m, p.want, reason)
}

func (m *member) setHindrance(h *platform.Hindrance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hindrance = ""
	if h != nil {
		m.hindrance = h.Reason
	}
}

func (m *member) whatHinders() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hindrance
}

// beginRebuild begins to give a replica a new copy of the data, beside
// everything else. It returns at once; the error says that it goes on, or when
// it is tried again.
func (d *Driver) beginRebuild(u *unit, m *member, want platform.Wanted, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	goingOn := fmt.Errorf("node %d: %w: %s", m.ordinal, platform.ErrCopying, reason)
	if m.rebuilding {
		return goingOn
	}
	if d.o.Now().Before(m.rebuildDue) {
		return fmt.Errorf("node %d is soon given another copy of the data: %s", m.ordinal, reason)
	}
	m.rebuilding = true
	d.log.Warn("rebuilding a replica", "cluster_id", u.id, "node", m.ordinal, "reason", reason)
	d.spawn(func() {
		ctx, cancel := context.WithTimeout(d.quit, rebuildTime)
		defer cancel()
		began := time.Now()
		err := d.rebuild(ctx, u, m, want)
		m.rebuilt(err, d.o.Now())
		if err != nil {
			d.log.Warn("rebuild replica", "cluster_id", u.id, "node", m.ordinal, "error", err)
		} else {
			d.log.Info("replica was rebuilt", "cluster_id", u.id, "node", m.ordinal, "ms", milliseconds(time.Since(began)))
		}
		d.change(u.id)
	})
	return goingOn
}

// rebuilt notes how it went: failures are followed by ever longer pauses.
func (m *member) rebuilt(err error, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rebuilding = false
	if err == nil {
		m.rebuilds, m.failedStarts, m.diverged, m.difference, m.astray = 0, 0, false, "", time.Time{}
		return
	}
	m.rebuilds++
	m.rebuildDue = now.Add(min(time.Second<<min(m.rebuilds, 10), time.Minute))
}

// rebuild copies the primary's data while the primary serves, then puts the
// copy in the place of the replica's.
func (d *Driver) rebuild(ctx context.Context, u *unit, m *member, want platform.Wanted) error {
	top, err := d.topology(u.id)
	if err != nil {
		return err
	}
	primary, err := d.newJob(ctx, u, want, top, top.Primary)
	if err != nil {
		return err
	}
	if !primary.m.running() {
		return errNoServer
	}
	copied := filepath.Join(primary.node.Tmp, fmt.Sprintf("seed-%d", m.ordinal))
	defer os.RemoveAll(copied)
	if err := os.RemoveAll(copied); err != nil {
		return fmt.Errorf("remove an older copy: %w", err)
	}
	user := d.user(want.Port)
	if err := makeFolder(copied, 0o700, user, user); err != nil {
		return err
	}
	if err := primary.seed(ctx, u, copied); err != nil {
		return fmt.Errorf("copy the data of node %d: %w", top.Primary, err)
	}
	ctx, give, err := u.occupy(ctx)
	if err != nil {
		return err
	}
	defer give()
	now, err := d.topology(u.id)
	if err != nil {
		return err
	}
	if m.ordinal >= now.Members {
		return fmt.Errorf("the cluster has %d node(s) now", now.Members)
	}
	if now.Primary != top.Primary || now.Suspended {
		return fmt.Errorf("node %d isn't the primary any more", top.Primary)
	}
	j, err := d.newJob(ctx, u, want, now, m.ordinal)
	if err != nil {
		return err
	}
	return j.replaceData(ctx, primary, copied)
}

// replaceData puts a copy of the primary's data in the place of the replica's
// and starts it.
func (j *job) replaceData(ctx context.Context, primary *job, copied string) error {
	j.rec = &record{
		Cluster: j.want.ID, Ordinal: j.m.ordinal, Engine: j.want.Engine, Port: j.want.Port,
		Installation: primary.rec.Installation, Boot: j.d.boot, Encrypted: j.want.Encrypted,
	}
	j.inst = primary.inst
	j.node.Installation = primary.inst
	if err := j.makeFolders(); err != nil {
		return err
	}
	if err := j.discard(ctx); err != nil {
		return err
	}
	if err := j.copyKeyring(ctx, primary); err != nil {
		return err
	}
	if err := j.save(false); err != nil {
		return err
	}
	if err := os.Rename(copied, j.node.Data); err != nil {
		return fmt.Errorf("put the copy in place: %w", err)
	}
	failpoint.Here("host: copy in place")
	if err := removeNote(j.dir); err != nil {
		return err
	}
	settings := j.settings()
	j.rec.Bootstrapped, j.rec.Applied = true, &settings
	j.m.setDiverged(false)
	steps := []step{stepFiles, stepStart, stepReady, stepRole}
	due, err := j.certificateDue(ctx)
	if err != nil {
		return err
	}
	if due {
		steps = append([]step{stepCertificate}, steps...)
	}
	for _, s := range steps {
		if err := j.take(ctx, s); err != nil {
			return err
		}
	}
	return j.save(true)
}

// copyKeyring seals the primary's keyring as the replica's too: the copy was
// encrypted with its keys.
func (j *job) copyKeyring(ctx context.Context, primary *job) error {
	if !j.want.Encrypted {
		return nil
	}
	content, err := primary.eng.KeyringContent(primary.node)
	if err != nil {
		return err
	}
	return j.takeKeyring(ctx, content)
}
