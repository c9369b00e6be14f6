package kubernetes

import (
	"maps"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/mariadb"
)

// stripped is of a watched object what is read of those that are only looked at: all of them are in memory, for each database. What is to be written is read
// from the API server, whole.
func stripped(o any) (any, error) {
	switch o := o.(type) {
	case *cnpg.Cluster:
		return strippedCluster(o), nil
	case *mariadb.MariaDB:
		return strippedMariaDB(o), nil
	case *corev1.Pod:
		return strippedPod(o), nil
	case *corev1.Service:
		return strippedService(o), nil
	}
	return o, nil
}

// strippedMeta keeps who an object is. Of most texts there are as many copies as databases.
func strippedMeta(m metav1.ObjectMeta, annotations ...string) metav1.ObjectMeta {
	kept := metav1.ObjectMeta{
		Name: m.Name, Namespace: shared(m.Namespace), UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, Labels: make(map[string]string, len(m.Labels)),
	}
	for name, value := range m.Labels {
		kept.Labels[shared(name)] = shared(value)
	}
	for name, value := range m.Annotations {
		if slices.Contains(annotations, name) || strings.HasPrefix(name, "steward/") && name != wroteAnnotation {
			if kept.Annotations == nil {
				kept.Annotations = map[string]string{}
			}
			kept.Annotations[shared(name)] = shared(value)
		}
	}
	return kept
}

// shared is a text that others have, too.
func shared(text string) string { return unique.Make(text).Value() }

// strippedCluster is without what servers are told, but for what is looked at.
func strippedCluster(c *cnpg.Cluster) *cnpg.Cluster {
	kept := &cnpg.Cluster{
		TypeMeta: c.TypeMeta, ObjectMeta: strippedMeta(c.ObjectMeta, cnpg.HibernationAnnotation, cnpg.RestartAnnotation),
		Spec: cnpg.ClusterSpec{
			Instances: c.Spec.Instances, ImageName: shared(c.Spec.ImageName),
			Storage: cnpg.Storage{Size: shared(c.Spec.Storage.Size)}, Resources: corev1.ResourceRequirements{Limits: c.Spec.Resources.Limits},
			PostgreSQL: cnpg.PostgreSQL{Synchronous: c.Spec.PostgreSQL.Synchronous},
		},
		Status: cnpg.ClusterStatus{
			Phase: shared(c.Status.Phase), PhaseReason: shared(c.Status.PhaseReason), CurrentPrimary: c.Status.CurrentPrimary,
			CurrentPrimaryTimestamp: c.Status.CurrentPrimaryTimestamp, TimelineID: c.Status.TimelineID,
		},
	}
	if value, set := c.Spec.PostgreSQL.Parameters[cnpg.ReadOnlyParameter]; set {
		kept.Spec.PostgreSQL.Parameters = map[string]string{cnpg.ReadOnlyParameter: shared(value)}
	}
	if c.Status.TargetPrimary != c.Status.CurrentPrimary {
		kept.Status.TargetPrimary = c.Status.TargetPrimary
	} else {
		kept.Status.TargetPrimary = kept.Status.CurrentPrimary
	}
	return kept
}

// strippedMariaDB is without what servers are told, but for what is looked at.
func strippedMariaDB(m *mariadb.MariaDB) *mariadb.MariaDB {
	kept := &mariadb.MariaDB{
		TypeMeta: m.TypeMeta, ObjectMeta: strippedMeta(m.ObjectMeta, restartAnnotation),
		Spec: mariadb.Spec{
			Image: shared(m.Spec.Image), Replicas: m.Spec.Replicas, Maintenance: m.Spec.Maintenance,
			Resources: corev1.ResourceRequirements{Limits: m.Spec.Resources.Limits},
		},
		Status: mariadb.Status{CurrentPrimary: m.Status.CurrentPrimary},
	}
	if claim := m.Spec.Storage.VolumeClaimTemplate; claim != nil {
		kept.Spec.Storage.VolumeClaimTemplate = &mariadb.VolumeClaimTemplate{Resources: claim.Resources}
	}
	for _, c := range m.Status.Conditions {
		if c.Type == "Ready" {
			kept.Status.Conditions = append(kept.Status.Conditions, metav1.Condition{Type: c.Type, Reason: shared(c.Reason), Message: shared(c.Message)})
		}
	}
	return kept
}

// strippedPod has the server's container alone.
func strippedPod(p *corev1.Pod) *corev1.Pod {
	kept := &corev1.Pod{
		TypeMeta: p.TypeMeta, ObjectMeta: strippedMeta(p.ObjectMeta, cnpg.RestartAnnotation),
		Status: corev1.PodStatus{Phase: p.Status.Phase, PodIP: p.Status.PodIP},
	}
	if c := container(p); c != nil {
		kept.Spec.Containers = []corev1.Container{{Name: shared(c.Name), Image: shared(c.Image), Resources: corev1.ResourceRequirements{Limits: c.Resources.Limits}}}
	}
	if s := state(p); s != nil {
		ended := s.LastTerminationState
		if ended.Terminated != nil {
			ended.Terminated = &corev1.ContainerStateTerminated{ExitCode: ended.Terminated.ExitCode}
		}
		kept.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: shared(s.Name), State: s.State, LastTerminationState: ended, RestartCount: s.RestartCount}}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady || c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			kept.Status.Conditions = append(kept.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Message: c.Message})
		}
	}
	return kept
}

func strippedService(s *corev1.Service) *corev1.Service {
	return &corev1.Service{
		TypeMeta: s.TypeMeta, ObjectMeta: strippedMeta(s.ObjectMeta),
		Spec: corev1.ServiceSpec{Type: s.Spec.Type, Selector: maps.Clone(s.Spec.Selector)}, Status: s.Status,
	}
}
