package kubernetes

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/mysql"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes/mariadb"
)

// mariaDBMade is a database of MariaDB that is wanted.
func mariaDBMade() desired {
	made := desired{
		names: names{id: 7, namespace: "test", generation: 1}, op: mariaDBOperator{placed: mysql.New(slog.New(slog.DiscardHandler))},
		image: "registry/mariadb:10.11.19", diskMB: 1024, cert: []byte("one"),
		o: &Options{ServiceType: corev1.ServiceTypeLoadBalancer, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		want: platform.Wanted{Cluster: cluster.Cluster{Port: 3306, Spec: cluster.Spec{
			Engine: cluster.MySQL, Series: "10.11", Size: 1, AllowList: cluster.AllowList{"192.0.2.1"}, SSLConnection: true,
		}}},
	}
	made.want.Plan.MemoryMB, made.want.Plan.DiskMB, made.want.Plan.VCPUs = 1024, 25600, 1
	return made
}

// TestMariaDBObject: what is told to the operator, which starts servers anew for it, changes with what they have to be started anew for, and with nothing else.
func TestMariaDBObject(t *testing.T) {
	t.Parallel()
	object := func(made desired) *mariadb.MariaDB {
		o, err := made.op.object(made)
		if err != nil {
			t.Fatal(err)
		}
		return o.(*mariadb.MariaDB)
	}
	first := object(mariaDBMade())
	for name, v := range map[string]struct {
		change func(d *desired)
		anew   bool
	}{
		"nothing":               {func(*desired) {}, false},
		"who is let in":         {func(d *desired) { d.want.AllowList = nil }, false},
		"whether TLS is needed": {func(d *desired) { d.want.SSLConnection = false }, false},
		"a larger plan":         {func(d *desired) { d.want.Plan.MemoryMB = 2048 }, true},
		"another certificate":   {func(d *desired) { d.cert = []byte("two") }, true},
		"another image":         {func(d *desired) { d.image = "registry/mariadb:10.11.20" }, true},
		"a restart":             {func(d *desired) { d.restart = "steward-4" }, true},
	} {
		made := mariaDBMade()
		v.change(&made)
		o := object(made)
		pods := func(m *mariadb.MariaDB) []any {
			return []any{m.Spec.Image, m.Spec.PodMetadata, m.Spec.MyCnf, m.Spec.Resources, m.Spec.TLS, m.Spec.Volumes}
		}
		if anew := !reflect.DeepEqual(pods(o), pods(first)); anew != v.anew {
			t.Errorf("%s: Pods are made anew: %v", name, anew)
		}
		if name != "nothing" && name != "a restart" && !v.anew && o.Annotations[markAnnotation] == first.Annotations[markAnnotation] {
			t.Errorf("%s: no server is looked at for it", name)
		}
		if o.Spec.Storage.RetentionPolicy.WhenScaled != "Retain" || o.Spec.Storage.VolumeClaimTemplate.Metadata.Labels[clusterLabel] != "7" {
			t.Errorf("%s: its volume doesn't outlive a suspend, or isn't known for the cluster's: %+v", name, o.Spec.Storage)
		}
	}
	suspended := mariaDBMade()
	suspended.want.Suspended, suspended.want.ReadOnly = true, true
	if o := object(suspended); !o.Rests() || o.Members() != 1 || !o.ReadOnly() {
		t.Errorf("suspended: %+v", o.Spec)
	}
	closed := mariaDBMade()
	closed.want.AllowList = nil
	if s := closed.service("db-7", cluster.Primary); s.Spec.Selector[closedLabel] == "" || s.Spec.LoadBalancerSourceRanges[0] != "255.255.255.255/32" {
		t.Errorf("an empty list lets in: %+v", s.Spec)
	}
	for _, rule := range mariaDBMade().policy().Spec.Ingress {
		if len(rule.From) == 0 || len(rule.Ports) != 1 || rule.Ports[0].Port.IntValue() != 3306 {
			t.Errorf("a rule for everybody, or for another port: %+v", rule)
		}
	}
}

// TestMariaDBSecrets: the operator's password isn't ours, and the certificate has the names by which the operator asks.
func TestMariaDBSecrets(t *testing.T) {
	t.Parallel()
	made := mariaDBMade()
	all, err := made.op.secrets(made, secretValues{keys: keys{admin: []byte("admin-password"), ca: []byte("ca")}, root: []byte("root-password"), cert: []byte("c"), key: []byte("k")}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		text, err := json.Marshal(o.(*corev1.Secret).Data)
		values := slices.Collect(maps.Values(o.(*corev1.Secret).Data))
		if err != nil || slices.ContainsFunc(values, func(v []byte) bool {
			return strings.Contains(string(v), "admin-password") || strings.Contains(string(v), "root-password")
		}) {
			t.Errorf("%s tells a password: %s", o.GetName(), text)
		}
	}
	names := made.op.names(made.names)
	for _, want := range []string{"db-7-g1.test.svc.cluster.local", "*.db-7-g1-internal.test.svc.cluster.local", "localhost"} {
		if !slices.Contains(names, want) {
			t.Errorf("the certificate hasn't %s: %v", want, names)
		}
	}
}

// TestMariaDBWatched: of what is watched only that is in memory that is looked at, and it means the same as the whole.
func TestMariaDBWatched(t *testing.T) {
	t.Parallel()
	made := mariaDBMade()
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	asked := map[string]probe{"db-7-g1-0": {status: engine.ReplicationStatus{Writable: true}, version: "10.11.19", used: 7}}
	for name, change := range map[string]func(m *mariadb.MariaDB, p *corev1.Pod){
		"all is well": func(*mariadb.MariaDB, *corev1.Pod) {},
		"suspended":   func(m *mariadb.MariaDB, _ *corev1.Pod) { m.Spec.Replicas = 0 },
		"the guard holds": func(m *mariadb.MariaDB, _ *corev1.Pod) {
			m.Spec.Maintenance = &mariadb.Maintenance{Enabled: true, ReadOnly: true}
		},
		"another image":     func(m *mariadb.MariaDB, _ *corev1.Pod) { m.Spec.Image = "registry/mariadb:10.11.20" },
		"other settings":    func(_ *mariadb.MariaDB, p *corev1.Pod) { p.Annotations[startedAnnotation] = "before" },
		"a Pod isn't ready": func(_ *mariadb.MariaDB, p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse },
	} {
		o, err := made.op.object(made)
		if err != nil {
			t.Fatal(err)
		}
		m := o.(*mariadb.MariaDB)
		m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "unread"}}
		m.Status = mariadb.Status{CurrentPrimary: "db-7-g1-0", Conditions: []metav1.Condition{{Type: "Ready", Reason: "StatefulSetReady", Message: "Running"}, {Type: "Updated", Message: "unread"}}}
		m.Spec.Resources.Limits = amounts
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "db-7-g1-0", Labels: map[string]string{mariadb.RoleLabel: mariadb.PrimaryRole}, Annotations: maps.Clone(m.Spec.PodMetadata.Annotations)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: mariadb.Container, Image: m.Spec.Image, Resources: corev1.ResourceRequirements{Limits: amounts}}}},
			Status: corev1.PodStatus{PodIP: "10.0.0.7", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}, ContainerStatuses: []corev1.ContainerStatus{{
				Name: mariadb.Container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Unix(1000, 0))}},
			}}},
		}
		change(m, p)
		whole := view{names: made.names, op: made.op, object: m, pods: []corev1.Pod{*p}, write: made.service("db-7", cluster.Primary)}
		seen := view{names: made.names, op: made.op, object: strippedMariaDB(m), pods: []corev1.Pod{*strippedPod(p)}, write: strippedService(whole.write)}
		if want, got := whole.judge(asked), seen.judge(asked); !reflect.DeepEqual(want, got) {
			t.Errorf("%s: the whole says %+v, what is kept of it %+v", name, want, got)
		}
		if planOf(whole.object) != planOf(seen.object) || whole.object.Image() != seen.object.Image() || whole.object.Says() != seen.object.Says() {
			t.Errorf("%s: what is kept is of another plan or image", name)
		}
		if text, err := json.Marshal(seen.object); err != nil || strings.Contains(string(text), "unread") || strings.Contains(string(text), "include") {
			t.Errorf("%s: it has more than is looked at: %s, %v", name, text, err)
		}
	}
}
