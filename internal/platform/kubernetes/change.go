package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/pki"
	"steward/internal/platform"
	"steward/internal/wait"
)

// pollEvery is how often is looked whether an operator has done what it was asked for.
const pollEvery = 100 * time.Millisecond

// changeTimeout bounds what waits for an operator. A kubelet may take a minute until a Pod has a secret's new content.
const changeTimeout = 2 * time.Minute

// Pending implements platform.Applier.
func (d *Driver) Pending(ctx context.Context, want platform.Wanted) ([]cluster.Task, error) {
	v, err := d.look(ctx, d.seen, want.ID)
	if err != nil || v.object == nil {
		return nil, err
	}
	var tasks []cluster.Task
	is := v.object.Image()
	images, err := v.op.images(ctx, true)
	if err != nil {
		return nil, fmt.Errorf("cluster %d: %w", want.ID, err)
	}
	if newest, err := d.newest(want.Engine, want.Series, images); err == nil && newest != is {
		tasks = append(tasks, cluster.Task{Kind: cluster.TaskUpdate, From: versionOf(is), To: versionOf(newest)})
	}
	if d.o.keepsBackups() && v.op.archives() && v.object.GetAnnotations()[archiveAnnotation] == "" {
		tasks = append(tasks, cluster.Task{Kind: cluster.TaskRestart})
	}
	cert, err := d.knownCertificate(ctx, v)
	if err != nil || cert == nil {
		return tasks, err
	}
	if pki.NeedsRenewal(cert, d.o.Now()) {
		task := cluster.Task{Kind: cluster.TaskCertificate}
		if parsed, err := pki.ParseCertificate(cert); err == nil {
			task.Deadline = &parsed.NotAfter
		}
		tasks = append(tasks, task)
	}
	return tasks, nil
}

// SetPassword implements platform.Applier: the operator's secret first, from which it would bring an older one back.
func (d *Driver) SetPassword(ctx context.Context, want platform.Wanted) error {
	return d.onAll(ctx, want, func(ctx context.Context, v view, i int) error {
		password, err := d.o.Secrets.Secret(ctx, want.ID, platform.RootPassword)
		if err != nil {
			return fmt.Errorf("secret %s: %w", platform.RootPassword, err)
		}
		node, err := d.node(ctx, v, &v.pods[i])
		if err != nil {
			return err
		}
		node.RootPassword = string(password)
		failpoint.Here("kubernetes: before set password")
		if err := v.op.driver().SetRootPassword(ctx, node); err != nil {
			return err
		}
		failpoint.Here("kubernetes: after set password")
		return nil
	})
}

// SetReadOnly implements platform.Applier.
func (d *Driver) SetReadOnly(ctx context.Context, want platform.Wanted, on bool) error {
	want.ReadOnly = on
	return d.onAll(ctx, want, func(ctx context.Context, v view, i int) error {
		node, err := d.node(ctx, v, &v.pods[i])
		if err != nil {
			return err
		}
		node.ReadOnly = on
		return v.op.driver().SetReadOnly(ctx, node, on)
	})
}

// onAll writes what is wanted, waits until the servers have read it, and does something on each, the primary first. It doesn't wait for nodes that are
// missing, which may take minutes to come back: they come back with what was written, and with what the primary has.
func (d *Driver) onAll(ctx context.Context, want platform.Wanted, do func(ctx context.Context, v view, i int) error) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	for {
		seen, err := d.Apply(ctx, want)
		switch {
		case err != nil:
			return err
		case seen.Permanent:
			return errors.New(seen.Problem)
		case seen.Settled || seen.Degraded:
			return d.onEach(ctx, want.ID, seen, do)
		}
		if err := wait.Sleep(ctx, pollEvery); err != nil {
			return fmt.Errorf("cluster %d: %s: %w", want.ID, seen.Problem, err)
		}
	}
}

func (d *Driver) onEach(ctx context.Context, id cluster.ID, seen platform.Observed, do func(ctx context.Context, v view, i int) error) error {
	v, err := d.look(ctx, d.live, id)
	if err != nil {
		return fmt.Errorf("cluster %d: %w", id, err)
	}
	for _, n := range seen.Nodes {
		if seen.Degraded && (!n.Running || n.Problem != "") {
			continue
		}
		if n.Ordinal >= len(v.pods) {
			return fmt.Errorf("cluster %d: node %d is gone", id, n.Ordinal)
		}
		if err := do(ctx, v, n.Ordinal); err != nil {
			return fmt.Errorf("cluster %d: node %d: %w", id, n.Ordinal, err)
		}
	}
	return nil
}

// Remove implements platform.Applier. Nothing of the cluster is there when it returns nil: volumes, too.
func (d *Driver) Remove(ctx context.Context, want cluster.Cluster) error {
	if err := d.remove(ctx, want); err != nil {
		return fmt.Errorf("remove cluster %d: %w", want.ID, err)
	}
	return nil
}

func (d *Driver) remove(ctx context.Context, c cluster.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	for chosen := []client.ListOption{of(c.ID), fromMemory{}}; ; {
		left, err := d.leftovers(ctx, chosen...)
		if err != nil {
			return err
		}
		if len(left) == 0 && len(chosen) == 1 {
			d.forget(c.ID)
			return nil
		}
		if len(left) == 0 { // as the API server saw it last: what it keeps decides
			chosen = chosen[:1]
			continue
		}
		for _, o := range left {
			if foreign(o, c) {
				d.o.Logger.WarnContext(ctx, "nothing is removed", "cluster_id", c.ID, "error", errForeign(o))
				return nil
			}
		}
		for _, o := range left {
			if _, pod := o.(*corev1.Pod); pod || o.GetDeletionTimestamp() != nil {
				continue // Pods go with their owner
			}
			if err := d.drop(ctx, o); err != nil {
				return err
			}
		}
		if err := wait.Sleep(ctx, pollEvery); err != nil {
			return fmt.Errorf("%s and %d more are still there: %w", left[0].GetName(), len(left)-1, err)
		}
	}
}
