package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/failpoint"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes/cnpg"
)

// switchoverAnnotation is on a cluster's object which timeline begins with a switchover that was asked for, between whom.
const switchoverAnnotation = "steward/handover"

// switchover is a change of the primary that was asked for, between nodes with the ordinals that they had then; pod is the new one's.
type switchover struct {
	timeline, from, to int
	pod                string
}

func (h switchover) String() string {
	if h.pod == "" {
		return ""
	}
	return fmt.Sprintf("%d/%d/%d/%s", h.timeline, h.from, h.to, h.pod)
}

// switchoverOf is the last one of an object; the zero value when there was none.
func switchoverOf(c *cnpg.Cluster) (h switchover) {
	parts := strings.Split(c.Annotations[switchoverAnnotation], "/")
	if len(parts) != 4 {
		return h
	}
	for i, number := range []*int{&h.timeline, &h.from, &h.to} {
		var err error
		if *number, err = strconv.Atoi(parts[i]); err != nil {
			return switchover{}
		}
	}
	h.pod = parts[3]
	return h
}

// cameAbout reports whether it is by this switchover that the primary is who it is, and the node of an ordinal isn't any more.
func (h switchover) cameAbout(c *cnpg.Cluster, from int) bool {
	return h.pod != "" && h.pod == c.Status.CurrentPrimary && h.timeline == c.Status.TimelineID && h.from == from
}

// switching reports whether the operator is on its way to another primary.
func switching(c *cnpg.Cluster) bool {
	return c.Status.TargetPrimary != "" && c.Status.TargetPrimary != c.Status.CurrentPrimary
}

// switchover is what a cluster's object is to say of its last switchover, and the Pod that is to take over now; "" for none. One that never
// came about isn't said, lest a failure later passes for it.
func (d *Driver) switchover(ctx context.Context, want platform.Wanted, is view) (h switchover, successor string) {
	c := is.postgres()
	if c == nil {
		return h, ""
	}
	h = switchoverOf(c)
	if switching(c) {
		return h, ""
	}
	if h.timeline > c.Status.TimelineID {
		h = switchover{}
	}
	// While a Pod is missing, the ordinals of others aren't what they are going to be.
	if want.Switchover == nil || want.Size <= 1 || h.cameAbout(c, *want.Switchover) || len(is.pods) != c.Spec.Instances {
		return h, ""
	}
	d.forgetProbes(want.ID)
	asked := d.ask(ctx, is)
	primary, replicas := is.nodes(asked)
	if primary == nil || primary.Ordinal != *want.Switchover || is.podOf(primary.Ordinal) != c.Status.CurrentPrimary {
		return h, ""
	}
	to := successorOf(replicas)
	if to == nil {
		return h, ""
	}
	pod := is.podOf(to.Ordinal)
	return switchover{c.Status.TimelineID + 1, primary.Ordinal, to.Ordinal, pod}, pod
}

// successorOf is the replica that is the closest behind; nil while none follows.
func successorOf(replicas []platform.Node) *platform.Node {
	behind := func(n platform.Node) int64 {
		if n.LagBytes == nil {
			return 1 << 62
		}
		return *n.LagBytes
	}
	well := slices.DeleteFunc(slices.Clone(replicas), func(n platform.Node) bool { return !n.Running || !n.Streaming || n.Problem != "" })
	if len(well) == 0 {
		return nil
	}
	best := slices.MinFunc(well, func(a, b platform.Node) int {
		return cmp.Or(cmp.Compare(behind(a), behind(b)), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return &best
}

// promote has the operator make a Pod's server the primary, as its own command does it, unless it is on its way to another.
func (d *Driver) promote(ctx context.Context, n names, to string) error {
	now := &cnpg.Cluster{}
	if err := d.live.Get(ctx, n.key(n.cluster()), now); err != nil {
		return fmt.Errorf("read %s: %w", n.cluster(), err)
	}
	if switching(now) || now.Status.CurrentPrimary == to {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": now.ResourceVersion}, // else somebody was first
		"status": map[string]any{
			"targetPrimary": to, "targetPrimaryTimestamp": d.o.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
			"phase": "Switchover in progress", "phaseReason": "Switching over to " + to,
		},
	})
	if err == nil {
		err = d.live.Status().Patch(ctx, now, client.RawPatch("application/merge-patch+json", patch), client.FieldOwner(manager))
	}
	if err != nil {
		return fmt.Errorf("have %s take over: %w", to, err)
	}
	failpoint.Here("kubernetes: after a switchover was asked for")
	return nil
}

// restartAnnotation has an operator make each Pod anew that has another value of it than the object.
const restartAnnotation = cnpg.RestartAnnotation

// restartPrefix is before the number of a request in the annotation that asks for a restart: others' restarts aren't ours to keep.
const restartPrefix = "steward-"

// restartOf is what the object is to say of the last restart that was asked for.
func restartOf(want platform.Wanted, is view) string {
	if want.Restart != 0 {
		return restartPrefix + strconv.FormatInt(want.Restart, 10)
	}
	if is.object != nil && strings.HasPrefix(is.object.GetAnnotations()[restartAnnotation], restartPrefix) {
		return is.object.GetAnnotations()[restartAnnotation]
	}
	return ""
}

// restarted reports whether a Pod was made after the last restart was asked for.
func (v view) restarted(p *corev1.Pod) bool {
	asked := v.object.GetAnnotations()[restartAnnotation]
	return asked == "" || p.Annotations[restartAnnotation] == asked
}
