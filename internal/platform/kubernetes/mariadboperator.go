package kubernetes

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/insight"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes/mariadb"
)

// mariaDBOperator runs MariaDB. What it makes of an object is pure, and needs no Driver.
type mariaDBOperator struct {
	d      *Driver
	my     engine.Driver
	placed engine.Placed
	offer  *offer
}

var _ operator = mariaDBOperator{}

func (mariaDBOperator) engine() cluster.Engine  { return cluster.MySQL }
func (o mariaDBOperator) driver() engine.Driver { return o.my }
func (o mariaDBOperator) hosted() engine.Hosted { return o.placed }
func (mariaDBOperator) blank() object           { return &mariadb.MariaDB{} }
func (mariaDBOperator) resource() string        { return "mariadbs." + mariadb.GroupVersion.Group }
func (mariaDBOperator) port() uint16            { return mariadb.ServerPort }
func (mariaDBOperator) container() string       { return mariadb.Container }
func (o mariaDBOperator) known() []offered      { return o.offer.known() }

func (mariaDBOperator) kinds() []client.ObjectList {
	return []client.ObjectList{&mariadb.List{}, &mariadb.PhysicalBackupList{}}
}

func (mariaDBOperator) labels(object string) map[string]string {
	return map[string]string{mariadb.InstanceLabel: object}
}

// tls implements operator: each generation's own, since one that changes has servers start anew, and its names change with those of the generation.
func (mariaDBOperator) tls(n names) string { return n.cluster() + "-tls" }

func (mariaDBOperator) owns(p *corev1.Pod, object string) bool {
	return p.Labels[mariadb.AppLabel] == mariadb.App && p.Labels[mariadb.InstanceLabel] == object && p.Labels[jobLabel] == ""
}

func (mariaDBOperator) leads(object string, to cluster.Role) map[string]string {
	role := mariadb.ReplicaRole
	if to == cluster.Primary {
		role = mariadb.PrimaryRole
	}
	return map[string]string{mariadb.AppLabel: mariadb.App, mariadb.InstanceLabel: object, mariadb.RoleLabel: role}
}

// ways implements operator: the operator logs in to servers.
func (mariaDBOperator) ways(members networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyIngressRule {
	return []networkingv1.NetworkPolicyIngressRule{
		{From: []networkingv1.NetworkPolicyPeer{members}, Ports: ports(mariadb.ServerPort)},
		{From: []networkingv1.NetworkPolicyPeer{operatorPods("mariadb-operator")}, Ports: ports(mariadb.ServerPort)},
	}
}

// images implements operator: those of a ConfigMap, by their series. The operator has no catalog.
func (o mariaDBOperator) images(ctx context.Context, recent bool) ([]offered, error) {
	return o.offer.read(o.d.o.Now, recent, func() ([]offered, error) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		found := &corev1.ConfigMap{}
		if err := o.d.live.Get(ctx, client.ObjectKey{Namespace: o.d.o.Namespace, Name: o.d.o.MariaDBImages}, found); err != nil {
			return nil, fmt.Errorf("read the images of MariaDB %s: %w", o.d.o.MariaDBImages, explained(err))
		}
		return imagesIn(found), nil
	})
}

func imagesIn(m *corev1.ConfigMap) []offered {
	var all []offered
	for _, series := range slices.Sorted(maps.Keys(m.Data)) {
		all = append(all, offered{series, strings.TrimSpace(m.Data[series])})
	}
	return all
}

// installation implements operator: a series has two numbers.
func (mariaDBOperator) installation(image string) engine.Installation {
	version := versionOf(image)
	parts := strings.SplitN(version, ".", 3)
	return engine.Installation{Flavour: engine.FlavourMariaDB, Series: strings.Join(parts[:min(2, len(parts))], "."), Version: version, Builder: "image"}
}

// names implements operator: those by which the operator asks servers, and they each other. The domain is the one that clusters have by default.
func (mariaDBOperator) names(n names) []string {
	all := []string{"localhost"}
	for _, service := range []string{n.cluster(), n.cluster() + "-primary", n.cluster() + "-secondary", "*." + n.cluster() + "-internal"} {
		for _, domain := range []string{".svc", ".svc.cluster.local"} {
			all = append(all, service+"."+n.namespace+domain)
		}
	}
	return all
}

func (mariaDBOperator) lacks() catalog.Lacks {
	return catalog.Lacks{Moments: true, Logs: true, Nodes: true}
}

// waitsForAddress implements operator.
func (mariaDBOperator) waitsForAddress() bool { return true }

func (mariaDBOperator) address(v view, n *engine.Node) { n.ReadOnly = v.object.ReadOnly() }

func (mariaDBOperator) switchover(context.Context, platform.Wanted, view) (string, func(context.Context) error) {
	return "", nil
}

func (mariaDBOperator) switchoverDue(platform.Wanted, view, platform.Observed) bool { return false }

func (mariaDBOperator) addFailovers(view, *platform.Observed) {}

func (mariaDBOperator) logLine([]byte, bool) (l insight.LogLine, more, ok bool) {
	return l, false, false
}

// Keys of the secret with the servers' files, and where they lie. The operator starts Pods anew for each change of the configuration that it is
// told, so that is no more than where ours is: what can be changed in a server that runs is.
const (
	filesPath   = "/etc/steward"
	filesVolume = "steward"
	superuser   = "password"
)

func (n names) files() string { return n.cluster() + "-files" }

// startedAnnotation is of what a server has to be started anew for: the object has what is wanted, and each Pod what it was started with.
const startedAnnotation = "steward/started-with"

// node is what the engine needs to know of any of the cluster's nodes.
func (mariaDBOperator) node(d desired) engine.Node {
	n := d.node()
	n.Conf = filesPath
	return n
}

const (
	// startTries and startEvery bound how long a server may take to start: it may have to recover.
	startTries, startEvery = 300, 2
	readyEvery             = 2
	probeTimeout           = 5
	stopGrace              = 60
)

// object implements operator.
func (o mariaDBOperator) object(d desired) (object, error) {
	_, restart, err := o.placed.Place(o.node(d))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(d.cert)
	started := restart + "-" + hex.EncodeToString(sum[:8])
	labels, members := d.labels(), max(1, d.want.Size)
	m := &mariadb.MariaDB{
		TypeMeta: metav1.TypeMeta{APIVersion: mariadb.GroupVersion.String(), Kind: "MariaDB"}, ObjectMeta: d.meta(d.cluster()),
		Spec: mariadb.Spec{
			Image: d.image, Replicas: members, InheritMetadata: &mariadb.Metadata{Labels: labels},
			PodMetadata:              &mariadb.Metadata{Annotations: map[string]string{startedAnnotation: started}},
			RootPasswordSecretKeyRef: &mariadb.KeyReference{Name: d.root(), Key: superuser},
			MyCnf:                    "!include " + filesPath + "/" + engine.MainFile + "\n",
			Env:                      []mariadb.EnvVar{{Name: "MARIADB_AUTO_UPGRADE", Value: "1"}}, // of the image: system tables are brought up to a newer build
			Volumes:                  []mariadb.Volume{{Name: filesVolume, Secret: &mariadb.SecretVolume{SecretName: d.files()}}},
			VolumeMounts:             []mariadb.VolumeMount{{Name: filesVolume, MountPath: filesPath, ReadOnly: true}},
			Storage: mariadb.Storage{
				ResizeInUseVolumes: new(true), RetentionPolicy: &mariadb.RetentionPolicy{WhenDeleted: "Delete", WhenScaled: "Retain"},
				VolumeClaimTemplate: &mariadb.VolumeClaimTemplate{
					Metadata: &mariadb.Metadata{Labels: labels}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: d.storageClass(),
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(int64(d.diskMB)<<20, resource.BinarySI)}},
				},
			},
			// Whether customers need TLS is for our own file to say, which takes no restart.
			TLS:            &mariadb.TLS{Enabled: true, Required: new(false), ServerCASecretRef: &mariadb.Reference{Name: d.ca()}, ServerCertSecretRef: &mariadb.Reference{Name: o.tls(d.names)}},
			UpdateStrategy: &mariadb.UpdateStrategy{Type: mariadb.RollingUpdate}, Resources: d.resources(),
			// By default a server that recovers for a minute is killed.
			StartupProbe:           &mariadb.Probe{InitialDelaySeconds: 1, PeriodSeconds: startEvery, TimeoutSeconds: probeTimeout, FailureThreshold: startTries},
			ReadinessProbe:         &mariadb.Probe{InitialDelaySeconds: 1, PeriodSeconds: readyEvery, TimeoutSeconds: probeTimeout},
			TerminationGracePeriod: new(stopGrace), BootstrapFrom: d.bootstrap,
		},
	}
	if d.want.Suspended {
		m.Spec.Replicas = 0
	}
	if d.want.ReadOnly {
		m.Spec.Maintenance = &mariadb.Maintenance{Enabled: true, ReadOnly: true}
	}
	m.Annotations = map[string]string{
		createdAnnotation: createdText(d.want.Cluster), mariadb.MembersAnnotation: strconv.Itoa(members), startedAnnotation: started, markAnnotation: d.mark(),
	}
	maps.Copy(m.Annotations, d.notes)
	if d.restart != "" {
		m.Annotations[restartAnnotation], m.Spec.PodMetadata.Annotations[restartAnnotation] = d.restart, d.restart
	}
	return m, nil
}

// mark changes with whatever a server is to take over while it runs, and with who is let in.
func (d desired) mark() string {
	n := d.op.(mariaDBOperator).node(d)
	text := fmt.Sprintf("%+v %v %v %v %v %v", n.Config, n.Plan, n.SSLConnection, n.ReadOnly, n.Commit, d.clients())
	sum := sha256.Sum256([]byte(text))
	return "steward_" + hex.EncodeToString(sum[:8])
}

// superuserPassword follows from our own, so that there is no further secret to keep.
func superuserPassword(admin []byte) string {
	mac := hmac.New(sha256.New, admin)
	mac.Write([]byte("superuser of mariadb-operator"))
	return hex.EncodeToString(mac.Sum(nil))[:32]
}

// secrets implements operator: the superuser's password is the operator's to use, and nobody else's.
func (o mariaDBOperator) secrets(d desired, s secretValues, _ bool) ([]client.Object, error) {
	files, _, err := o.placed.Place(o.node(d))
	if err != nil {
		return nil, err
	}
	return []client.Object{
		d.secret(d.ca(), corev1.SecretTypeOpaque, map[string][]byte{"ca.crt": s.ca}),
		d.secret(o.tls(d.names), corev1.SecretTypeTLS, map[string][]byte{corev1.TLSCertKey: s.cert, corev1.TLSPrivateKeyKey: s.key}),
		d.secret(d.root(), corev1.SecretTypeOpaque, map[string][]byte{superuser: []byte(superuserPassword(s.admin))}),
		d.secret(d.files(), corev1.SecretTypeOpaque, files),
	}, nil
}

// admit implements operator: a server that is new is given our account, and the customer's.
func (o mariaDBOperator) admit(ctx context.Context, v view) error {
	if v.object == nil || len(v.pods) == 0 {
		return nil
	}
	m := o.d.memory(v.id)
	m.mu.Lock()
	known := m.admitted == v.object.GetUID()
	m.mu.Unlock()
	if known {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, admitTime)
	defer cancel()
	n, err := o.d.node(ctx, v, &v.pods[0])
	if err != nil {
		return nil // it has no address yet
	}
	shared, err := o.placed.Share(ctx, n)
	if err == nil {
		shared.Remote.Session.Close()
	}
	if errors.Is(err, engine.ErrAuthentication) {
		root, failed := o.d.o.Secrets.Secret(ctx, v.id, platform.RootPassword)
		if failed != nil {
			return fmt.Errorf("secret %s: %w", platform.RootPassword, failed)
		}
		n.RootPassword = string(root)
		failpoint.Here("kubernetes: before a server is admitted")
		if err := o.placed.Admit(ctx, n, superuserPassword([]byte(n.AdminPassword))); err != nil {
			return err
		}
		failpoint.Here("kubernetes: after a server is admitted")
		err = nil
	}
	if err != nil {
		return nil // what is wrong its status says
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.admitted = v.object.GetUID()
	return nil
}

// took implements operator: the server takes over what it can of its files, as they are wanted.
func (o mariaDBOperator) took(ctx context.Context, want platform.Wanted, v view, n engine.Node) error {
	made := desired{names: v.names, o: &o.d.o, op: o, want: want, image: v.object.Image()}
	wanted := o.node(made)
	wanted.Listen, wanted.Remote, wanted.AdminPassword, wanted.Role = n.Listen, n.Remote, n.AdminPassword, n.Role
	restart, err := o.my.Reload(ctx, wanted)
	if err == nil && restart {
		err = errors.New("its settings wait for a restart")
	}
	return err
}
