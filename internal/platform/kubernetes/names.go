package kubernetes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/backup"
	"steward/internal/cluster"
)

// Labels of all that is a cluster's. The generation is part of the names of what holds data: a restore begins another.
const (
	clusterLabel    = "steward/cluster"
	generationLabel = "steward/generation"
	// closedLabel is one that no Pod has.
	closedLabel = "steward/closed"
	// manager is who writes our fields.
	manager = "steward"
)

// names are those of a cluster's objects.
type names struct {
	id         cluster.ID
	namespace  string
	generation int
	// scratch is the backup that a server of no generation is only there to try out; 0 for none.
	scratch backup.ID
}

// names are those of a cluster's first generation.
func (d *Driver) names(id cluster.ID) names {
	return names{id: id, namespace: d.o.Namespace, generation: 1}
}

// of is a cluster's names of another generation.
func (n names) of(generation int) names {
	n.generation = generation
	return n
}

// base is the name of what outlives generations: the way in.
func (n names) base() string { return "db-" + strconv.FormatInt(int64(n.id), 10) }

func (n names) cluster() string {
	if n.scratch != 0 {
		return fmt.Sprintf("%s-v%d", n.base(), n.scratch)
	}
	return fmt.Sprintf("%s-g%d", n.base(), n.generation)
}

func (n names) reads() string { return n.base() + "-ro" }
func (n names) root() string  { return n.base() + "-root" }
func (n names) birth() string { return n.cluster() + "-birth" }
func (n names) ca() string    { return n.base() + "-ca" }

// host is the name by which we ask servers, which their certificate has among others.
func (n names) host() string { return n.base() + "." + n.namespace + ".svc" }

func (n names) labels() map[string]string {
	return map[string]string{
		clusterLabel: strconv.FormatInt(int64(n.id), 10), generationLabel: strconv.Itoa(n.generation),
		"app.kubernetes.io/managed-by": manager,
	}
}

func (n names) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: n.namespace, Name: name}
}

// idOf is the cluster that an object is of.
func idOf(o client.Object) (cluster.ID, bool) {
	id, err := strconv.ParseInt(o.GetLabels()[clusterLabel], 10, 64)
	return cluster.ID(id), err == nil
}

// serial is the number that an operator gave an instance; it counts all that there ever were.
func serial(pod string) int {
	n, _ := strconv.Atoi(pod[strings.LastIndexByte(pod, '-')+1:])
	return n
}

// inOrder sorts instances by their age: the place of each is its ordinal.
func inOrder(pods []corev1.Pod) []corev1.Pod {
	return slices.SortedFunc(slices.Values(pods), func(a, b corev1.Pod) int { return cmp.Compare(serial(a.Name), serial(b.Name)) })
}
