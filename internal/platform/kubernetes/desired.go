package kubernetes

import (
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/mariadb"
)

// markAnnotation is on a cluster's object what its servers are to have read.
const markAnnotation = "steward/mark"

// desired makes objects of what is wanted. It is pure.
type desired struct {
	names
	o     *Options
	op    operator
	want  platform.Wanted
	image string
	// diskMB is the size of the volumes, which never shrink.
	diskMB int
	// restart names the last restart that was asked for, and switchover the last switchover; "" for none.
	restart, switchover string
	// archive is the name under which the servers' WAL and backups are kept; "" where nothing is.
	archive string
	// plugins, begin and from are what the operator's object says of these; begin is nil for a cluster that begins with no data.
	plugins []cnpg.Plugin
	begin   *cnpg.Bootstrap
	from    []cnpg.ExternalCluster
	// bootstrap is what begin is for MariaDB.
	bootstrap *mariadb.BootstrapFrom
	// cert is the servers' certificate.
	cert []byte
	// notes are annotations that stay what they are.
	notes map[string]string
}

// closed reports whether nobody is let in.
func (d desired) closed() bool { return d.want.LockedOut || len(d.want.AllowList) == 0 }

// clients are where customers may come from.
func (d desired) clients() []netip.Prefix {
	if d.closed() {
		return nil
	}
	return d.want.AllowList.Prefixes()
}

func (d desired) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: d.namespace, Labels: d.labels()}
}

// node is what an engine needs to know of any of the cluster's nodes.
func (d desired) node() engine.Node {
	build := d.op.installation(d.image)
	build.Series = d.want.Series
	return engine.Node{
		Cluster: d.id, Installation: build, Clients: d.clients(), Plan: d.want.Plan, Commit: d.want.Commit,
		SSLConnection: d.want.SSLConnection, Encrypted: d.want.Encrypted, ReadOnly: d.want.ReadOnly, Config: d.want.Config,
		ClusterSize: max(1, d.want.Size), Role: cluster.Primary, Replication: d.want.Replication,
	}
}

func (d desired) storageClass() *string {
	class := d.o.StorageClass
	if d.want.Encrypted {
		class = d.o.EncryptedStorageClass
	}
	if class == "" {
		return nil
	}
	return &class
}

func (d desired) resources() corev1.ResourceRequirements {
	amounts := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(max(1, d.want.Plan.VCPUs)), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(d.want.Plan.MemoryMB)<<20, resource.BinarySI),
	}
	return corev1.ResourceRequirements{Requests: amounts, Limits: amounts}
}

// service leads to the primary, or to the replicas. An empty list of ranges would let everybody in: instead
// there is one that is nobody's, and no Pod is led to.
func (d desired) service(name string, to cluster.Role) *corev1.Service {
	s := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: d.meta(name),
		Spec: corev1.ServiceSpec{
			Type: d.o.ServiceType, Selector: d.op.leads(d.cluster(), to),
			Ports: []corev1.ServicePort{{Name: "server", Protocol: corev1.ProtocolTCP, Port: int32(d.want.Port), TargetPort: intstr.FromInt32(int32(d.op.port()))}},
		},
	}
	if d.closed() {
		s.Spec.Selector[closedLabel] = "yes"
	}
	if d.o.ServiceType == corev1.ServiceTypeLoadBalancer {
		// Servers are to see where customers come from.
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		s.Spec.LoadBalancerSourceRanges = []string{"255.255.255.255/32"}
		if !d.closed() {
			s.Spec.LoadBalancerSourceRanges = texts(d.clients())
		}
	}
	return s
}

func texts(prefixes []netip.Prefix) []string {
	all := make([]string, len(prefixes))
	for i, p := range prefixes {
		all[i] = p.String()
	}
	return all
}

// policy lets in members, the operator, us, and who is on the list. It is for all generations: who is let into none of a generation's servers is
// refused by their own rules.
func (d desired) policy() *networkingv1.NetworkPolicy {
	members := metav1.LabelSelector{MatchLabels: map[string]string{clusterLabel: strconv.FormatInt(int64(d.id), 10)}}
	from := make([]networkingv1.NetworkPolicyPeer, 0, len(d.o.Networks)+len(d.clients()))
	for _, p := range slices.Concat(d.o.Networks, d.clients()) {
		from = append(from, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: p.String()}})
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}, ObjectMeta: d.meta(d.base()),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: members, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: append(d.op.ways(networkingv1.NetworkPolicyPeer{PodSelector: &members}),
				networkingv1.NetworkPolicyIngressRule{From: from, Ports: ports(int(d.op.port()))}),
		},
	}
}

func ports(numbers ...int) []networkingv1.NetworkPolicyPort {
	all := make([]networkingv1.NetworkPolicyPort, len(numbers))
	for i, n := range numbers {
		all[i] = networkingv1.NetworkPolicyPort{Protocol: new(corev1.ProtocolTCP), Port: new(intstr.FromInt(n))}
	}
	return all
}

func (d desired) secret(name string, kind corev1.SecretType, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: d.meta(name), Type: kind, Data: data}
}

// operatorPods are the Pods of an operator, in whichever namespace.
func operatorPods(name string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{}, PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": name}},
	}
}
