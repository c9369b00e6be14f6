package simulator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/testdir"
)

// crowdHands is how many clusters are made at once.
const crowdHands = 4

// Crowd plays the operator for clusters of one node that are many and alike: their objects, Pods and volumes are in the API server, and
// one PostgreSQL server answers for them all, each by an address, a certificate and a password of its own. Nothing ever happens to them.
type Crowd struct {
	op    *Operator
	watch client.WithWatch

	mu     sync.Mutex
	server *server
	// members are the clusters by the name of their object.
	members map[string]bool
}

// StartCrowd starts a crowd, which ends with the test.
func StartCrowd(t testing.TB, c client.WithWatch, o Options) *Crowd {
	t.Helper()
	o.Client = c
	crowd := &Crowd{op: &Operator{o: o, t: t, dir: testdir.New(t, "steward-crowd-")}, watch: c, members: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	seen := make(chan *cnpg.Cluster, 4096)
	var work sync.WaitGroup
	work.Go(func() { crowd.follow(ctx, seen) })
	for range crowdHands {
		work.Go(func() {
			for c := range seen {
				if err := crowd.join(ctx, c); err != nil && ctx.Err() == nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		work.Wait()
		if crowd.server != nil {
			crowd.server.stop(syscall.SIGKILL)
		}
	})
	return crowd
}

// follow sends each cluster once.
func (c *Crowd) follow(ctx context.Context, seen chan<- *cnpg.Cluster) {
	defer close(seen)
	for ctx.Err() == nil {
		events, err := c.watch.Watch(ctx, &cnpg.ClusterList{}, client.InNamespace(c.op.o.Namespace))
		if err != nil {
			continue // the API server comes back, or the test ends
		}
		for e := range events.ResultChan() {
			if object, is := e.Object.(*cnpg.Cluster); is && e.Type != watch.Deleted && !c.members[object.Name] {
				c.members[object.Name] = true
				seen <- object
			}
		}
	}
}

// join makes a member of a cluster.
func (c *Crowd) join(ctx context.Context, object *cnpg.Cluster) error {
	build, ok := c.op.o.Images[object.Spec.ImageName]
	if !ok {
		return fmt.Errorf("the image %s can't be pulled", object.Spec.ImageName)
	}
	shared, err := c.begin(ctx, object)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.op.addresses++
	n := c.op.addresses
	c.mu.Unlock()
	own := *shared
	own.build = build
	own.ip = fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()%128, n/250, 1+n%250)
	m := &member{crowd: c, object: object, address: netip.AddrFrom4([4]byte{192, 0, byte(2 + n/250), byte(1 + n%250)})}
	if err := m.listen(ctx, own.ip, shared); err != nil {
		return err
	}
	i := &instance{server: &own, name: object.Name + "-1"}
	all := &instances{all: map[int]*instance{1: i}, primary: 1, last: 1}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: i.name, Namespace: object.Namespace, Labels: c.op.labels(object, nil)}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = object.Spec.Resources.Requests.DeepCopy()
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = *object.Spec.Resources.Requests.Memory()
	if err := c.watch.Create(ctx, claim); err != nil {
		return err
	}
	if err := c.op.createPod(ctx, all, i, object); err != nil {
		return err
	}
	c.op.say(ctx, i, true)
	return m.tell(ctx, i)
}

// begin starts the server for all with the first cluster's settings: all have the same.
func (c *Crowd) begin(ctx context.Context, object *cnpg.Cluster) (*server, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		return c.server, nil
	}
	s, err := newServer(c.op.dir, "all", "127.0.0.1", c.op.o.Images[object.Spec.ImageName])
	if err != nil {
		return nil, err
	}
	if err := s.initialise(ctx); err != nil {
		return nil, err
	}
	tls, err := c.op.tls(ctx, object)
	if err != nil {
		return nil, err
	}
	settings := maps.Clone(object.Spec.PostgreSQL.Parameters)
	settings["max_connections"] = "4000"
	if _, err := s.write(settings, append([]string{"host all all 127.0.0.0/8 scram-sha-256"}, object.Spec.PostgreSQL.PgHBA...), tls); err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	if err := c.op.birth(ctx, &instance{server: s, name: object.Name + "-1"}, object); err != nil {
		return nil, err
	}
	c.server = s
	return s, nil
}

// member is a cluster of a crowd.
type member struct {
	crowd   *Crowd
	object  *cnpg.Cluster
	address netip.Addr

	mu   sync.Mutex
	cert *tls.Certificate
}

// tell gives the cluster its address and its status.
func (m *member) tell(ctx context.Context, i *instance) error {
	name, _, _ := strings.Cut(m.object.Name, "-g")
	var way corev1.Service
	if err := m.crowd.watch.Get(ctx, client.ObjectKey{Namespace: m.object.Namespace, Name: name}, &way); err != nil {
		return err
	}
	way.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: m.address.String()}}
	if err := m.crowd.watch.Status().Update(ctx, &way); err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"status":{"phase":"Cluster in healthy state","instances":1,"readyInstances":1,"currentPrimary":%[1]q,"targetPrimary":%[1]q,"timelineID":1,"image":%[2]q,"currentPrimaryTimestamp":%[3]q}}`,
		i.name, m.object.Spec.ImageName, time.Now().UTC().Format(time.RFC3339Nano))
	return m.crowd.watch.Status().Patch(ctx, m.object.DeepCopyObject().(*cnpg.Cluster), client.RawPatch("application/merge-patch+json", patch))
}

var verifierPattern = regexp.MustCompile(`SUPERUSER LOGIN PASSWORD '([^']+)'`)

// listen answers at an address as the cluster's own server.
func (m *member) listen(ctx context.Context, ip string, shared *server) error {
	var birth corev1.Secret
	ref := m.object.Spec.Bootstrap.InitDB.PostInitSQLRefs.SecretRefs[0]
	if err := m.crowd.watch.Get(ctx, client.ObjectKey{Namespace: m.object.Namespace, Name: ref.Name}, &birth); err != nil {
		return err
	}
	verifier := verifierPattern.FindSubmatch(birth.Data[ref.Key])
	if verifier == nil {
		return fmt.Errorf("%s has no password for the administrator", ref.Name)
	}
	if _, err := shared.sql(ctx, "postgres", fmt.Sprintf(`CREATE ROLE "%s" SUPERUSER LOGIN PASSWORD '%s'`, m.object.Name, verifier[1])); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ip, "5432"))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go m.serve(ctx, conn)
		}
	}()
	return nil
}

// serve leads a connection to the server, with the user who has the cluster's password.
func (m *member) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	front := pgproto3.NewBackend(conn, conn)
	if first, err := front.ReceiveStartupMessage(); err != nil {
		return
	} else if _, asks := first.(*pgproto3.SSLRequest); !asks {
		return
	}
	if _, err := conn.Write([]byte{'S'}); err != nil {
		return
	}
	secure := tls.Server(conn, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return m.certificate(ctx) }})
	message, err := pgproto3.NewBackend(secure, secure).ReceiveStartupMessage()
	if err != nil {
		return
	}
	startup, is := message.(*pgproto3.StartupMessage)
	if !is {
		return
	}
	startup.Parameters["user"] = m.object.Name
	encoded, err := startup.Encode(nil)
	if err != nil {
		return
	}
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:5432")
	if err != nil {
		return
	}
	defer server.Close()
	if _, err := server.Write(encoded); err != nil {
		return
	}
	go func() { _, _ = io.Copy(secure, server); conn.Close() }() // how it ends is the ends' business
	_, _ = io.Copy(server, secure)
}

// certificate is the cluster's, as it is in its secret once that names the address.
func (m *member) certificate(ctx context.Context) (*tls.Certificate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cert != nil {
		return m.cert, nil
	}
	data, err := m.crowd.op.tls(ctx, m.object)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, err
	}
	if parsed, err := x509.ParseCertificate(cert.Certificate[0]); err == nil && parsed.VerifyHostname(m.address.String()) == nil {
		m.cert = &cert
	}
	return &cert, nil
}
