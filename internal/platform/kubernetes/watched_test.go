package kubernetes

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"steward/internal/engine"
	"steward/internal/platform/kubernetes/cnpg"
)

// whole is a cluster of two nodes as an API server has it, with what nobody looks at.
func whole() view {
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("2Gi")}
	meta := func(name string, labels, annotations map[string]string) metav1.ObjectMeta {
		labels, annotations = maps.Clone(labels), maps.Clone(annotations)
		labels[clusterLabel], labels[generationLabel] = "7", "1"
		annotations["unread"], annotations[wroteAnnotation] = "unread", "unread"
		return metav1.ObjectMeta{
			Name: name, Namespace: "databases", UID: "its own", Labels: labels, Annotations: annotations,
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "unread"}}, OwnerReferences: []metav1.OwnerReference{{Name: "unread"}},
		}
	}
	v := view{
		names: names{id: 7, namespace: "databases", generation: 1},
		op:    cloudNativePG{},
		object: &cnpg.Cluster{
			ObjectMeta: meta("db-7-g1", map[string]string{}, map[string]string{
				cnpg.HibernationAnnotation: cnpg.Awake, cnpg.RestartAnnotation: "steward-3", switchoverAnnotation: "2/0/1/db-7-g1-2", archiveAnnotation: "db-7-x", markAnnotation: "m",
			}),
			Spec: cnpg.ClusterSpec{
				Instances: 2, ImageName: "postgresql:15.17", Resources: corev1.ResourceRequirements{Limits: amounts, Requests: amounts}, Storage: cnpg.Storage{Size: "1024Mi"},
				Bootstrap: &cnpg.Bootstrap{InitDB: &cnpg.InitDB{Database: "unread"}}, Plugins: []cnpg.Plugin{{Name: "unread"}},
				PostgreSQL: cnpg.PostgreSQL{
					Parameters: map[string]string{"unread": "unread", "default_transaction_read_only": "on"}, PgHBA: []string{"unread"}, Synchronous: &cnpg.Synchronous{Method: "any", Number: 1},
				},
			},
			Status: cnpg.ClusterStatus{
				Phase: "Failing over", PhaseReason: "slowly", CurrentPrimary: "db-7-g1-2", TargetPrimary: "db-7-g1-1", CurrentPrimaryTimestamp: "2026-11-25T10:00:00Z", TimelineID: 2,
				Conditions: []metav1.Condition{{Message: "unread"}},
			},
		},
		write: &corev1.Service{
			ObjectMeta: meta("db-7", map[string]string{}, map[string]string{}),
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{cnpg.ClusterLabel: "db-7-g1"}, LoadBalancerSourceRanges: []string{"unread"}},
			Status:     corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}}},
		},
	}
	v.reads = v.write
	for _, role := range []string{cnpg.ReplicaRole, cnpg.PrimaryRole} {
		name := map[string]string{cnpg.ReplicaRole: "db-7-g1-1", cnpg.PrimaryRole: "db-7-g1-2"}[role]
		v.pods = append(v.pods, corev1.Pod{
			ObjectMeta: meta(name, map[string]string{cnpg.RoleLabel: role, cnpg.ClusterLabel: "db-7-g1", cnpg.PodRoleLabel: cnpg.InstanceRole}, map[string]string{cnpg.RestartAnnotation: "steward-3"}),
			Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Name: "unread"}}, Volumes: []corev1.Volume{{Name: "unread"}}, NodeName: "unread",
				Containers: []corev1.Container{{Name: "unread"}, {Name: cnpg.Container, Image: "postgresql:15.17", Env: []corev1.EnvVar{{Name: "unread"}}, Resources: corev1.ResourceRequirements{Limits: amounts}}},
			},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, PodIP: "10.0.0.7", Message: "unread", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: "unread"}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "unread"}, {
					Name: cnpg.Container, ImageID: "unread", RestartCount: 2, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Unix(1000, 0))}},
				}},
			},
		})
	}
	return v
}

// TestWatched: of what is watched only that is in memory that is looked at, and it means the same as the whole.
func TestWatched(t *testing.T) {
	t.Parallel()
	asked := map[string]probe{
		"db-7-g1-1": {status: engine.ReplicationStatus{Streaming: true}, version: "15.17"}, "db-7-g1-2": {status: engine.ReplicationStatus{Writable: true}, version: "15.17", used: 7},
	}
	for name, change := range map[string]func(v *view){
		"all is well":              func(*view) {},
		"suspended":                func(v *view) { v.postgres().Annotations[cnpg.HibernationAnnotation], v.pods = cnpg.Hibernated, nil },
		"closed":                   func(v *view) { v.write.Spec.Selector[closedLabel] = "yes" },
		"no address":               func(v *view) { v.write.Status.LoadBalancer.Ingress = nil },
		"a Pod goes":               func(v *view) { v.pods[0].DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		"another image":            func(v *view) { v.pods[0].Spec.Containers[1].Image = "postgresql:15.16" },
		"other resources":          func(v *view) { v.pods[1].Spec.Containers[1].Resources.Limits = nil },
		"a restart is due":         func(v *view) { v.pods[1].Annotations[cnpg.RestartAnnotation] = "steward-2" },
		"a Pod isn't ready":        func(v *view) { v.pods[0].Status.Conditions[0].Status = corev1.ConditionFalse },
		"an image isn't there":     func(v *view) { waits(&v.pods[0]).Status.ContainerStatuses[1].State.Waiting.Reason = "ImagePullBackOff" },
		"a Pod isn't scheduled":    func(v *view) { unscheduled(&v.pods[0]) },
		"the operator is on it":    func(v *view) { v.pods = v.pods[:1] },
		"a server doesn't answer":  func(v *view) { v.pods[0].Name = "db-7-g1-3" },
		"the primary was promoted": func(v *view) { v.postgres().Status.TimelineID, v.postgres().Spec.PostgreSQL.Synchronous = 4, nil },
		"a primary handed over":    func(v *view) { handedOver(&v.pods[0]) },
		"restored":                 func(v *view) { v.postgres().Annotations[timelinesAnnotation] = "2/5" },
	} {
		v := whole()
		change(&v)
		seen := view{names: v.names, op: v.op, object: strippedCluster(v.postgres()), write: strippedService(v.write), reads: strippedService(v.reads)}
		for i := range v.pods {
			seen.pods = append(seen.pods, *strippedPod(&v.pods[i]))
		}
		answers := maps.Clone(asked)
		if name == "a server doesn't answer" {
			answers["db-7-g1-3"] = probe{err: errors.New("no answer")}
		}
		if want, got := v.judge(answers), seen.judge(answers); !reflect.DeepEqual(want, got) {
			t.Errorf("%s: the whole says %+v, what is kept of it %+v", name, want, got)
		}
		if planOf(v.object) != planOf(seen.object) || v.object.Image() != seen.object.Image() || switching(v.postgres()) != switching(seen.postgres()) || generationOf(v.write) != generationOf(seen.write) {
			t.Errorf("%s: what is kept is of another plan, image or generation", name)
		}
		for i := range v.pods {
			if life(&v.pods[i]) != life(&seen.pods[i]) || role(&v.pods[i]) != role(&seen.pods[i]) {
				t.Errorf("%s: another Pod", name)
			}
		}
		text, err := json.Marshal([]any{seen.object, seen.write, seen.pods})
		if err != nil || strings.Contains(string(text), "unread") {
			t.Errorf("%s: it has more than is looked at: %s, %v", name, text, err)
		}
	}
}

func waits(p *corev1.Pod) *corev1.Pod {
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	p.Status.ContainerStatuses[1].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	return p
}

func handedOver(p *corev1.Pod) {
	p.Status.ContainerStatuses[1].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 0, Message: "unread"}
}

func unscheduled(p *corev1.Pod) {
	p.Status.ContainerStatuses = nil
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no machine"}, {Type: corev1.PodReady, Status: corev1.ConditionFalse}}
}
