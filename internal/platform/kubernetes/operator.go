package kubernetes

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/backup"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes/barman"
)

// operator is what differs between operators, of which each runs the servers of one engine. Ways in, who is let in, secrets, generations and how
// objects are written are the same for all.
type operator interface {
	// engine is that of its servers, which driver and hosted know.
	engine() cluster.Engine
	driver() engine.Driver
	hosted() engine.Hosted
	// blank is an object of its kind, which kubectl calls resource, and kinds are lists of all that is its own of a cluster, what owns the rest first.
	blank() object
	resource() string
	kinds() []client.ObjectList
	// labels are of all that is made for an object with the name.
	labels(object string) map[string]string
	// owns reports whether a Pod is one of the servers of an object with the name; they listen on port, in a container.
	owns(p *corev1.Pod, object string) bool
	port() uint16
	container() string
	// leads are the labels of the Pods that a way in leads to.
	leads(object string, to cluster.Role) map[string]string
	// ways are those by which members and the operator reach servers, beside those who come from networks.
	ways(members networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyIngressRule
	// images are those that there are now, or were a moment ago when recent will do, and known those that somebody saw last.
	images(ctx context.Context, recent bool) ([]offered, error)
	known() []offered
	// installation is an image as a build.
	installation(image string) engine.Installation

	// object is what the operator is asked for, and secrets are what it reads; the latter are whole unless the servers are born. Pure.
	object(d desired) (object, error)
	secrets(d desired, s secretValues, born bool) ([]client.Object, error)
	// tls is the secret with the servers' certificate.
	tls(n names) string
	// waitsForAddress reports whether servers are only made once customers' way in has an address, since another certificate is another start.
	waitsForAddress() bool
	// names are those that servers' certificates need beside the ways in, and lacks is what isn't built for its engine.
	names(n names) []string
	lacks() catalog.Lacks
	// address completes what an engine needs to know of a Pod's server.
	address(v view, n *engine.Node)
	// switchover is what an object is to say of the last switchover that was asked for, and what has one come about now; nil for nothing.
	switchover(ctx context.Context, want platform.Wanted, is view) (said string, begin func(ctx context.Context) error)
	// switchoverDue reports whether a switchover that is wanted has yet to come about.
	switchoverDue(want platform.Wanted, v view, seen platform.Observed) bool
	// admit has a server that is new be one of ours, where the operator can't be told how.
	admit(ctx context.Context, v view) error
	// took is nil when a server has taken all that was written. n shares a session.
	took(ctx context.Context, want platform.Wanted, v view, n engine.Node) error
	// logLine is a line of a Pod's log as it is shown; more says that it is longer, and ok that it is one of the server's.
	logLine(text []byte, cut bool) (l insight.LogLine, more, ok bool)
	// addFailovers tells of changes of the primary.
	addFailovers(v view, seen *platform.Observed)
	keeping
}

// keeping is what differs between operators in backups, where the region keeps any: how one comes about and goes, and a generation comes of it.
type keeping interface {
	// archives reports whether what servers write between backups is archived.
	archives() bool
	// take asks for a backup, unless that was done already, and returns when it can be restored. asked is a blank object of those that it asks by.
	take(ctx context.Context, store *barman.Store, want platform.Wanted, v view, id backup.ID, from cluster.Role) (platform.Kept, error)
	asked() client.Object
	// dropFiles removes a backup's from the bucket, and prune those that none of the backups needs that are kept.
	dropFiles(ctx context.Context, store *barman.Store, r reference) error
	prune(ctx context.Context, store *barman.Store, of cluster.Cluster, keep []reference) error
	// begin has the servers that are made begin with a backup, and returns the moment that their data will be of; zero for the backup's own. The error is
	// platform.ErrRestoreFails when the backup isn't there.
	begin(ctx context.Context, made *desired, from platform.KeptSource, r reference) (reached time.Time, err error)
	// keep takes over from an object what is decided once.
	keep(made *desired, o object)
	// own is what an object leaves when it is gone.
	own(ctx context.Context, object string) ([]client.Object, error)
	// mayWrite reports whether a Pod's server, which began with a backup, can be the one that takes writes, and failures how often Pods failed before
	// there was one.
	mayWrite(v view, p *corev1.Pod) bool
	failures(ctx context.Context, v view) (int, error)
	// takeOver makes a server that began with a backup one of the cluster's: node has the passwords of today. Its own may be TemplatePassword, unless
	// that is empty.
	takeOver(ctx context.Context, n names, node engine.Node) error
}

// object is what an operator looks after: a cluster has one for each generation.
type object interface {
	client.Object
	// Image is what servers run, Members how many there are to be, Disk the size of each one's volume, and Limits what its container gets.
	Image() string
	Members() int
	Disk() string
	Limits() corev1.ResourceList
	// Rests reports whether no server is to run, and ReadOnly whether the disk guard is to hold.
	Rests() bool
	ReadOnly() bool
	// Leader is the Pod that the operator takes for the primary's; "" for none. Says is what it says of all, for people.
	Leader() string
	Says() string
	// Timeline counts changes of the primary, where that is counted, from 1.
	Timeline() int
	// Again is the object as we wrote it, to be written again with what is ours of its names, and with servers that rest or don't.
	Again(mine metav1.ObjectMeta, rests bool) client.Object
}

// offered is an image of a series.
type offered struct{ series, image string }

// secretValues are what a cluster's secrets have.
type secretValues struct {
	keys
	root      []byte
	cert, key []byte
}

// operatorOf is the one that runs an engine's servers in this region; nil for none.
func (d *Driver) operatorOf(e cluster.Engine) operator {
	for _, o := range d.operators {
		if o.engine() == e {
			return o
		}
	}
	return nil
}
