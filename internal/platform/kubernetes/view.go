package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/cluster"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/mariadb"
)

// view is what there is of a cluster in Kubernetes. Objects that aren't there are nil; none is changed.
type view struct {
	names
	op           operator
	object       object
	pods         []corev1.Pod
	write, reads *corev1.Service
}

// look reads a cluster's objects: from the API server, or what was watched of it. Of several generations it is the one that counts.
func (d *Driver) look(ctx context.Context, from client.Reader, id cluster.ID) (view, error) {
	n, way, err := d.current(ctx, from, id)
	if err != nil {
		return view{names: n}, err
	}
	return d.lookBehind(ctx, from, n, way)
}

// lookAt reads the objects of a generation, or of a scratch server.
func (d *Driver) lookAt(ctx context.Context, from client.Reader, n names) (view, error) {
	way := &corev1.Service{}
	err := from.Get(ctx, n.key(n.base()), way)
	if isGone(err) {
		way, err = nil, nil
	}
	if err != nil {
		return view{names: n}, fmt.Errorf("read %s: %w", n.base(), err)
	}
	return d.lookBehind(ctx, from, n, way)
}

// lookBehind reads what is behind the way in. Pods are those that the API server has in its memory: to look through all that it keeps, for the few that are a
// cluster's, takes it as long as there are many.
func (d *Driver) lookBehind(ctx context.Context, from client.Reader, n names, way *corev1.Service) (view, error) {
	v := view{names: n, write: way}
	var err error
	get := func(name string, into client.Object) bool {
		failed := from.Get(ctx, v.key(name), into)
		if unlessGone(failed) != nil {
			err = errors.Join(err, fmt.Errorf("read %s: %w", name, explained(failed)))
		}
		return failed == nil
	}
	for _, op := range d.operators {
		if o := op.blank(); get(v.cluster(), o) {
			v.op, v.object = op, o
			break
		}
	}
	if reads := (&corev1.Service{}); get(v.names.reads(), reads) {
		v.reads = reads
	}
	var pods corev1.PodList
	failed := from.List(ctx, &pods, client.InNamespace(v.namespace), client.MatchingLabels{clusterLabel: strconv.FormatInt(int64(n.id), 10)}, fromMemory{})
	if failed != nil {
		err = errors.Join(err, fmt.Errorf("list Pods: %w", failed))
	}
	for _, p := range inOrder(pods.Items) {
		if v.op != nil && v.op.owns(&p, v.cluster()) {
			v.pods = append(v.pods, p)
		}
	}
	return v, err
}

// fromMemory has an API server answer by what it saw last.
type fromMemory struct{}

// ApplyToList implements client.ListOption. Each question has an object of its own: the client writes into it what else is asked for, and so whose.
func (fromMemory) ApplyToList(o *client.ListOptions) {
	o.Raw = &metav1.ListOptions{ResourceVersion: "0"}
}

// hosts are the addresses that customers connect to; empty while the load balancer hasn't given any.
func (v view) hosts() cluster.Hosts {
	h := cluster.Hosts{Primary: address(v.write)}
	h.Secondary = h.Primary
	if v.object != nil && v.object.Members() > 1 {
		h.Secondary = address(v.reads)
	}
	if h.Primary == "" || h.Secondary == "" {
		return cluster.Hosts{}
	}
	return h
}

func address(s *corev1.Service) string {
	switch {
	case s == nil:
		return ""
	case s.Spec.Type != corev1.ServiceTypeLoadBalancer:
		return s.Name + "." + s.Namespace + ".svc"
	case len(s.Status.LoadBalancer.Ingress) == 0:
		return ""
	}
	ingress := s.Status.LoadBalancer.Ingress[0]
	return cmp.Or(ingress.IP, ingress.Hostname)
}

// closed reports whether the way in leads to no Pod, from wherever one comes.
func (v view) closed() bool { return v.write == nil || v.write.Spec.Selector[closedLabel] != "" }

// hibernates reports whether no instance is to run.
func (v view) hibernates() bool {
	return v.object != nil && v.object.Rests()
}

// outdated says how a Pod differs from what is asked for of all, "" when it doesn't.
func (v view) outdated(p *corev1.Pod) string {
	c := container(p)
	switch {
	case p.DeletionTimestamp != nil:
		return "its Pod is being stopped"
	case c == nil || c.Image != v.object.Image():
		return "its Pod runs another image than " + v.object.Image()
	case !same(c.Resources.Limits, v.object.Limits()):
		return "its Pod has other resources"
	case !v.restarted(p), p.Annotations[startedAnnotation] != v.object.GetAnnotations()[startedAnnotation]:
		return "its server is to be restarted"
	case !ready(p):
		return cmp.Or(waiting(p), "its Pod isn't ready")
	}
	return ""
}

func same(a, b corev1.ResourceList) bool {
	equal := func(name corev1.ResourceName) bool {
		x, y := a[name], b[name]
		return (&x).Cmp(resource.Quantity(y)) == 0
	}
	return equal(corev1.ResourceCPU) && equal(corev1.ResourceMemory)
}

// serverContainers are what operators call those of servers. No Pod has two of them.
var serverContainers = []string{cnpg.Container, mariadb.Container}

func container(p *corev1.Pod) *corev1.Container {
	for i := range p.Spec.Containers {
		if slices.Contains(serverContainers, p.Spec.Containers[i].Name) {
			return &p.Spec.Containers[i]
		}
	}
	return nil
}

// state is that of the server's container; nil before it is started for the first time.
func state(p *corev1.Pod) *corev1.ContainerStatus {
	i := slices.IndexFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return slices.Contains(serverContainers, s.Name) })
	if i < 0 {
		return nil
	}
	return &p.Status.ContainerStatuses[i]
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// waiting is why a Pod doesn't run, in Kubernetes' words.
func waiting(p *corev1.Pod) string {
	if s := state(p); s != nil && s.State.Waiting != nil && s.State.Waiting.Reason != "" {
		return "its container waits: " + s.State.Waiting.Reason
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "its Pod isn't scheduled: " + c.Message
		}
	}
	return ""
}

// life changes whenever a server is another process.
func life(p *corev1.Pod) string {
	restarts := int32(0)
	if s := state(p); s != nil {
		restarts = s.RestartCount
	}
	return fmt.Sprintf("%s-%d", p.UID, restarts)
}

// crashes grows with each restart within a Pod that nobody asked for; it is 0 after one that somebody did. An operator that restarts a server for new
// settings does so within the container's life, and replaces the Pod for another image or plan. A primary that hands over ends its
// container with 0, and so does one that the kubelet stops.
func crashes(p *corev1.Pod) int {
	s := state(p)
	if s == nil || s.RestartCount == 0 {
		return 0
	}
	if ended := s.LastTerminationState.Terminated; ended != nil && ended.ExitCode == 0 {
		return 0
	}
	return int(s.RestartCount)
}

// reachable is where a Pod's server listens.
func (v view) reachable(p *corev1.Pod) (netip.AddrPort, bool) {
	ip, err := netip.ParseAddr(p.Status.PodIP)
	return netip.AddrPortFrom(ip, v.op.port()), err == nil
}
