package simulator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/platform/kubernetes/cnpg"
)

func serialOf(name string) int {
	n, _ := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return n
}

// keep is what the instance manager and the kubelet do for one instance: a Pod, a server in it, its configuration.
func (op *Operator) keep(ctx context.Context, all *instances, serial int, c *cnpg.Cluster, tls map[string][]byte) error {
	i := all.all[serial]
	changed, of := false, fmt.Sprint(c.ResourceVersion, all.primary, slices.Sorted(maps.Keys(all.all)), string(tls["tls.crt"]))
	if of != i.configOf {
		var err error
		if changed, err = i.write(op.settings(all, i, c), c.Spec.PostgreSQL.PgHBA, tls); err != nil {
			return err
		}
		i.configOf = of
	}
	if changed && i.running() {
		i.reload()
	}
	if i.pod == nil {
		if err := op.createPod(ctx, all, i, c); err != nil {
			return err
		}
		if !i.running() && op.mayFollow(ctx, all, i) {
			i.build = op.o.Images[c.Spec.ImageName]
			i.handedOver = false
			i.newLife(false)
			if err := i.start(); err != nil {
				return err
			}
		}
		return nil
	}
	if !i.running() {
		op.say(ctx, i, false)
		if len(i.pod.Status.ContainerStatuses) == 0 || !op.mayFollow(ctx, all, i) {
			return nil
		}
		s := &i.pod.Status.ContainerStatuses[0]
		s.RestartCount++
		s.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: i.exitCode()}}
		i.handedOver = false
		i.newLife(true)
		return i.start()
	}
	if i.looks++; i.ready && i.looks%restful != 0 && !changed {
		return nil
	}
	rows, err := i.sql(ctx, "postgres", "SELECT count(*) FROM pg_settings WHERE pending_restart")
	if answers := err == nil; answers != i.ready {
		op.say(ctx, i, answers)
	}
	if err != nil || rows[0][0] == "0" {
		return nil
	}
	i.stop(syscall.SIGINT) // a setting waits for a restart, which happens within the Pod
	i.ready = false
	return i.start()
}

func (op *Operator) createPod(ctx context.Context, all *instances, i *instance, c *cnpg.Cluster) error {
	role := cnpg.ReplicaRole
	if serialOf(i.name) == all.primary {
		role = cnpg.PrimaryRole
	}
	i.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: i.name, Namespace: c.Namespace, Labels: op.labels(c, map[string]string{cnpg.RoleLabel: role, cnpg.PodRoleLabel: cnpg.InstanceRole}),
			Annotations: map[string]string{cnpg.RestartAnnotation: c.Annotations[cnpg.RestartAnnotation], versionAnnotation: op.version},
		},
		Spec: corev1.PodSpec{
			NodeName:                      op.node,
			Containers:                    []corev1.Container{{Name: cnpg.Container, Image: c.Spec.ImageName, Resources: c.Spec.Resources}},
			TerminationGracePeriodSeconds: new(int64(0)),
		},
	}
	if err := op.o.Client.Create(ctx, i.pod); err != nil {
		i.pod = nil
		return err
	}
	return nil
}

// say puts an instance's Pod in a state.
func (op *Operator) say(ctx context.Context, i *instance, ready bool) {
	i.ready = ready
	var before corev1.ContainerStatus
	if len(i.pod.Status.ContainerStatuses) > 0 {
		before = i.pod.Status.ContainerStatuses[0]
	}
	condition := corev1.ConditionFalse
	state := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: i.exitCode()}}
	if ready {
		condition = corev1.ConditionTrue
	}
	if i.running() {
		state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(op.now())}}
		if before.State.Running != nil {
			state.Running.StartedAt = before.State.Running.StartedAt
		}
	}
	i.pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: i.ip, PodIPs: []corev1.PodIP{{IP: i.ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: condition, LastTransitionTime: metav1.NewTime(op.now())}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: cnpg.Container, Ready: ready, RestartCount: before.RestartCount, State: state, LastTerminationState: before.LastTerminationState, Image: i.pod.Spec.Containers[0].Image,
		}},
	}
	if err := op.o.Client.Status().Update(ctx, i.pod); err != nil {
		_ = op.o.Client.Get(ctx, client.ObjectKeyFromObject(i.pod), i.pod)
		i.ready = !ready // the next pass says it again
	}
}

func (op *Operator) deletePod(ctx context.Context, i *instance) {
	if i.pod != nil {
		_ = op.o.Client.Delete(ctx, i.pod, client.GracePeriodSeconds(0))
	}
	i.pod, i.ready = nil, false
}

// outdated reports whether a Pod isn't as the cluster's object has it, or was made by another version of the operator, whose program is in it.
func (op *Operator) outdated(i *instance, c *cnpg.Cluster) bool {
	is := i.pod.Spec.Containers[0]
	if i.pod.Annotations[versionAnnotation] != op.version {
		return true
	}
	if asked, ok := c.Annotations[cnpg.RestartAnnotation]; ok && i.pod.Annotations[cnpg.RestartAnnotation] != asked {
		return true
	}
	return is.Image != c.Spec.ImageName || fmt.Sprint(is.Resources.Limits.Cpu(), is.Resources.Limits.Memory()) != fmt.Sprint(c.Spec.Resources.Limits.Cpu(), c.Spec.Resources.Limits.Memory())
}

// roll replaces Pods that aren't as they should be: replicas one by one, then the primary by a switchover. It begins some
// passes late, while the status says already that all is done.
func (op *Operator) roll(ctx context.Context, all *instances, c *cnpg.Cluster) error {
	due := slices.DeleteFunc(slices.Sorted(maps.Keys(all.all)), func(serial int) bool {
		i := all.all[serial]
		return i.pod == nil || !op.outdated(i, c)
	})
	if len(due) == 0 {
		all.waits = 0
		return nil
	}
	if all.waits++; all.waits <= op.lag {
		return nil
	}
	for _, i := range all.all {
		if !i.ready && !slices.Contains(due, serialOf(i.name)) {
			return nil // one at a time
		}
	}
	c.Status.Phase, c.Status.PhaseReason = "Upgrading cluster", "replacing Pods"
	for _, serial := range due {
		if serial != all.primary {
			all.all[serial].stop(syscall.SIGINT)
			op.deletePod(ctx, all.all[serial])
			return nil
		}
	}
	if len(all.all) > 1 {
		return op.switchover(ctx, all, c)
	}
	all.all[all.primary].stop(syscall.SIGINT)
	op.deletePod(ctx, all.all[all.primary])
	return nil
}

// switchover makes the first ready replica the primary.
func (op *Operator) switchover(ctx context.Context, all *instances, c *cnpg.Cluster) error {
	for _, serial := range slices.Sorted(maps.Keys(all.all)) {
		if serial != all.primary && all.all[serial].ready {
			return op.promote(ctx, all, serial)
		}
	}
	return nil
}

// exitCode is what a container ended with whose server doesn't run: 0 after an orderly switchover.
func (i *instance) exitCode() int32 {
	if i.handedOver {
		return 0
	}
	return 1 // the instance manager's, when the server ended by itself
}

// promote stops the primary and has another instance take over. The former one's container ends, and is started again in its Pod.
func (op *Operator) promote(ctx context.Context, all *instances, serial int) error {
	old, next := all.all[all.primary], all.all[serial]
	old.stop(syscall.SIGINT)
	if _, err := next.sql(ctx, "postgres", "SELECT pg_promote()"); err != nil {
		return err
	}
	if err := op.followAgain(old); err != nil {
		return err
	}
	old.handedOver = true
	op.say(ctx, old, false)
	if err := op.o.Client.Patch(ctx, old.pod, labelled(cnpg.RoleLabel, cnpg.ReplicaRole)); err != nil {
		return err
	}
	if err := op.o.Client.Patch(ctx, next.pod, labelled(cnpg.RoleLabel, cnpg.PrimaryRole)); err != nil {
		return err
	}
	all.primary, all.changed = serial, op.now()
	all.timeline++
	return nil
}

func labelled(name, value string) client.Patch {
	return client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, name, value))
}
