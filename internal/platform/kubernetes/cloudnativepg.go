package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes/cnpg"
)

// cloudNativePG runs PostgreSQL. What it makes of an object is pure, and needs no Driver.
type cloudNativePG struct {
	d     *Driver
	pg    engine.Driver
	told  engine.Told
	offer *offer
}

var _ operator = cloudNativePG{}

func (cloudNativePG) engine() cluster.Engine  { return cluster.PostgreSQL }
func (o cloudNativePG) driver() engine.Driver { return o.pg }
func (o cloudNativePG) hosted() engine.Hosted { return o.told }
func (cloudNativePG) blank() object           { return &cnpg.Cluster{} }
func (cloudNativePG) resource() string        { return "clusters." + cnpg.GroupVersion.Group }
func (cloudNativePG) port() uint16            { return cnpg.ServerPort }
func (cloudNativePG) container() string       { return cnpg.Container }
func (o cloudNativePG) known() []offered      { return o.offer.known() }

func (cloudNativePG) kinds() []client.ObjectList {
	return []client.ObjectList{&cnpg.ClusterList{}, &cnpg.BackupList{}}
}

func (cloudNativePG) labels(object string) map[string]string {
	return map[string]string{cnpg.ClusterLabel: object}
}

// tls implements operator: names of servers' own don't change.
func (cloudNativePG) tls(n names) string { return n.base() + "-tls" }

func (cloudNativePG) owns(p *corev1.Pod, object string) bool {
	return p.Labels[cnpg.ClusterLabel] == object && p.Labels[cnpg.PodRoleLabel] == cnpg.InstanceRole
}

func (cloudNativePG) leads(object string, to cluster.Role) map[string]string {
	role := cnpg.ReplicaRole
	if to == cluster.Primary {
		role = cnpg.PrimaryRole
	}
	return map[string]string{cnpg.ClusterLabel: object, cnpg.RoleLabel: role}
}

// ways implements operator: members ask each other for what they have written, and the operator asks them how they are.
func (cloudNativePG) ways(members networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyIngressRule {
	return []networkingv1.NetworkPolicyIngressRule{
		{From: []networkingv1.NetworkPolicyPeer{members}, Ports: ports(cnpg.ServerPort, cnpg.StatusPort)},
		{From: []networkingv1.NetworkPolicyPeer{operatorPods("cloudnative-pg")}, Ports: ports(cnpg.StatusPort)},
	}
}

// images implements operator: those of the catalog.
func (o cloudNativePG) images(ctx context.Context, recent bool) ([]offered, error) {
	return o.offer.read(o.d.o.Now, recent, func() ([]offered, error) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		found := &cnpg.ImageCatalog{}
		if err := o.d.live.Get(ctx, client.ObjectKey{Namespace: o.d.o.Namespace, Name: o.d.o.ImageCatalog}, found); err != nil {
			return nil, fmt.Errorf("read the image catalog %s: %w", o.d.o.ImageCatalog, explained(err))
		}
		var all []offered
		for _, i := range found.Spec.Images {
			all = append(all, offered{strconv.Itoa(i.Major), i.Image})
		}
		return all, nil
	})
}

// installation implements operator: a cluster is with the build that its object names.
func (cloudNativePG) installation(image string) engine.Installation {
	version := versionOf(image)
	return engine.Installation{Flavour: engine.FlavourPostgreSQL, Series: cluster.Major(version), Version: version, Builder: "image"}
}

// address implements operator: replicas receive by the name of the operator's own Service.
func (cloudNativePG) address(v view, n *engine.Node) {
	n.Source = engine.Peer{Run: v.cluster() + "-rw", Listen: netip.AddrPortFrom(netip.IPv4Unspecified(), n.Listen.Port())}
}

// postgres is the object of CloudNativePG; nil for none.
func (v view) postgres() *cnpg.Cluster {
	c, _ := v.object.(*cnpg.Cluster)
	return c
}

func (o cloudNativePG) switchover(ctx context.Context, want platform.Wanted, is view) (said string, begin func(ctx context.Context) error) {
	last, successor := o.d.switchover(ctx, want, is)
	if successor == "" {
		return last.String(), nil
	}
	return last.String(), func(ctx context.Context) error { return o.d.promote(ctx, is.names, successor) }
}

func (cloudNativePG) switchoverDue(want platform.Wanted, v view, seen platform.Observed) bool {
	c, from := v.postgres(), want.Switchover
	return from != nil && want.Size > 1 && (switching(c) || seen.Nodes[0].Ordinal == *from && !switchoverOf(c).cameAbout(c, *from))
}

// names implements operator: the operator asks servers by another certificate than theirs.
func (cloudNativePG) names(names) []string { return nil }

func (cloudNativePG) lacks() catalog.Lacks { return catalog.Lacks{} }

// admit implements operator: servers are told at their birth.
func (cloudNativePG) admit(context.Context, view) error { return nil }

// waitsForAddress implements operator: servers read another certificate while they run.
func (cloudNativePG) waitsForAddress() bool { return false }

// took implements operator.
func (o cloudNativePG) took(ctx context.Context, _ platform.Wanted, v view, n engine.Node) error {
	done, err := o.told.Marked(ctx, n, v.object.GetAnnotations()[markAnnotation])
	if err == nil && !done {
		err = errors.New("it hasn't read its settings yet")
	}
	return err
}

func (o cloudNativePG) logLine(text []byte, cut bool) (l insight.LogLine, more, ok bool) {
	said, ok := cnpg.ParseLog(text, cut)
	if !ok {
		return l, false, false
	}
	if len(said.Message) > mostStatement {
		said.Message, cut = said.Message[:mostStatement], true
	}
	l = o.told.LogEntry(engine.LogRecord{
		Time: said.At, User: said.User, Database: said.Database, Severity: said.Severity, Message: said.Message, Cut: cut,
	})
	return l, cut || len(said.Message) > insight.MostLog, true
}

// addFailovers implements operator: each change begins a timeline.
func (cloudNativePG) addFailovers(v view, seen *platform.Observed) {
	c := v.postgres()
	if c == nil {
		return
	}
	s, began := c.Status, timelinesOf(c)
	seen.Failovers = began.failovers + max(0, s.TimelineID-began.timeline)
	if s.TimelineID <= began.timeline {
		return
	}
	if at, err := time.Parse(time.RFC3339Nano, s.CurrentPrimaryTimestamp); err == nil {
		seen.LastFailover = at
	}
	if h := switchoverOf(c); h.timeline == s.TimelineID && h.pod == s.CurrentPrimary {
		seen.LastChange = cluster.PrimaryChange{From: h.from, To: h.to, Planned: true}
		seen.FailoverReason = fmt.Sprintf("Node %d handed over to node %d, as was asked for; no acknowledged write was lost.", h.from, h.to)
		return
	}
	lost := "writes that were acknowledged in the last moments before may be lost"
	if c.Spec.PostgreSQL.Synchronous != nil {
		lost = "no acknowledged write was lost, since each waits for a replica"
	}
	seen.FailoverReason = fmt.Sprintf("%s took over as the primary; if the one before failed, %s.", s.CurrentPrimary, lost)
}

// Times that an operator gives a server, in seconds. Its own defaults are up to an hour, in which nobody is served.
const (
	startDelay      = 600
	stopDelay       = 60
	switchoverDelay = 60
)

// object implements operator. Its mark is what its servers have when they have read all of it.
func (o cloudNativePG) object(d desired) (object, error) {
	node := d.node()
	settings, err := o.told.Settings(node)
	if err != nil {
		return nil, err
	}
	if d.archive != "" {
		settings["archive_timeout"] = archiveTimeout
	}
	maps.DeleteFunc(settings, func(name, _ string) bool { return cnpg.Decides(name) })
	access := o.told.Access(node, d.o.Networks)
	mark := markOf(settings, access)
	name, value, rule := o.told.Mark(mark)
	settings[name] = value
	c := &cnpg.Cluster{
		TypeMeta: metav1.TypeMeta{APIVersion: cnpg.GroupVersion.String(), Kind: "Cluster"}, ObjectMeta: d.meta(d.cluster()),
		Spec: cnpg.ClusterSpec{
			Instances: node.ClusterSize, ImageName: d.image, PrimaryUpdateStrategy: "unsupervised", PrimaryUpdateMethod: "switchover",
			InheritedMetadata: &cnpg.Metadata{Labels: d.labels()}, Bootstrap: o.bootstrap(d),
			Plugins: d.plugins, ExternalClusters: d.from,
			Certificates: &cnpg.Certificates{ServerCASecret: d.ca(), ServerTLSSecret: o.tls(d.names)},
			PostgreSQL:   cnpg.PostgreSQL{Parameters: settings, PgHBA: append([]string{rule}, access...), Synchronous: synchronous(d)},
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
	for name, value := range map[string]string{cnpg.RestartAnnotation: d.restart, switchoverAnnotation: d.switchover, archiveAnnotation: d.archive} {
		if value != "" {
			c.Annotations[name] = value
		}
	}
	return c, nil
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

// bootstrap is how the first server comes to its data.
func (o cloudNativePG) bootstrap(d desired) *cnpg.Bootstrap {
	if d.begin != nil {
		return d.begin
	}
	database, owner := o.told.FirstDatabase()
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
func synchronous(d desired) *cnpg.Synchronous {
	if d.want.Size <= 1 || d.want.Commit == "" || d.want.Commit == cluster.CommitLocal || d.want.Commit == cluster.CommitOff {
		return nil
	}
	return &cnpg.Synchronous{Method: "any", Number: 1, DataDurability: "required", FailoverQuorum: true}
}

// reloaded marks a secret that the operator is to read again when it changes.
func reloaded(s *corev1.Secret) *corev1.Secret {
	s.Labels[cnpg.ReloadLabel] = strconv.FormatBool(true)
	return s
}

// Keys of the secret with what a server is told at its birth.
const (
	birthAdministration = "administration.sql"
	birthTemplate       = "template.sql"
	birthFirst          = "first.sql"
)

// secrets implements operator: what a server is told at its birth only as long as it isn't born.
func (o cloudNativePG) secrets(d desired, s secretValues, born bool) ([]client.Object, error) {
	_, owner := o.told.FirstDatabase()
	all := []client.Object{
		reloaded(d.secret(d.ca(), corev1.SecretTypeOpaque, map[string][]byte{"ca.crt": s.ca})),
		reloaded(d.secret(o.tls(d.names), corev1.SecretTypeTLS, map[string][]byte{corev1.TLSCertKey: s.cert, corev1.TLSPrivateKeyKey: s.key})),
		reloaded(d.secret(d.root(), corev1.SecretTypeBasicAuth, map[string][]byte{corev1.BasicAuthUsernameKey: []byte(owner), corev1.BasicAuthPasswordKey: s.root})),
	}
	if born {
		return all, nil
	}
	node := d.node()
	node.AdminPassword, node.RootPassword = string(s.admin), string(s.root)
	birth, err := o.told.Birth(node)
	if err != nil {
		return nil, err
	}
	return append(all, d.secret(d.birth(), corev1.SecretTypeOpaque, map[string][]byte{
		birthAdministration: []byte(birth.Administration), birthTemplate: []byte(birth.Template), birthFirst: []byte(birth.First),
	})), nil
}

// keep implements keeping.
func (cloudNativePG) keep(d *desired, o object) {
	c := o.(*cnpg.Cluster)
	d.archive, d.plugins, d.begin, d.from = c.Annotations[archiveAnnotation], c.Spec.Plugins, c.Spec.Bootstrap, c.Spec.ExternalClusters
}

// archives reports whether the database's backups are kept in the region, and what is written between them.
func (d desired) archives() bool { return d.o.keepsBackups() && d.op.archives() }

func (o *Options) keepsBackups() bool { return o.ObjectStore != "" }
