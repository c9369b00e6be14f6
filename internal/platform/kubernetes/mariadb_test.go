package kubernetes_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/go-sql-driver/mysql"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/await"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/engine/enginetest"
	"steward/internal/engine/mysql"
	"steward/internal/logical"
	"steward/internal/measure"
	"steward/internal/parameter"
	"steward/internal/platform"
	"steward/internal/platform/kubernetes"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/mariadb"
	"steward/internal/platform/kubernetes/simulator"
	"steward/internal/platform/platformtest"
)

const (
	olderMariaDB = "registry.example/mariadb:10.11.18-jammy"
	newerMariaDB = "registry.example/mariadb:10.11.19-jammy"
	// mariaDBImages is the ConfigMap with the images.
	mariaDBImages = "mariadb"
)

// newMariaDBBench is a bench with the operator of MariaDB, too.
func newMariaDBBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	images := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: mariaDBImages, Namespace: b.namespace}, Data: map[string]string{"10.11": newerMariaDB}}
	if err := b.c.Create(t.Context(), images); err != nil {
		t.Fatal(err)
	}
	driver := mysql.New(slog.New(slog.DiscardHandler))
	b.mdb = simulator.StartMariaDB(t, simulator.Options{
		Client: b.c, Namespace: b.namespace, Images: simulator.Images(t, driver, map[string]string{olderMariaDB: "10.11.18", newerMariaDB: "10.11.19"}),
	})
	return b
}

// mariaDBServer is where a cluster's way in leads, from an address, for who has logged in.
func (b *bench) mariaDBServer(ctx context.Context, c cluster.Cluster, from netip.Addr, password string, use func(db *sql.Conn) error) error {
	var s corev1.Service
	if err := b.c.Get(ctx, kube.ObjectKey{Namespace: b.namespace, Name: way(c.ID)}, &s); err != nil {
		return err
	}
	allowed := len(s.Spec.LoadBalancerSourceRanges) == 0 // everybody, that is
	for _, r := range s.Spec.LoadBalancerSourceRanges {
		allowed = allowed || netip.MustParsePrefix(r).Contains(from)
	}
	var pods corev1.PodList
	if err := b.c.List(ctx, &pods, kube.InNamespace(b.namespace), kube.MatchingLabels(s.Spec.Selector)); err != nil {
		return err
	}
	if !allowed || len(pods.Items) != 1 || pods.Items[0].Status.PodIP == "" || len(s.Status.LoadBalancer.Ingress) == 0 {
		return errors.New("it leads nowhere")
	}
	ca, err := b.secrets.Secret(ctx, c.ID, platform.CACert)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	cfg := client.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName, cfg.Net, cfg.Addr = "dbadmin", password, "defaultdb", "tcp", net.JoinHostPort(pods.Items[0].Status.PodIP, "3306")
	cfg.TLS = &tls.Config{RootCAs: roots, ServerName: s.Status.LoadBalancer.Ingress[0].IP}
	cfg.Timeout, cfg.Logger = 10*time.Second, &client.NopLogger{}
	cfg.DialFunc = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}).DialContext
	connector, err := client.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return use(conn)
}

// loginMariaDB is platformtest's.
func (b *bench) loginMariaDB(ctx context.Context, c cluster.Cluster, from netip.Addr, password string) error {
	return b.mariaDBServer(ctx, c, from, password, func(db *sql.Conn) error {
		for _, statement := range []string{"CREATE TABLE written (one INT)", "DROP TABLE written"} {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// mariaDBWanted is a cluster of a bench.
func (b *bench) mariaDBWanted(t *testing.T, id cluster.ID) platform.Wanted {
	t.Helper()
	return (&platformtest.Bench{Engine: cluster.MySQL, Series: "10.11", Port: 22000, Secrets: b.secrets}).Wanted(t, id)
}

// mariaDBObject reads a cluster's object.
func (b *bench) mariaDBObject(t *testing.T, id cluster.ID) *mariadb.MariaDB {
	t.Helper()
	m := &mariadb.MariaDB{}
	if err := b.c.Get(t.Context(), kube.ObjectKey{Namespace: b.namespace, Name: object(id)}, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMariaDBPlatform runs every platform's suite on MariaDB, with real servers and a simulated operator. TestMariaDB kills and patches a
// server, too, and TestMariaDBKeptKilledThorough restores a backup in place and undoes that.
func TestMariaDBPlatform(t *testing.T) {
	onMariaDBPlatform(t, "a killed server comes back by itself", "after a reboot Apply brings everything back", "a patch moves to the newest version",
		"a kept backup is restored in place, and that undone")
}

// TestMariaDBPlatformThorough leaves nothing to other tests.
func TestMariaDBPlatformThorough(t *testing.T) { onMariaDBPlatform(t) }

func onMariaDBPlatform(t *testing.T, elsewhere ...string) {
	t.Helper()
	t.Parallel()
	b := newMariaDBBench(t)
	b.keep(t)
	platformtest.Run(t, &platformtest.Bench{
		Engine: cluster.MySQL, Series: "10.11", Older: olderMariaDB, Newer: newerMariaDB, Suspends: true, Restarts: true, Remote: true,
		Short: !enginetest.Thorough(), Tries: func(name string) bool { return !slices.Contains(elsewhere, name) },
		Keeps:   &platformtest.Keeping{Hold: b.holdMariaDB, Held: b.heldMariaDB, Stored: b.stored},
		Secrets: b.secrets, Port: 22000,
		Open: func(t *testing.T) (platform.Driver, func()) {
			d := b.open(t)
			return d, d.Close
		},
		Login:  b.loginMariaDB,
		Kill:   func(_ *testing.T, _ platform.Driver, id cluster.ID) { b.mdb.Kill(object(id)) },
		Reboot: func(*testing.T) { b.mdb.Reboot() },
		Booted: func(*testing.T) { b.mdb.Resume() },
		Orphan: func(t *testing.T, id cluster.ID, _ int) {
			orphan := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "orphan", Namespace: b.namespace, Labels: map[string]string{"steward/cluster": fmt.Sprint(id)}}}
			if err := b.c.Create(t.Context(), orphan); err != nil {
				t.Fatal(err)
			}
		},
		Leftovers: func(t *testing.T, id cluster.ID, _ int) []string { return b.leftovers(t, id) },
	})
}

// text asks a cluster's primary, as the customer.
func (b *bench) text(ctx context.Context, c cluster.Cluster, query string) (text string, err error) {
	err = b.mariaDBServer(ctx, c, netip.MustParseAddr("127.0.0.1"), b.secrets.Text(c.ID, platform.RootPassword), func(db *sql.Conn) error {
		return db.QueryRowContext(ctx, query).Scan(&text)
	})
	return text, err
}

// TestMariaDB: one database goes through what is MariaDB's own, or its operator's, with no more rights than steward has.
func TestMariaDB(t *testing.T) {
	t.Parallel()
	b := newMariaDBBench(t)
	b.server.Grant(t, b.namespace, "steward", kubernetes.Rights())
	b.config = b.server.User(t, "steward")
	d := b.open(t)
	t.Cleanup(func() { d.Close() })
	want := b.mariaDBWanted(t, 801)
	first := settle(t, d, &want)

	t.Run("the customer is bounded, and the superuser is the operator's", func(t *testing.T) {
		for _, v := range []struct {
			statement string
			may       bool
		}{
			{"CREATE TABLE kept (one INT PRIMARY KEY)", true},
			{"INSERT INTO kept VALUES (1)", true},
			{"CALL steward.create_user('web', 'long-enough-1')", true},
			{"CALL steward.create_user('repl', 'long-enough-1')", false},
			{"CALL steward.set_password('root', 'long-enough-1')", false},
			{"CREATE USER other", false},
			{"SET GLOBAL read_only = 0", false},
			{"DELETE FROM mysql.global_priv", false},
			{"DROP DATABASE steward", false},
		} {
			err := b.mariaDBServer(t.Context(), want.Cluster, netip.MustParseAddr("127.0.0.1"), b.secrets.Text(801, platform.RootPassword), func(db *sql.Conn) error {
				_, err := db.ExecContext(t.Context(), v.statement)
				return err
			})
			if (err == nil) != v.may {
				t.Errorf("%s: %v", v.statement, err)
			}
		}
		var s corev1.Secret
		if err := b.c.Get(t.Context(), kube.ObjectKey{Namespace: b.namespace, Name: way(801) + "-root"}, &s); err != nil || len(s.Data) != 1 || len(s.Data["password"]) < 32 {
			t.Errorf("the superuser's password: %d keys, %v", len(s.Data), err)
		}
		if admin := b.secrets.Text(801, platform.AdminPassword); string(s.Data["password"]) == admin || admin == "" {
			t.Error("the operator knows the password of our account")
		}
	})

	t.Run("settings that can be changed in a server that runs are", func(t *testing.T) {
		before := settle(t, d, &want)
		want.Config, want.SSLConnection = parameter.Config{"mysql.connect_timeout": int64(7)}, false
		after := settle(t, d, &want)
		if got, err := b.text(t.Context(), want.Cluster, "SELECT CONCAT(@@GLOBAL.connect_timeout, '/', @@GLOBAL.require_secure_transport)"); err != nil || got != "7/OFF" {
			t.Errorf("in force: %s, %v", got, err)
		}
		if after.Nodes[0].Started != before.Nodes[0].Started {
			t.Error("the server was started anew")
		}
		b.mdb.Kill(object(801))
		await.True(t, "it is back", func() bool {
			seen, err := d.Observe(t.Context(), 801)
			return err == nil && seen.Serving && seen.Nodes[0].Restarts > 0
		})
		if got, err := b.text(t.Context(), want.Cluster, "SELECT @@GLOBAL.connect_timeout"); err != nil || got != "7" {
			t.Errorf("after a start: %s, %v", got, err)
		}
	})

	t.Run("sessions of who is taken off the list end, and ours don't", func(t *testing.T) {
		want.AllowList = cluster.AllowList{"127.0.0.1", "127.0.0.6"}
		settle(t, d, &want)
		if _, err := d.Measure(t.Context(), 801); err != nil { // which keeps a session
			t.Fatal(err)
		}
		err := b.mariaDBServer(t.Context(), want.Cluster, netip.MustParseAddr("127.0.0.6"), b.secrets.Text(801, platform.RootPassword), func(db *sql.Conn) error {
			want.AllowList = cluster.AllowList{"127.0.0.1"}
			settle(t, d, &want)
			return db.PingContext(t.Context())
		})
		if err == nil {
			t.Error("a session of an address that was taken off goes on")
		}
		all, err := d.Measure(t.Context(), 801)
		if err != nil || len(all) != 1 {
			t.Fatalf("%d readings, %v", len(all), err)
		}
		var m measure.Meter
		if v := m.Add(all[0].Reading); v[measure.Up] != 1 {
			t.Errorf("ours ended: %v", v[measure.Up])
		}
	})

	t.Run("users by steward aren't the operator's", func(t *testing.T) {
		err := d.Inside(t.Context(), 801, func(ctx context.Context, l platform.Logical) error {
			if err := l.CreateUser(ctx, logical.User{Name: "repl"}, "long-enough-1"); err == nil {
				t.Error("a user of the operator's name was made")
			}
			users, err := l.Users(ctx)
			if err == nil && !slices.ContainsFunc(users, func(u logical.User) bool { return u.Name == "web" }) {
				t.Errorf("users: %v", users)
			}
			if slices.ContainsFunc(users, func(u logical.User) bool { return u.Name == "root" || u.Name == "steward" }) {
				t.Errorf("ours among them: %v", users)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})

	t.Run("what isn't built is refused", func(t *testing.T) {
		three := want
		three.Size = 3
		if seen, err := d.Apply(t.Context(), three); err != nil || !seen.Permanent || !strings.Contains(seen.Problem, "one node") {
			t.Errorf("three nodes: %+v, %v", seen, err)
		}
		for _, e := range d.Abilities().Engines {
			if e.Lacks != (catalog.Lacks{Moments: e.Engine == cluster.MySQL, Logs: e.Engine == cluster.MySQL, Nodes: e.Engine == cluster.MySQL}) {
				t.Errorf("%s lacks %+v", e.ID(), e.Lacks)
			}
		}
	})

	t.Run("a Pod that can't start is mended", func(t *testing.T) {
		patch := func(image string) {
			images := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: mariaDBImages, Namespace: b.namespace}, Data: map[string]string{"10.11": image}}
			if err := b.c.Update(t.Context(), images); err != nil {
				t.Fatal(err)
			}
		}
		patch("registry.example/mariadb:10.11.99")
		want.Patch = true
		await.True(t, "what is wrong is told", func() bool {
			seen, err := d.Apply(t.Context(), want)
			return err == nil && !seen.Serving && strings.Contains(seen.Problem, "ImagePullBackOff")
		})
		patch(newerMariaDB)
		if seen := settle(t, d, &want); seen.Installation != newerMariaDB {
			t.Errorf("it runs %s", seen.Installation)
		}
		want.Patch = false
		if got, err := b.text(t.Context(), want.Cluster, "SELECT one FROM kept"); err != nil || got != "1" {
			t.Errorf("its data: %s, %v", got, err)
		}
	})

	t.Run("an object that is gone isn't made again, empty", func(t *testing.T) {
		if seen := settle(t, d, &want); seen.Hosts != first.Hosts {
			t.Errorf("its addresses changed: %+v, before %+v", seen.Hosts, first.Hosts)
		}
		if err := b.c.Delete(t.Context(), b.mariaDBObject(t, 801)); err != nil {
			t.Fatal(err)
		}
		await.True(t, "it is seen to be gone", func() bool {
			seen, err := d.Observe(t.Context(), 801)
			return err == nil && platform.Lost(want.Cluster, seen)
		})
		if seen, err := d.Apply(t.Context(), want); err != nil || !seen.Permanent || seen.Exists || !strings.Contains(seen.Problem, "gone") {
			t.Errorf("got %+v, %v", seen, err)
		}
		if err := d.Remove(t.Context(), want.Cluster); err != nil {
			t.Error(err)
		}
		if left := b.leftovers(t, 801); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestMariaDBExamined: doctor says what is missing for MariaDB, where it is to run.
func TestMariaDBExamined(t *testing.T) {
	b := newMariaDBBench(t)
	examine := func() []kubernetes.Finding {
		found, err := kubernetes.Examine(t.Context(), b.options())
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(found.Missing, func(f kubernetes.Finding) bool {
			return !strings.Contains(f.What, "MariaDB") && !strings.Contains(f.What, "mariadb")
		})
	}
	if missing := examine(); len(missing) > 0 {
		t.Errorf("nothing is missing: %v", missing)
	}
	images := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: mariaDBImages, Namespace: b.namespace}, Data: map[string]string{"10.11": "registry.example/mariadb:11.8.5"}}
	if err := b.c.Update(t.Context(), images); err != nil {
		t.Fatal(err)
	}
	if missing := examine(); len(missing) != 1 || !strings.Contains(missing[0].What, "isn't of 10.11") {
		t.Errorf("an image of another series: %v", missing)
	}
	images.Data["10.11"] = newerMariaDB
	if err := b.c.Update(t.Context(), images); err != nil {
		t.Fatal(err)
	}
	b.keep(t)
	if missing := examine(); len(missing) > 0 {
		t.Errorf("with backups nothing is missing: %v", missing)
	}
	store := &cnpg.ObjectStore{}
	if err := b.c.Get(t.Context(), kube.ObjectKey{Namespace: b.namespace, Name: storeName}, store); err != nil {
		t.Fatal(err)
	}
	store.Spec.Configuration.EndpointURL += "/below"
	if err := b.c.Update(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if missing := examine(); len(missing) != 1 || !strings.Contains(missing[0].What, "MariaDB can't be backed up") {
		t.Errorf("an endpoint with a path: %v", missing)
	}
	b.bucket = nil
	if err := b.c.Delete(t.Context(), images); err != nil {
		t.Fatal(err)
	}
	if missing := examine(); len(missing) != 1 || !strings.Contains(missing[0].Command, "deploy/kubernetes/mariadb.yaml") {
		t.Errorf("no images: %v", missing)
	}
}
