package kubernetes

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"steward/internal/archive/archivetest"
	"steward/internal/engine/mysql"
	"steward/internal/engine/postgresql"
	"steward/internal/kubetest"
	"steward/internal/platform/kubernetes"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/mariadb"
	"steward/internal/platform/kubernetes/simulator"
	"steward/test/harness"
)

// world is a namespace with an operator, and the way of a steward with a small role to it.
type world struct {
	c         client.WithWatch
	namespace string
	op        *simulator.Operator
	// mdb is MariaDB's operator, where there is one.
	mdb *simulator.MariaDB
	// admin may do anything.
	admin *rest.Config
	// images are those that Pods can have, the catalog's first.
	images []string
	wire   *wire
	// bucket is where backups are kept.
	bucket *archivetest.Bucket
	// catalog is the file with the regions, and menu what belongs into it.
	catalog, menu string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	kubernetes.LogTo(slog.New(slog.DiscardHandler))
	s := kubetest.Start(t)
	scheme, err := kubernetes.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(s.Admin(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	simulator.Define(t, c)
	w := &world{c: c, admin: s.Admin(t), namespace: s.Namespace(t, c), catalog: filepath.Join(t.TempDir(), "catalog.yaml")}
	w.make(t, "../../deploy/kubernetes", map[string]string{"databases": w.namespace})
	w.bucket = archivetest.NewBucket(t)
	simulator.Keep(t, c, w.namespace, "backups", w.bucket)
	var images cnpg.ImageCatalog
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "postgresql"}, &images); err != nil {
		t.Fatal(err)
	}
	image := images.Spec.Images[0].Image
	w.images = []string{image, strings.Replace(image, "15.17", "15.18", 1)}
	w.op = simulator.Start(t, simulator.Options{Client: c, Namespace: w.namespace, Images: simulator.Images(t, postgresql.New(), map[string]string{w.images[0]: "15.17", w.images[1]: "15.18"})})
	config := s.User(t, "system:serviceaccount:"+w.namespace+":steward")
	w.wire = newWire(t, strings.TrimPrefix(config.Host, "https://"))
	config.Host = "https://" + w.wire.address
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, kubeconfig, kubetest.Kubeconfig(config, w.namespace))
	w.menu = fmt.Sprintf("regions:\n  - {id: local, label: This machine, country: zz, status: ok}\n"+
		"  - {id: kube, label: Over there, country: de, status: ok, platform: {kind: kubernetes, kubeconfig: %s, namespace: %s, images: postgresql, object_store: backups, from: [127.0.0.1/32]}}\n",
		kubeconfig, w.namespace)
	write(t, w.catalog, w.menu)
	return w
}

// addMariaDB has databases of MariaDB in the region, too; images are theirs then.
func (w *world) addMariaDB(t *testing.T) {
	t.Helper()
	w.makeFile(t, "../../deploy/kubernetes/mariadb.yaml", map[string]string{"databases": w.namespace})
	images := w.mariaDBImages(t)
	image := images.Data["10.11"]
	newer := strings.Replace(image, "10.11.15", "10.11.19", 1)
	w.images = []string{strings.Replace(image, "10.11.15", "10.11.18", 1), newer}
	images.Data = map[string]string{"10.11": newer}
	if err := w.c.Update(t.Context(), images); err != nil {
		t.Fatal(err)
	}
	w.mdb = simulator.StartMariaDB(t, simulator.Options{
		Client: w.c, Namespace: w.namespace,
		Images: simulator.Images(t, mysql.New(slog.New(slog.DiscardHandler)), map[string]string{w.images[0]: "10.11.18", w.images[1]: "10.11.19"}),
	})
	w.menu = strings.Replace(w.menu, "images: postgresql", "images: postgresql, mariadb_images: mariadb", 1)
	write(t, w.catalog, w.menu)
}

// make makes what a user makes by `kubectl apply -k` of a folder, in the test's namespaces in place of those of the same names in it.
func (w *world) make(t *testing.T, dir string, namespaces map[string]string) {
	t.Helper()
	var base struct{ Resources []string }
	if err := yaml.Unmarshal(readFile(t, filepath.Join(dir, "kustomization.yaml")), &base); err != nil {
		t.Fatal(err)
	}
	for _, name := range base.Resources {
		w.makeFile(t, filepath.Join(dir, name), namespaces)
	}
}

// makeFile makes the objects of a file; those without a namespace are for the kustomization's.
func (w *world) makeFile(t *testing.T, path string, namespaces map[string]string) {
	t.Helper()
	var base struct{ Namespace string }
	if err := yaml.Unmarshal(readFile(t, filepath.Join(filepath.Dir(path), "kustomization.yaml")), &base); err != nil {
		t.Fatal(err)
	}
	for text := range strings.SplitSeq(string(readFile(t, path)), "\n---\n") {
		for name, own := range namespaces {
			text = strings.ReplaceAll(text, "namespace: "+name+"\n", "namespace: "+own+"\n")
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		switch {
		case o.GetKind() == "Namespace" && namespaces[o.GetName()] == w.namespace:
			continue // the test has one
		case o.GetKind() == "Namespace":
			o.SetName(namespaces[o.GetName()])
		case o.GetNamespace() == "":
			o.SetNamespace(namespaces[base.Namespace])
		}
		if err := client.WithFieldValidation(w.c, "Strict").Create(t.Context(), o); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

func unstructuredOf(version, kind string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	return o
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// connect goes the way that a load balancer leads, from an address: past the ranges of the Service to the primary's Pod, with
// the certificate verified for the address that customers know.
func (w *world) connect(ctx context.Context, d harness.Database, c harness.Credentials, source string) (close func(), err error) {
	db, err := w.open(ctx, d, c, source)
	if err != nil {
		return nil, err
	}
	return func() { db.Close() }, nil
}

// open is connect for who has something to ask.
func (w *world) open(ctx context.Context, d harness.Database, c harness.Credentials, source string) (*sql.DB, error) {
	at := fmt.Sprintf("db-%d-g%d", d.ID, w.generation(ctx, d))
	return harness.ConnectBy(ctx, d, c, func(ctx context.Context, network, _ string) (net.Conn, error) {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: 10 * time.Second}
		if d.Engine == "mysql" {
			pod, err := w.mariaDBPod(ctx, d)
			if err != nil {
				return nil, err
			}
			return dialer.DialContext(ctx, network, net.JoinHostPort(pod, "3306"))
		}
		return dialer.DialContext(ctx, network, net.JoinHostPort(w.op.Address(at), "5432"))
	})
}

// mariaDBPod is the address of the Pod that a database's way in leads to.
func (w *world) mariaDBPod(ctx context.Context, d harness.Database) (string, error) {
	var way corev1.Service
	if err := w.c.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: fmt.Sprintf("db-%d", d.ID)}, &way); err != nil {
		return "", err
	}
	var pods corev1.PodList
	if err := w.c.List(ctx, &pods, client.InNamespace(w.namespace), client.MatchingLabels(way.Spec.Selector)); err != nil {
		return "", err
	}
	if len(pods.Items) != 1 || pods.Items[0].Status.PodIP == "" {
		return "", fmt.Errorf("the way in leads to %d Pods", len(pods.Items))
	}
	return pods.Items[0].Status.PodIP, nil
}

// object is the operator's object of a database that customers are led to.
func (w *world) object(t *testing.T, d harness.Database) string {
	t.Helper()
	return fmt.Sprintf("db-%d-g%d", d.ID, w.generation(t.Context(), d))
}

// generation is the one that a database's Service leads to; the first while there is none.
func (w *world) generation(ctx context.Context, d harness.Database) int {
	var way corev1.Service
	if err := w.c.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: fmt.Sprintf("db-%d", d.ID)}, &way); err != nil {
		return 1
	}
	n, err := strconv.Atoi(way.Labels["steward/generation"])
	if err != nil {
		return 1
	}
	return n
}

// service is the way in to a database.
func (j *journey) service(t *testing.T) *corev1.Service {
	t.Helper()
	var s corev1.Service
	if err := j.c.Get(t.Context(), client.ObjectKey{Namespace: j.namespace, Name: fmt.Sprintf("db-%d", j.d.ID)}, &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// mine are all objects with our label, of a database or of any.
func (w *world) mine(t *testing.T, of ...int64) []string {
	t.Helper()
	options := []client.ListOption{client.InNamespace(w.namespace), client.HasLabels{"steward/cluster"}}
	for _, id := range of {
		options = append(options, client.MatchingLabels{"steward/cluster": strconv.FormatInt(id, 10)})
	}
	var all []string
	for _, list := range []client.ObjectList{
		&cnpg.ClusterList{}, &mariadb.List{}, &corev1.PodList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.PersistentVolumeClaimList{}, &networkingv1.NetworkPolicyList{}, &cnpg.BackupList{},
	} {
		if err := w.c.List(t.Context(), list, options...); err != nil {
			t.Fatal(err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			all = append(all, fmt.Sprintf("%T %s", item, item.(client.Object).GetName()))
		}
	}
	return all
}

// wire leads to the API server, unless it is cut or hangs.
type wire struct {
	address, to string
	mu          sync.Mutex
	how         state
	open        map[net.Conn]bool
}

type state int

const (
	whole state = iota
	cut
	hanging
)

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{address: l.Addr().String(), to: to, open: map[net.Conn]bool{}}
	t.Cleanup(func() { l.Close(); w.set(cut) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.join(c)
		}
	}()
	return w
}

func (w *wire) join(from net.Conn) {
	defer from.Close()
	w.mu.Lock()
	how := w.how
	w.open[from] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.open, from)
	}()
	switch how {
	case cut:
		return
	case hanging:
		_, _ = io.Copy(io.Discard, from) // until it is closed
		return
	}
	to, err := net.Dial("tcp", w.to)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(from, to); from.Close() }() // how it ends is the ends' business
	_, _ = io.Copy(to, from)
}

// set changes how the wire is, and ends what goes over it.
func (w *wire) set(how state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.how = how
	for c := range w.open {
		c.Close()
	}
}
