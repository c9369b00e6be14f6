package kubernetes_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/archive/archivetest"
	"steward/internal/cluster"
	"steward/internal/engine/mysql"
	"steward/internal/engine/postgresql"
	"steward/internal/kubetest"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/mariadb"
	"steward/internal/platform/kubernetes/simulator"
	"steward/internal/platform/platformtest"
)

func TestMain(m *testing.M) {
	kubernetes.LogTo(slog.New(slog.DiscardHandler))
	kubetest.Main(m)
}

const (
	older = "registry.example/postgresql:15.17-bookworm"
	newer = "registry.example/postgresql:15.18-bookworm"
	// catalogName is the object with the images.
	catalogName = "postgresql"
)

// bench is a namespace with an operator and what a driver needs.
type bench struct {
	server    *kubetest.Server
	config    *rest.Config
	c         client.WithWatch
	namespace string
	op        *simulator.Operator
	secrets   *platformtest.Secrets
	// mdb is the operator of MariaDB; nil for none.
	mdb *simulator.MariaDB
	// bucket is where backups are kept; nil for none.
	bucket *archivetest.Bucket
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s := kubetest.Start(t)
	scheme, err := kubernetes.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	config := s.Admin(t)
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	simulator.Define(t, c)
	b := &bench{server: s, config: config, c: c, namespace: s.Namespace(t, c), secrets: platformtest.NewSecrets()}
	b.op = simulator.Start(t, simulator.Options{Client: c, Namespace: b.namespace, Images: simulator.Images(t, postgresql.New(), map[string]string{older: "15.17", newer: "15.18"})})
	b.offer(t, newer)
	return b
}

// offer makes the catalog one of the image.
func (b *bench) offer(t *testing.T, image string) {
	t.Helper()
	o := &cnpg.ImageCatalog{
		ObjectMeta: metav1.ObjectMeta{Name: catalogName, Namespace: b.namespace},
		Spec:       cnpg.ImageCatalogSpec{Images: []cnpg.CatalogImage{{Major: 15, Image: image}}},
	}
	err := b.c.Create(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
}

// keep gives the namespace a place for backups.
func (b *bench) keep(t *testing.T) {
	t.Helper()
	b.bucket = archivetest.NewBucket(t)
	simulator.Keep(t, b.c, b.namespace, storeName, b.bucket)
}

// storeName is the object with the place for backups.
const storeName = "backups"

func (b *bench) options() kubernetes.Options {
	o := b.plain()
	if b.bucket != nil {
		o.ObjectStore = storeName
	}
	return o
}

func (b *bench) plain() kubernetes.Options {
	o := kubernetes.Options{
		Config: b.config, Namespace: b.namespace, Owner: "this store", ImageCatalog: catalogName, EncryptedStorageClass: "encrypted",
		Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Secrets: b.secrets, Engine: postgresql.New(), Logger: slog.New(slog.DiscardHandler),
	}
	if b.mdb != nil {
		o.MariaDB, o.MariaDBImages = mysql.New(o.Logger), mariaDBImages
	}
	return o
}

func (b *bench) open(t *testing.T) *kubernetes.Driver {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d, err := kubernetes.New(ctx, b.options())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// way is the name of the way in to a cluster, and object that of the operator's object of its first generation.
func way(id cluster.ID) string { return fmt.Sprintf("db-%d", id) }

func object(id cluster.ID) string { return fmt.Sprintf("db-%d-g1", id) }

// login goes the way of a customer: past the load balancer, which only lets its ranges in, to the server.
func (b *bench) login(ctx context.Context, c cluster.Cluster, from netip.Addr, password string) error {
	var s corev1.Service
	if err := b.c.Get(ctx, client.ObjectKey{Namespace: b.namespace, Name: fmt.Sprintf("db-%d", c.ID)}, &s); err != nil {
		return err
	}
	allowed := len(s.Spec.LoadBalancerSourceRanges) == 0 // everybody, that is
	for _, r := range s.Spec.LoadBalancerSourceRanges {
		allowed = allowed || netip.MustParsePrefix(r).Contains(from)
	}
	if !allowed {
		return errors.New("the load balancer drops it")
	}
	return b.executeAtServer(ctx, c, s, from, password, "BEGIN; CREATE TABLE written (); ROLLBACK", nil)
}

func (b *bench) executeAtServer(ctx context.Context, c cluster.Cluster, s corev1.Service, from netip.Addr, password, sql string, answer *[]string) error {
	var pods corev1.PodList
	if err := b.c.List(ctx, &pods, client.InNamespace(b.namespace), client.MatchingLabels(s.Spec.Selector)); err != nil {
		return err
	}
	if len(pods.Items) != 1 || pods.Items[0].Status.PodIP == "" || len(s.Status.LoadBalancer.Ingress) == 0 {
		return errors.New("it leads nowhere")
	}
	config, err := pgconn.ParseConfig("host=/nowhere sslmode=disable")
	if err != nil {
		return err
	}
	ca, err := b.secrets.Secret(ctx, c.ID, platform.CACert)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	config.Host, config.Port, config.Fallbacks = pods.Items[0].Status.PodIP, 5432, nil
	config.User, config.Password, config.Database = "dbadmin", password, "defaultdb"
	config.TLSConfig = &tls.Config{RootCAs: roots, ServerName: s.Status.LoadBalancer.Ingress[0].IP}
	config.DialFunc = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}).DialContext
	config.ConnectTimeout = 10 * time.Second
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err == nil && answer != nil {
		for _, row := range results[len(results)-1].Rows {
			*answer = append(*answer, string(row[0]))
		}
	}
	return err
}

// execute runs SQL as the customer, from an address that is on the list.
func (b *bench) execute(t *testing.T, c cluster.Cluster, sql string) error {
	t.Helper()
	var s corev1.Service
	if err := b.c.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: fmt.Sprintf("db-%d", c.ID)}, &s); err != nil {
		return err
	}
	return b.executeAtServer(t.Context(), c, s, netip.MustParseAddr("127.0.0.1"), b.secrets.Text(c.ID, platform.RootPassword), sql, nil)
}

// hold makes a cluster hold data, and held is what it holds.
func (b *bench) hold(t *testing.T, c cluster.Cluster, data string) {
	t.Helper()
	if err := b.execute(t, c, fmt.Sprintf("BEGIN; CREATE TABLE IF NOT EXISTS held (data text); TRUNCATE held; INSERT INTO held VALUES ('%s'); COMMIT", data)); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) held(t *testing.T, c cluster.Cluster) string {
	t.Helper()
	var s corev1.Service
	if err := b.c.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: fmt.Sprintf("db-%d", c.ID)}, &s); err != nil {
		t.Fatal(err)
	}
	var rows []string
	err := b.executeAtServer(t.Context(), c, s, netip.MustParseAddr("127.0.0.1"), b.secrets.Text(c.ID, platform.RootPassword), "SELECT data FROM held", &rows)
	if err != nil || len(rows) != 1 {
		t.Errorf("what it holds: %q, %v", rows, err)
		return ""
	}
	return rows[0]
}

// stored are the keys of what is kept of a cluster.
func (b *bench) stored(t *testing.T, c cluster.Cluster) []string {
	t.Helper()
	objects, _, err := b.bucket.Keys()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(objects, func(key string) bool { return !strings.Contains(key, fmt.Sprintf("/db-%d-", c.ID)) })
}

// leftovers names all in the namespace that bears the cluster's label.
func (b *bench) leftovers(t *testing.T, id cluster.ID) []string {
	t.Helper()
	var all []string
	for _, list := range []client.ObjectList{&cnpg.ClusterList{}, &corev1.PodList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.PersistentVolumeClaimList{}, &cnpg.BackupList{}, &mariadb.List{}, &mariadb.PhysicalBackupList{}} {
		err := b.c.List(t.Context(), list, client.InNamespace(b.namespace), client.MatchingLabels{"steward/cluster": strconv.Itoa(int(id))})
		if err != nil {
			t.Fatal(err)
		}
		_ = eachItem(list, func(o client.Object) { all = append(all, fmt.Sprintf("%T %s", o, o.GetName())) })
	}
	return all
}
