package kubernetes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/mariadb"
	"steward/internal/testdir"
	"steward/test/harness"
)

// killed is a steward that dies at steps of what it does to a database.
type killed struct {
	*journey
	*harness.Failpoints
	// engine is that of its databases.
	engine string
	// n counts databases and what they hold.
	n int
	// data is what the database holds, kept what its backup does.
	data, kept string
	backup     harness.Backup
	// before are the objects of the namespace when there was no database.
	before []string
}

// step is an operation on a database of a number of nodes, which prepare leaves as it needs it; no size is of those that make a database themselves.
type step struct {
	name    string
	size    int
	prepare func(t *testing.T)
	ask     func() (int, error)
	check   func(t *testing.T, accepted bool)
}

// TestKilledThorough kills steward at the steps of all that is done to databases of one node and of three: each comes to its end, nothing
// that was acknowledged is lost, and of what is deleted nothing is left. It tries some, others each time, and all for `make test-crash`.
// TestLife kills steward in the middle of a create and of a delete, and the platform's own tests in the middle of what is done to backups.
func TestKilledThorough(t *testing.T) {
	k := newKilled(t, newWorld(t), "postgresql/15")
	k.tryAll(t, slices.Concat(k.lives(1), k.lives(3), k.changes(), k.copies(), k.nodes()), 3)
}

// TestKilledMariaDBThorough does the same to databases of MariaDB.
func TestKilledMariaDBThorough(t *testing.T) {
	w := newWorld(t)
	w.addMariaDB(t)
	k := newKilled(t, w, "mysql/10.11")
	k.tryAll(t, slices.Concat(k.lives(1), k.changes(), k.copies()), 2)
}

func newKilled(t *testing.T, w *world, engine string) *killed {
	t.Helper()
	j := &journey{world: w, s: harness.Prepare(t, harness.WithConfig("catalog: {file: "+w.catalog+"}"), harness.WithTags("failpoint"))}
	k := &killed{journey: j, Failpoints: j.s.Failpoints(), engine: engine}
	j.s.Start()
	k.before = w.everything(t)
	return k
}

// tryAll tries operations, or some of them.
func (k *killed) tryAll(t *testing.T, all []step, some int) {
	t.Helper()
	if !harness.Everything() {
		testdir.Rand(t, "operations").Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
		all = all[:some]
	}
	for _, s := range all {
		if t.Failed() {
			return // a database that isn't as it should be shows nothing
		}
		t.Run(s.name, func(t *testing.T) {
			k.Try(t, 1, harness.Operation{
				Name: s.name, Patience: 10 * time.Second, Polls: true,
				Prepare: func() {
					k.n++
					if s.size > 0 {
						k.have(t, s.size)
					}
					if s.prepare != nil {
						s.prepare(t)
					}
				},
				Ask:   s.ask,
				Check: func(accepted bool) { s.check(t, accepted) },
			})
		})
	}
	k.clear(t)
}

// lives are the beginning and the end of a database.
func (k *killed) lives(size int) []step {
	return []step{
		{
			name: fmt.Sprintf("create %d", size), prepare: k.clear,
			ask: func() (int, error) {
				status, _, err := k.s.TryCall("POST", k.instances(), k.spec(size), nil)
				return status, err
			},
			check: func(t *testing.T, accepted bool) {
				found := k.all(t)
				if len(found) == 0 && accepted {
					t.Error("the accepted database is lost")
				}
				for _, d := range found {
					k.d = k.s.AwaitStatus(d, "active")
					k.enter(t, k.d, k.s.Credentials(k.d))
				}
			},
		},
		{
			name: fmt.Sprintf("delete %d", size), size: size,
			prepare: func(t *testing.T) {
				if k.n%2 == 0 { // with a backup, and without
					k.keep(t)
				}
			},
			ask: func() (int, error) {
				status, _, err := k.s.TryCall("DELETE", k.d.Path(), nil, nil)
				return status, err
			},
			check: func(t *testing.T, accepted bool) {
				if len(k.all(t)) == 0 {
					k.gone(t)
					return
				}
				if accepted {
					t.Error("the deleted database is still there")
				}
				k.clear(t)
			},
		},
	}
}

func (k *killed) changes() []step {
	put := func(change map[string]any) (int, error) {
		status, _, err := k.s.TryCall("PUT", k.d.Path(), change, nil)
		return status, err
	}
	var allowed []string
	password, plan := "", ""
	return []step{
		{
			name: "allow_list", size: 1,
			ask: func() (int, error) {
				allowed = []string{"127.0.0.1/32", fmt.Sprintf("10.0.0.%d/32", k.n%250+1)}
				return put(map[string]any{"allow_list": allowed})
			},
			check: func(t *testing.T, accepted bool) {
				k.serves(t)
				if accepted && !slices.Equal(k.d.AllowList, allowed) {
					t.Errorf("allow_list is %v, want %v", k.d.AllowList, allowed)
				}
				if got := k.service(t).Spec.LoadBalancerSourceRanges; len(got) != len(k.d.AllowList) {
					t.Errorf("allow_list is %v, the load balancer's %v", k.d.AllowList, got)
				}
			},
		},
		{
			name: "resize", size: 1,
			prepare: func(t *testing.T) {
				next := map[string]string{"g6-nanode-1": "g6-standard-1", "g6-standard-1": "g6-standard-2"}
				if next[k.d.Type] == "" {
					k.clear(t)
					k.have(t, 1)
				}
				plan = next[k.d.Type]
			},
			ask: func() (int, error) { return put(map[string]any{"type": plan}) },
			check: func(t *testing.T, accepted bool) {
				k.serves(t)
				if accepted && k.d.Type != plan {
					t.Errorf("type is %s, want %s", k.d.Type, plan)
				}
			},
		},
		{
			name: "reset", size: 1,
			prepare: func(*testing.T) { password = k.s.Credentials(k.d).Password },
			ask:     func() (int, error) { return k.post("/credentials/reset", nil) },
			check: func(t *testing.T, accepted bool) {
				k.serves(t)
				if accepted && k.s.Credentials(k.d).Password == password {
					t.Error("an accepted reset left the password as it was")
				}
			},
		},
		{
			name: "restart", size: 1,
			ask:   func() (int, error) { return k.post("/restart", nil) },
			check: func(t *testing.T, _ bool) { k.serves(t) },
		},
		{
			name: "suspend", size: 1,
			ask: func() (int, error) { return k.post("/suspend", nil) },
			check: func(t *testing.T, accepted bool) {
				if accepted {
					k.d = k.s.AwaitStatus(k.d, "suspended")
				}
				k.Disarm(t)
				k.resume(t)
				k.serves(t)
			},
		},
		{
			name: "resume", size: 1,
			prepare: func(t *testing.T) {
				if status, err := k.post("/suspend", nil); status != 200 || err != nil {
					t.Fatal(status, err)
				}
				k.d = k.s.AwaitStatus(k.d, "suspended")
			},
			ask: func() (int, error) { return k.post("/resume", nil) },
			check: func(t *testing.T, accepted bool) {
				if !accepted {
					k.resume(t)
				}
				k.serves(t)
			},
		},
		{
			name: "patch", size: 1, prepare: k.offerOther,
			ask:   func() (int, error) { return k.post("/patch", nil) },
			check: k.patched,
		},
	}
}

// copies are the operations with backups.
func (k *killed) copies() []step {
	restore := func() (int, error) { return k.post(k.backup.Path(k.d)[len(k.d.Path()):]+"/restore", nil) }
	// either demands what an accepted request leads to, and that or what was before of one that nobody knows the fate of.
	either := func(t *testing.T, accepted bool, then string) {
		t.Helper()
		k.d = k.s.AwaitStatus(k.d, "active")
		if held := k.held(t); held == then || !accepted && held == k.data {
			k.data = held
		} else {
			t.Errorf("it holds %q, want %q, or %q when it wasn't asked for; accepted: %v", held, then, k.data, accepted)
		}
		k.serves(t)
	}
	lost := ""
	return []step{
		{
			name: "snapshot and its proof", size: 1,
			prepare: func(t *testing.T) { k.drop(t, "new") },
			ask:     func() (int, error) { return k.post("/backups", map[string]any{"label": "new"}) },
			check: func(t *testing.T, accepted bool) {
				k.d = k.s.AwaitStatus(k.d, "active")
				b, there := k.s.FindBackup(k.d, "new")
				if accepted && !there {
					t.Error("the accepted snapshot is lost")
				}
				if there {
					k.proven(t, b)
				}
				k.serves(t)
			},
		},
		{
			name: "delete a backup", size: 1,
			prepare: func(t *testing.T) {
				k.drop(t, "new")
				k.drop(t, "gone")
				k.proven(t, k.s.Snapshot(k.d, "gone", "primary"))
			},
			ask: func() (int, error) {
				b, _ := k.s.FindBackup(k.d, "gone")
				status, _, err := k.s.TryCall("DELETE", b.Path(k.d), nil, nil)
				return status, err
			},
			check: func(t *testing.T, accepted bool) {
				if b, there := k.s.FindBackup(k.d, "gone"); there && accepted {
					t.Errorf("it is still there: %+v", b)
				}
				k.serves(t)
			},
		},
		{
			name: "restore", size: 1, prepare: k.keep, ask: restore,
			check: func(t *testing.T, accepted bool) { either(t, accepted, k.kept) },
		},
		{
			name: "undo", size: 1,
			prepare: func(t *testing.T) {
				k.keep(t)
				lost = k.data
				if status, err := restore(); status != 200 || err != nil {
					t.Fatal(status, err)
				}
				k.d = k.s.AwaitStatus(k.d, "active")
				k.data = k.kept
			},
			ask:   func() (int, error) { return k.post("/restore/undo", nil) },
			check: func(t *testing.T, accepted bool) { either(t, accepted, lost) },
		},
		{
			name: "fork", size: 1, prepare: k.keep,
			ask: func() (int, error) {
				spec := harness.Spec{"label": "fork", "fork": map[string]any{"source": k.d.ID}, "allow_list": []string{"127.0.0.1"}}
				status, _, err := k.s.TryCall("POST", k.instances(), spec, nil)
				return status, err
			},
			check: func(t *testing.T, accepted bool) {
				forked := slices.DeleteFunc(k.all(t), func(d harness.Database) bool { return d.ID == k.d.ID })
				if len(forked) == 0 && accepted {
					t.Error("the accepted fork is lost")
				}
				for _, d := range forked {
					d = k.s.AwaitStatus(d, "active")
					k.mustHold(t, k.s, d, k.kept)
					k.Disarm(t)
					k.erase(t, d)
					k.noneOf(t, d)
				}
				k.serves(t)
			},
		},
	}
}

// nodes are the operations on databases of three nodes, and to them.
func (k *killed) nodes() []step {
	size := 0
	resized := func(t *testing.T, accepted bool) {
		k.serves(t)
		if accepted && k.d.ClusterSize != size {
			t.Errorf("it has %d nodes, want %d", k.d.ClusterSize, size)
		}
		k.s.Eventually("all its nodes", func() error {
			if k.d = k.s.AwaitStatus(k.d, "active"); len(k.d.Members) != k.d.ClusterSize {
				return fmt.Errorf("%v", k.d.Members)
			}
			return nil
		})
	}
	resize := func() (int, error) {
		size = 4 - k.d.ClusterSize
		status, _, err := k.s.TryCall("PUT", k.d.Path(), map[string]any{"cluster_size": size}, nil)
		return status, err
	}
	return []step{
		{name: "one node to three", size: 1, ask: resize, check: resized},
		{name: "three nodes to one", size: 3, ask: resize, check: resized},
		{
			name: "switchover", size: 3,
			ask:   func() (int, error) { return k.post("/switchover", nil) },
			check: func(t *testing.T, _ bool) { k.serves(t) },
		},
	}
}

func (k *killed) post(action string, body any) (int, error) {
	status, _, err := k.s.TryCall("POST", k.d.Path()+action, body, nil)
	return status, err
}

// instances is where databases of the engine are made.
func (k *killed) instances() string {
	family, _, _ := strings.Cut(k.engine, "/")
	return "/v4/databases/" + family + "/instances"
}

func (k *killed) spec(size int) harness.Spec {
	spec := harness.Small(fmt.Sprintf("killed-%d", k.n), k.engine)
	spec["region"], spec["cluster_size"] = "kube", size
	return spec
}

// have sees to a database of a size, which holds something new.
func (k *killed) have(t *testing.T, size int) {
	t.Helper()
	if k.d.ID == 0 || k.d.ClusterSize != size {
		k.clear(t)
		k.d = k.s.CreateActive(k.spec(size))
	}
	k.data = fmt.Sprintf("data %d", k.n)
	k.s.Eventually("it holds "+k.data, func() error { return k.tryHold(t, k.data) })
}

func (k *killed) tryHold(t *testing.T, data string) error {
	for _, statement := range []string{"CREATE TABLE IF NOT EXISTS held (data text)", "TRUNCATE held", "INSERT INTO held VALUES ('" + data + "')"} {
		if _, err := k.query(t, k.s, k.d, statement); err != nil {
			return err
		}
	}
	return nil
}

// held is what the database holds.
func (k *killed) held(t *testing.T) (data string) {
	t.Helper()
	k.s.Eventually("read", func() (err error) {
		data, err = k.query(t, k.s, k.d, "SELECT data FROM held")
		return err
	})
	return data
}

// serves demands that the database does, with what it holds. What it is asked to do has come to its end then.
func (k *killed) serves(t *testing.T) {
	t.Helper()
	k.d = k.s.AwaitStatus(k.d, "active")
	k.Disarm(t)
	if held := k.held(t); held != k.data {
		t.Errorf("it holds %q, want %q", held, k.data)
	}
}

// keep sees to a proven backup, after which the database holds something else.
func (k *killed) keep(t *testing.T) {
	t.Helper()
	if k.backup.ID == 0 {
		k.kept, k.backup = k.data, k.s.Snapshot(k.d, "kept", "primary")
		k.proven(t, k.backup)
		k.data += ", and more"
		k.hold(t, k.s, k.d, k.data)
	}
}

func (k *killed) proven(t *testing.T, b harness.Backup) {
	t.Helper()
	k.s.Eventually("the backup is proven", func() error {
		if b, _ = k.s.FindBackup(k.d, b.Label); b.State != "complete" || b.Verified == nil {
			return fmt.Errorf("%+v", b)
		}
		return nil
	})
}

func (k *killed) drop(t *testing.T, label string) {
	t.Helper()
	if b, there := k.s.FindBackup(k.d, label); there {
		k.s.Eventually(label+" is deleted", func() error {
			if status, body := k.s.Call("DELETE", b.Path(k.d), nil, nil); status != 200 && status != 404 {
				return errors.New(body)
			}
			return nil
		})
	}
}

func (k *killed) resume(t *testing.T) {
	t.Helper()
	k.s.Eventually("resumed", func() error {
		var now harness.Database
		if status, body := k.s.Call("GET", k.d.Path(), nil, &now); status != 200 {
			return errors.New(body)
		}
		switch now.Status {
		case "active":
			return nil
		case "suspended":
			_, _ = k.post("/resume", nil)
		}
		return errors.New(now.Status)
	})
}

// offerOther has the region offer the other build.
func (k *killed) offerOther(t *testing.T) {
	t.Helper()
	now := k.offered(t)
	for _, image := range k.images {
		if image != now {
			k.offer(t, image)
			return
		}
	}
}

// offered is the image that the region offers.
func (k *killed) offered(t *testing.T) string {
	t.Helper()
	if k.mdb != nil {
		return k.mariaDBImages(t).Data["10.11"]
	}
	return k.catalogOfImages(t).Spec.Images[0].Image
}

func (k *killed) offer(t *testing.T, image string) {
	t.Helper()
	var changed client.Object
	if k.mdb != nil {
		images := k.mariaDBImages(t)
		images.Data["10.11"] = image
		changed = images
	} else {
		images := k.catalogOfImages(t)
		images.Spec.Images[0].Image = image
		changed = images
	}
	if err := k.c.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
}

func (w *world) catalogOfImages(t *testing.T) *cnpg.ImageCatalog {
	t.Helper()
	var images cnpg.ImageCatalog
	if err := w.c.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "postgresql"}, &images); err != nil {
		t.Fatal(err)
	}
	return &images
}

func (w *world) mariaDBImages(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	var images corev1.ConfigMap
	if err := w.c.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "mariadb"}, &images); err != nil {
		t.Fatal(err)
	}
	return &images
}

// patched demands the build that the region offers.
func (k *killed) patched(t *testing.T, accepted bool) {
	t.Helper()
	k.serves(t)
	image := k.runs(t)
	if accepted && image != k.offered(t) {
		t.Errorf("it runs %s, and the region offers %s", image, k.offered(t))
	}
	version, err := k.query(t, k.s, k.d, map[string]string{"postgresql": "SHOW server_version", "mysql": "SELECT SUBSTRING_INDEX(VERSION(), '-', 1)"}[k.d.Engine])
	if err != nil || !strings.Contains(image, ":"+version) {
		t.Errorf("version %s of image %s, %v", version, image, err)
	}
}

// runs is the image that the operator is asked for.
func (k *killed) runs(t *testing.T) string {
	t.Helper()
	key := client.ObjectKey{Namespace: k.namespace, Name: k.object(t, k.d)}
	if k.mdb != nil {
		var m mariadb.MariaDB
		if err := k.c.Get(t.Context(), key, &m); err != nil {
			t.Fatal(err)
		}
		return m.Image()
	}
	var c cnpg.Cluster
	if err := k.c.Get(t.Context(), key, &c); err != nil {
		t.Fatal(err)
	}
	return c.Image()
}

// clear deletes what there is, without a trace.
func (k *killed) clear(t *testing.T) {
	t.Helper()
	k.Disarm(t)
	for _, d := range k.all(t) {
		k.erase(t, d)
	}
	k.gone(t)
}

// gone waits until nothing of any database is left, of no kind and in the bucket.
func (k *killed) gone(t *testing.T) {
	t.Helper()
	k.s.Eventually("nothing is left", func() error {
		if left := k.mine(t); len(left) > 0 { // to look at every kind takes the API server long
			return fmt.Errorf("left: %v", left)
		}
		left := slices.DeleteFunc(k.everything(t), func(o string) bool { return slices.Contains(k.before, o) })
		objects, uploads, err := k.bucket.Keys()
		if all := slices.Concat(left, objects, uploads); err == nil && len(all) > 0 {
			err = fmt.Errorf("left: %v", all)
		}
		return err
	})
	k.d, k.backup, k.kept = harness.Database{}, harness.Backup{}, ""
}

// noneOf waits until nothing of a database is left.
func (k *killed) noneOf(t *testing.T, d harness.Database) {
	t.Helper()
	k.s.Eventually("nothing of it is left", func() error {
		if left := k.mine(t, d.ID); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
}

// all are the databases in the API.
func (k *killed) all(t *testing.T) []harness.Database {
	t.Helper()
	var list struct{ Data []harness.Database }
	if status, body := k.s.Call("GET", "/v4/databases/instances", nil, &list); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	return list.Data
}

// everything names what is in the namespace, of whatever kind the API server knows.
func (w *world) everything(t *testing.T) []string {
	t.Helper()
	disco, err := discovery.NewDiscoveryClientForConfig(w.admin)
	if err != nil {
		t.Fatal(err)
	}
	known, err := disco.ServerPreferredNamespacedResources()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, group := range known {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range group.APIResources {
			if !slices.Contains(kind.Verbs, "list") || kind.Name == "events" {
				continue
			}
			found := &metav1.PartialObjectMetadataList{}
			found.SetGroupVersionKind(version.WithKind(kind.Kind + "List"))
			if err := w.c.List(t.Context(), found, client.InNamespace(w.namespace)); err != nil {
				t.Fatalf("%s: %v", kind.Name, err)
			}
			for _, o := range found.Items {
				all = append(all, kind.Name+" "+o.Name)
			}
		}
	}
	return all
}
