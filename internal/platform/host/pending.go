package host

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/pki"
	"steward/internal/platform"
	"steward/internal/platform/host/build"
	"steward/internal/platform/host/state"
)

// Pending implements platform.Driver.
func (d *Driver) Pending(_ context.Context, want platform.Wanted) ([]cluster.Task, error) {
	cs, now := d.clusterState(want.ID), d.o.Now()
	before := cs.rest()
	if f := cs.findings(); f.series == want.Series && now.Sub(f.tasksAt) < lookAsleep {
		return f.tasks, nil
	}
	tasks, err := d.pending(want)
	if err == nil {
		cs.find(before, func(f *asleepFindings) { f.tasks, f.tasksAt, f.series = tasks, now, want.Series })
	}
	return tasks, err
}

func (d *Driver) pending(want platform.Wanted) ([]cluster.Task, error) {
	top, err := d.topology(want.ID)
	if err != nil {
		return nil, fmt.Errorf("cluster %d: %w", want.ID, err)
	}
	var all pending
	for ordinal := range top.Size {
		dir := d.layout.node(want.ID, ordinal)
		rec, err := state.ReadNode(dir)
		if err != nil {
			return nil, fmt.Errorf("cluster %d: %w", want.ID, err)
		}
		if rec == nil || !rec.Bootstrapped {
			continue // it is still being made
		}
		d.pendingUpdate(&all, want.Series, rec)
		if err := d.pendingCertificate(&all, dir); err != nil {
			return nil, fmt.Errorf("cluster %d: node %d: %w", want.ID, ordinal, err)
		}
		if rec.RestartDue {
			all.add(cluster.Task{Kind: cluster.TaskRestart})
		}
	}
	return all, nil
}

// pendingUpdate adds the move to a newer build. A build that can't be replaced is
// a problem of Apply's.
func (d *Driver) pendingUpdate(all *pending, series string, rec *state.Node) {
	next, problem := build.Choose(d.Installations(), rec.Engine, series, rec.Installation, true)
	if problem != "" || next.ID() == rec.Installation {
		return
	}
	_, from, _, _ := build.Parse(rec.Installation)
	all.add(cluster.Task{Kind: cluster.TaskUpdate, From: from, To: next.Version})
}

// pendingCertificate adds the renewal of a certificate that is near its end.
func (d *Driver) pendingCertificate(all *pending, dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "tls", engine.TLSCert))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // Apply issues one
	}
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	if !pki.NeedsRenewal(text, d.o.Now()) {
		return nil
	}
	task := cluster.Task{Kind: cluster.TaskCertificate}
	if cert, err := pki.ParseCertificate(text); err == nil {
		task.Deadline = &cert.NotAfter
		if endsWithAuthority(dir, cert) {
			return nil // another one wouldn't last longer
		}
	}
	all.add(task)
	return nil
}

func endsWithAuthority(dir string, cert *x509.Certificate) bool {
	text, err := os.ReadFile(filepath.Join(dir, "tls", engine.TLSCA))
	if err != nil {
		return false
	}
	authority, err := pki.ParseCertificate(text)
	return err == nil && !cert.NotAfter.Before(authority.NotAfter)
}

// pending are the tasks of all nodes of a cluster, each kind once.
type pending []cluster.Task

// add joins a node's task with the same of others: from the oldest version to the
// newest, by the earliest deadline.
func (p *pending) add(t cluster.Task) {
	i := slices.IndexFunc(*p, func(known cluster.Task) bool { return known.Kind == t.Kind })
	if i < 0 {
		*p = append(*p, t)
		return
	}
	known := &(*p)[i]
	if engine.CompareVersions(t.From, known.From) < 0 {
		known.From = t.From
	}
	if known.Deadline == nil || t.Deadline != nil && t.Deadline.Before(*known.Deadline) {
		known.Deadline = t.Deadline
	}
}

// patched reports whether no node waits for a newer build or a restart any more.
func (d *Driver) patched(want platform.Wanted) bool {
	left, err := d.pending(want)
	return err == nil && !slices.ContainsFunc(left, func(t cluster.Task) bool {
		return t.Kind == cluster.TaskUpdate || t.Kind == cluster.TaskRestart
	})
}
