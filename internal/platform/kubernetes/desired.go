package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
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
)

// Times that an operator gives a server, in seconds. Its own defaults are up to an hour, in which nobody is served.
const (
	startDelay      = 600
	stopDelay       = 60
	switchoverDelay = 60
)

// markAnnotation is on a cluster's object what its servers are to have read.
const markAnnotation = "steward/mark"

// desired makes objects of what is wanted. It is pure.
type desired struct {
	names
	o      *Options
	hosted engine.Hosted
	want   platform.Wanted
	image  string
	// diskMB is the size of the volumes, which never shrink.
	diskMB int
	// restart names the last restart that was asked for, and handover the last handover; "" for none.
	restart, handover string
	// archive is the name under which the servers' WAL and backups are kept; "" where nothing is.
	archive string
	// plugins, begin and from are what the operator's object says of these; begin is nil for a cluster that begins with no data.
	plugins []cnpg.Plugin
	begin   *cnpg.Bootstrap
	from    []cnpg.ExternalCluster
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
	return engine.Node{
		Cluster: d.id, Installation: installation(d.want.Series, d.image), Clients: d.clients(), Plan: d.want.Plan, Commit: d.want.Commit,
		SSLConnection: d.want.SSLConnection, Encrypted: d.want.Encrypted, ReadOnly: d.want.ReadOnly, Config: d.want.Config,
		ClusterSize: max(1, d.want.Size), Role: cluster.Primary, Replication: d.want.Replication,
	}
}

// cluster is the operator's object, and the mark that its servers have when they have read all of it.
func (d desired) object() (c *cnpg.Cluster, mark string, err error) {
	node := d.node()
	settings, err := d.hosted.Settings(node)
	if err != nil {
		return nil, "", err
	}
	if d.archive != "" {
		settings["archive_timeout"] = archiveTimeout
	}
	maps.DeleteFunc(settings, func(name, _ string) bool { return cnpg.Decides(name) })
	access := d.hosted.Access(node, d.o.Networks)
	mark = markOf(settings, access)
	name, value, rule := d.hosted.Mark(mark)
	settings[name] = value
	c = &cnpg.Cluster{
		TypeMeta: metav1.TypeMeta{APIVersion: cnpg.GroupVersion.String(), Kind: "Cluster"}, ObjectMeta: d.meta(d.cluster()),
		Spec: cnpg.ClusterSpec{
			Instances: node.ClusterSize, ImageName: d.image, PrimaryUpdateStrategy: "unsupervised", PrimaryUpdateMethod: "switchover",
			InheritedMetadata: &cnpg.Metadata{Labels: d.labels()}, Bootstrap: d.bootstrap(),
			Plugins: d.plugins, ExternalClusters: d.from,
			Certificates: &cnpg.Certificates{ServerCASecret: d.ca(), ServerTLSSecret: d.tls()},
			PostgreSQL:   cnpg.PostgreSQL{Parameters: settings, PgHBA: append([]string{rule}, access...), Synchronous: d.synchronous()},
			Storage:      cnpg.Storage{Size: fmt.Sprintf("%dMi", d.diskMB), StorageClass: d.storageClass(), ResizeInUseVolumes: new(true)},
			Resources:    d.resources(), EnableSuperuserAccess: new(false), EnablePDB: new(node.ClusterSize > 1),
			StartDelay: startDelay, StopDelay: stopDelay, SmartShutdownTimeout: new(0), SwitchoverDelay: switchoverDelay,
		},
	}
	c.Annotations = map[string]string{markAnnotation: mark, createdAnnotation: createdText(d.want.Cluster), cnpg.HibernationAnnotation: cnpg.Awake}
	if d.want.Suspended {
		c.Annotations[cnpg.HibernationAnnotation] = cnpg.Hibernated
	}
	maps.Copy(c.Annotations, d.notes)
	for name, value := range map[string]string{cnpg.RestartAnnotation: d.restart, handoverAnnotation: d.handover, archiveAnnotation: d.archive} {
		if value != "" {
			c.Annotations[name] = value
		}
	}
	return c, mark, nil
}

// markOf changes with any of the settings and rules.
func markOf(settings map[string]string, access []string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(sum, "%q=%q\n", name, settings[name])
	}
	fmt.Fprintf(sum, "%q", access)
	return "steward_" + hex.EncodeToString(sum.Sum(nil)[:8])
}

func (d desired) bootstrap() *cnpg.Bootstrap {
	if d.begin != nil {
		return d.begin
	}
	database, owner := d.hosted.FirstDatabase()
	from := func(key string) *cnpg.SQLRefs {
		return &cnpg.SQLRefs{SecretRefs: []cnpg.KeyReference{{Name: d.birth(), Key: key}}}
	}
	return &cnpg.Bootstrap{InitDB: &cnpg.InitDB{
		Database: database, Owner: owner, Secret: &cnpg.Reference{Name: d.root()}, DataChecksums: new(true),
		Encoding: "UTF8", LocaleCollate: "C", LocaleCType: "C.UTF-8",
		PostInitSQLRefs: from(birthAdministration), PostInitTemplateSQLRefs: from(birthTemplate), PostInitApplicationSQLRefs: from(birthFirst),
	}}
}

// synchronous has a commit wait for a replica when its customer was promised that. Without "required" the operator
// would drop the promise as soon as no replica is there.
func (d desired) synchronous() *cnpg.Synchronous {
	if d.want.Size <= 1 || d.want.Commit == "" || d.want.Commit == cluster.CommitLocal || d.want.Commit == cluster.CommitOff {
		return nil
	}
	return &cnpg.Synchronous{Method: "any", Number: 1, DataDurability: "required", FailoverQuorum: true}
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
func (d desired) service(name, role string) *corev1.Service {
	s := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: d.meta(name),
		Spec: corev1.ServiceSpec{
			Type: d.o.ServiceType, Selector: map[string]string{cnpg.ClusterLabel: d.cluster(), cnpg.RoleLabel: role},
			Ports: []corev1.ServicePort{{Name: "server", Protocol: corev1.ProtocolTCP, Port: int32(d.want.Port), TargetPort: intstr.FromInt32(cnpg.ServerPort)}},
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
	operators := metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "cloudnative-pg"}}
	from := make([]networkingv1.NetworkPolicyPeer, 0, len(d.o.Networks)+len(d.clients()))
	for _, p := range slices.Concat(d.o.Networks, d.clients()) {
		from = append(from, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: p.String()}})
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}, ObjectMeta: d.meta(d.base()),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: members, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &members}}, Ports: ports(cnpg.ServerPort, cnpg.StatusPort)},
				{From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: &operators}}, Ports: ports(cnpg.StatusPort)},
				{From: from, Ports: ports(cnpg.ServerPort)},
			},
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

// Keys of the secret with what a server is told at its birth.
const (
	birthAdministration = "administration.sql"
	birthTemplate       = "template.sql"
	birthFirst          = "first.sql"
)

func (d desired) secret(name string, kind corev1.SecretType, read bool, data map[string][]byte) *corev1.Secret {
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: d.meta(name), Type: kind, Data: data}
	if read {
		s.Labels[cnpg.ReloadLabel] = strconv.FormatBool(true)
	}
	return s
}
