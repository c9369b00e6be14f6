package kubernetes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linode/linodego"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/await"
	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/simulator"
	"steward/test/gopher"
	"steward/test/harness"
)

// journey is a database's way through everything that its region can do.
type journey struct {
	*world
	s *harness.Server
	d harness.Database
	// api makes the requests that it has a call for.
	api linodego.Client
}

// TestLife takes a database of a region on Kubernetes through what a customer does, and steward through what may happen to it.
func TestLife(t *testing.T) {
	j := begin(t)
	j.take(t, []stage{
		{"doctor", j.doctor},
		{"region", j.region},
		{"create, by linodego", j.create},
		{"who gets in", j.access},
		{"what isn't there", j.refusals},
		{"logs", j.logs},
		{"reset", j.reset},
		{"backups", j.backups},
		{"killed in the middle of a create, and of a delete", j.killed},
		{"the API server is away", j.away},
		{"the region vanishes from the catalog", j.vanished},
		{"MariaDB, once the region has images of it", j.mariaDB},
		{"delete", j.remove},
	})
}

// TestLifeThorough takes one through what goes on this host in the same way, or is tried on Kubernetes without the API.
func TestLifeThorough(t *testing.T) {
	j := begin(t)
	j.take(t, []stage{
		{"create, by linodego", j.create},
		{"resize", j.resize},
		{"restart", j.restart},
		{"three nodes, and another primary", j.switchover},
		{"suspend and resume", j.suspend},
		{"what is the same on this host", j.likeElsewhere},
		{"the operator's definition is replaced", j.undefined},
		{"delete", j.remove},
	})
}

// begin begins a journey, with a steward of its own.
func begin(t *testing.T) *journey {
	t.Helper()
	w := newWorld(t)
	return &journey{world: w, s: harness.New(t, harness.WithConfig("catalog: {file: "+w.catalog+"}"))}
}

// stage is a part of a journey.
type stage struct {
	name string
	do   func(t *testing.T)
}

// take goes from stage to stage, up to one that fails.
func (j *journey) take(t *testing.T, stages []stage) {
	t.Helper()
	for _, s := range stages {
		if !t.Run(s.name, s.do) {
			return
		}
	}
}

func (j *journey) doctor(t *testing.T) {
	out, err := j.s.Command("doctor", "--config", j.s.ConfigPath())
	for _, want := range []string{"region kube (kubernetes/" + j.namespace + "): Kubernetes v1.", "Nothing is missing there.", "kubectl get storageclasses"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("doctor doesn't say %q: %v\n%s", want, err, out)
		}
	}
}

func (j *journey) region(t *testing.T) {
	_, body := j.s.Call("GET", "/v4/regions/kube", nil, nil)
	if !strings.Contains(body, `"capabilities":["Managed Databases","PostgreSQL Databases","Database Backups","Database Logs","Database Restart","Database Switchover"]`) || !strings.Contains(body, `"status":"ok"`) {
		t.Errorf("%s", body)
	}
}

func (j *journey) create(t *testing.T) {
	j.api = linodego.NewClient(http.DefaultClient)
	j.api.SetBaseURL(j.s.URL)
	j.api.SetAPIVersion("v4")
	j.api.SetToken(j.s.Token)
	made, err := j.api.CreatePostgresDatabase(t.Context(), linodego.PostgresCreateOptions{
		Label: "over-there", Region: "kube", Type: "g6-nanode-1", Engine: "postgresql/15", ClusterSize: 1, AllowList: []string{"127.0.0.1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	j.d = j.s.AwaitStatus(harness.Database{ID: int64(made.ID), Engine: "postgresql", Label: made.Label}, "active")
	region, err := j.api.GetRegion(t.Context(), "kube")
	if err != nil || !slices.Contains(region.Capabilities, "Managed Databases") {
		t.Errorf("%+v, %v", region, err)
	}
	found, err := j.api.ListPostgresDatabases(t.Context(), linodego.NewListOptions(0, `{"label": "over-there"}`))
	if err != nil || len(found) != 1 || found[0].Region != "kube" || found[0].Hosts.Primary != j.d.Hosts.Primary || found[0].Port != j.d.Port {
		t.Errorf("%+v, %v", found, err)
	}
	credentials, err := j.api.GetPostgresDatabaseCredentials(t.Context(), made.ID)
	if own := j.s.Credentials(j.d); err != nil || credentials.Username != own.Username || credentials.Password != own.Password {
		t.Errorf("other credentials: %v", err)
	}
	ssl, err := j.api.GetPostgresDatabaseSSL(t.Context(), made.ID)
	if err != nil || len(ssl.CACertificate) == 0 {
		t.Errorf("no CA: %v", err)
	}
}

func (j *journey) access(t *testing.T) {
	c := j.s.Credentials(j.d)
	j.enter(t, j.d, c)
	s := j.service(t)
	if got := s.Spec.LoadBalancerSourceRanges; !slices.Equal(got, []string{"127.0.0.1/32"}) || s.Spec.Ports[0].Port != int32(j.d.Port) {
		t.Errorf("the load balancer lets in %v, at %d", got, s.Spec.Ports[0].Port)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if end, err := j.connect(ctx, j.d, c, "127.0.0.9"); err == nil || !strings.Contains(err.Error(), "pg_hba.conf rejects") {
		t.Errorf("an address that isn't allowed: %v", err)
		if err == nil {
			end()
		}
	}
}

// likeElsewhere has the cases pass that this host passes.
func (j *journey) likeElsewhere(t *testing.T) {
	t.Run("linodego", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		(&gopher.Gopher{Client: gopher.Client(t, j.s), T: t}).Postgres(ctx, "kube", "")
	})
	t.Run("fork by linodego", func(t *testing.T) { gopher.Fork(t, j.s, "kube") })
	t.Run("allow list", func(t *testing.T) {
		c := j.s.Credentials(j.d)
		gopher.AllowList(t, j.s, j.d, func(ctx context.Context, source string) (*sql.DB, error) {
			if from := netip.MustParseAddr(source); !slices.ContainsFunc(j.service(t).Spec.LoadBalancerSourceRanges, func(r string) bool { return netip.MustParsePrefix(r).Contains(from) }) {
				return nil, errors.New("the load balancer drops it")
			}
			return j.open(ctx, j.d, c, source)
		})
		if status, body := j.s.Call("PUT", j.d.Path(), map[string]any{"allow_list": j.d.AllowList}, nil); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		j.d = j.s.AwaitStatus(j.d, "active")
		j.enter(t, j.d, c)
	})
	var list struct{ Data []harness.Database }
	if status, body := j.s.Call("GET", "/v4/databases/instances", nil, &list); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	for _, d := range list.Data {
		if d.ID != j.d.ID {
			j.erase(t, d)
		}
	}
}

// enter logs in from an address that is allowed, and must be able to.
func (j *journey) enter(t *testing.T, d harness.Database, c harness.Credentials) {
	t.Helper()
	j.s.Eventually("connected", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		end, err := j.connect(ctx, d, c, "127.0.0.1")
		if err == nil {
			end()
		}
		return err
	})
}

func (j *journey) refusals(t *testing.T) {
	mysql := harness.Small("mariadb", "mysql/10.11")
	mysql["region"] = "kube"
	encrypted := harness.Small("encrypted", "postgresql/15")
	encrypted["region"], encrypted["encrypted"] = "kube", true
	for _, v := range []struct {
		path, want string
		body       any
	}{
		{"/v4/databases/mysql/instances", `"field":"engine"`, mysql},
		{"/v4/databases/postgresql/instances", `"field":"encrypted"`, encrypted},
		{j.d.Path() + "/switchover", "one node", nil},
	} {
		if status, body := j.s.Call("POST", v.path, v.body, nil); status != 400 || !strings.Contains(body, v.want) {
			t.Errorf("%s: %d %s", v.path, status, body)
		}
	}
	if _, body := j.s.Call("GET", "/v4/databases/instances", nil, nil); !strings.Contains(body, `"results":1`) {
		t.Errorf("something was made: %s", body)
	}
}

// logs are read by the command as those of this host are, slow statements among them, with the rights of role.yaml.
func (j *journey) logs(t *testing.T) {
	if status, body := j.s.Call("PUT", j.d.Path(), map[string]any{"engine_config": map[string]any{"pg": map[string]any{"log_min_duration_statement": 100}}}, nil); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	j.d = j.s.AwaitStatus(j.d, "active")
	if out, err := j.s.Command("db", "logs", "over-there"); err != nil || !strings.Contains(out, "database system is ready to accept connections") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := j.query(t, j.s, j.d, "SELECT pg_sleep(0.2)::text || 'hunter2'"); err != nil {
		t.Fatal(err)
	}
	j.s.Eventually("the slow statement is told, without its values", func() error {
		out, err := j.s.Command("db", "queries", "slow", "over-there")
		if err == nil && (!strings.Contains(out, "SELECT pg_sleep(?)::text || ?") || strings.Contains(out, "hunter2")) {
			err = errors.New(out)
		}
		return err
	})
}

func (j *journey) reset(t *testing.T) {
	old := j.s.Credentials(j.d)
	if err := j.api.ResetPostgresDatabaseCredentials(t.Context(), int(j.d.ID)); err != nil {
		t.Fatal(err)
	}
	j.d = j.s.AwaitStatus(j.d, "active")
	j.enter(t, j.d, j.s.Credentials(j.d))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := j.connect(ctx, j.d, old, "127.0.0.1"); err == nil || !strings.Contains(err.Error(), "password authentication failed") {
		t.Errorf("the old password: %v", err)
	}
}

func (j *journey) resize(t *testing.T) {
	if _, err := j.api.UpdatePostgresDatabase(t.Context(), int(j.d.ID), linodego.PostgresUpdateOptions{Type: "g6-standard-1"}); err != nil {
		t.Fatal(err)
	}
	j.d = j.s.AwaitStatus(j.d, "active")
	var pods corev1.PodList
	if err := j.c.List(t.Context(), &pods, client.InNamespace(j.namespace), client.MatchingLabels{cnpg.ClusterLabel: j.object(t, j.d)}); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || pods.Items[0].Spec.Containers[0].Resources.Limits.Memory().Value() != 2<<30 {
		t.Errorf("it is active with %d Pods, the first of %+v", len(pods.Items), pods.Items[0].Spec.Containers[0].Resources)
	}
	j.enter(t, j.d, j.s.Credentials(j.d))
}

func (j *journey) restart(t *testing.T) {
	pod := client.ObjectKey{Namespace: j.namespace, Name: j.object(t, j.d) + "-1"}
	var before, after corev1.Pod
	if err := j.c.Get(t.Context(), pod, &before); err != nil {
		t.Fatal(err)
	}
	if status, body := j.s.Call("POST", j.d.Path()+"/restart", nil, nil); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	j.d = j.s.AwaitStatus(j.d, "active")
	if err := j.c.Get(t.Context(), pod, &after); err != nil || before.UID == after.UID {
		t.Errorf("it wasn't restarted: %v", err)
	}
	j.enter(t, j.d, j.s.Credentials(j.d))
}

func (j *journey) switchover(t *testing.T) {
	put := func(change map[string]any) {
		t.Helper()
		if status, body := j.s.Call("PUT", j.d.Path(), change, nil); status != 200 {
			t.Fatalf("%v: %d %s", change, status, body)
		}
		j.d = j.s.AwaitStatus(j.d, "active")
	}
	before := j.d.Hosts
	put(map[string]any{"cluster_size": 3, "replication_commit_type": "remote_write"})
	var c cnpg.Cluster
	if err := j.c.Get(t.Context(), client.ObjectKey{Namespace: j.namespace, Name: j.object(t, j.d)}, &c); err != nil {
		t.Fatal(err)
	}
	if s := c.Spec.PostgreSQL.Synchronous; c.Spec.Instances != 3 || s == nil || s.DataDurability != "required" {
		t.Errorf("%d instances, synchronous %+v", c.Spec.Instances, s)
	}
	if status, body := j.s.Call("POST", j.d.Path()+"/switchover", nil, nil); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if j.d = j.s.AwaitStatus(j.d, "active"); j.d.Hosts.Primary != before.Primary || len(j.d.Members) != 3 {
		t.Errorf("its addresses were %+v, and are %+v with %v", before, j.d.Hosts, j.d.Members)
	}
	j.enter(t, j.d, j.s.Credentials(j.d))
	j.s.Eventually("the switchover is told", func() error {
		if _, body := j.s.Call("GET", j.d.Path()+"/nodes/history", nil, nil); !strings.Contains(body, `"kind":"handover"`) || !strings.Contains(body, `"results":1`) {
			return errors.New(body)
		}
		return nil
	})
	put(map[string]any{"cluster_size": 1})
}

func (j *journey) suspend(t *testing.T) {
	before := j.d.Hosts
	c := j.s.Credentials(j.d)
	if err := j.api.SuspendPostgresDatabase(t.Context(), int(j.d.ID)); err != nil {
		t.Fatal(err)
	}
	j.d = j.s.AwaitStatus(j.d, "suspended")
	for _, o := range j.mine(t, j.d.ID) {
		if strings.Contains(o, "Pod") {
			t.Errorf("suspended, there is %s", o)
		}
	}
	if err := j.api.ResumePostgresDatabase(t.Context(), int(j.d.ID)); err != nil {
		t.Fatal(err)
	}
	if j.d = j.s.AwaitStatus(j.d, "active"); j.d.Hosts != before {
		t.Errorf("its addresses were %+v, and are %+v", before, j.d.Hosts)
	}
	j.enter(t, j.d, c)
}

// killed has an operator that does nothing keep a create and a delete from their ends.
func (j *journey) killed(t *testing.T) {
	j.op.Pause()
	defer j.op.Resume()
	spec := harness.Small("survivor", "postgresql/15")
	spec["region"] = "kube"
	d := j.s.Create(spec)
	await.NoError(t, "it is being made", func() error {
		return j.c.Get(t.Context(), client.ObjectKey{Namespace: j.namespace, Name: j.object(t, d)}, &cnpg.Cluster{})
	})
	j.s.Kill()
	j.op.Resume()
	j.s.Start()
	d = j.s.AwaitStatus(d, "active")
	j.enter(t, d, j.s.Credentials(d))
	j.op.Pause() // its volumes stay for now
	if status, body := j.s.Call("DELETE", d.Path(), nil, nil); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	await.True(t, "it is being removed", func() bool {
		return apierrors.IsNotFound(j.c.Get(t.Context(), client.ObjectKey{Namespace: j.namespace, Name: j.object(t, d)}, &cnpg.Cluster{}))
	})
	j.s.Kill()
	j.op.Resume()
	j.s.Start()
	j.erased(d)
	if left := j.mine(t, d.ID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	j.enter(t, j.d, j.s.Credentials(j.d)) // who lived through it
}

func (j *journey) erase(t *testing.T, d harness.Database) {
	t.Helper()
	if status, body := j.s.Call("DELETE", d.Path(), nil, nil); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	j.erased(d)
}

// erased waits until a delete has come to its end.
func (j *journey) erased(d harness.Database) {
	j.s.Eventually("deleted", func() error {
		var page struct {
			Data []struct {
				Action, Status string
				Entity         struct{ ID int64 }
			}
		}
		j.s.Call("GET", "/v4/account/events?page_size=100", nil, &page)
		for _, e := range page.Data {
			if e.Action == "database_delete" && e.Status == "finished" && e.Entity.ID == d.ID {
				return nil
			}
		}
		return errors.New("its event isn't finished")
	})
}

// away has steward start, serve, and make databases elsewhere while the region can't be reached.
func (j *journey) away(t *testing.T) {
	j.s.Stop()
	j.wire.set(cut)
	defer j.wire.set(whole)
	j.s.Start()
	if err := j.status("degraded"); err != nil {
		t.Error(err)
	}
	spec := harness.Small("refused", "postgresql/15")
	spec["region"] = "kube"
	if code, body := j.s.Call("POST", "/v4/databases/postgresql/instances", spec, nil); code != 400 || !strings.Contains(body, "region kube can't be reached") {
		t.Errorf("%d %s", code, body)
	}
	for _, look := range []string{"/nodes", "/queries/running", "/tables", "/prometheus"} {
		if code, body := j.s.Call("GET", j.d.Path()+look, nil, nil); code != 400 || !strings.Contains(body, "region can't be reached") {
			t.Errorf("%s: %d %s", look, code, body)
		}
	}
	if shown := j.metrics(t); !strings.Contains(shown, `steward_region_reachable{region="kube"} 0`) {
		t.Errorf("/metrics: %s", shown)
	}
	here := j.s.CreateActive(harness.Small("here", "postgresql/15"))
	if now := j.s.AwaitStatus(j.d, "active"); now.Hosts != j.d.Hosts {
		t.Errorf("%+v", now)
	}
	if code, body := j.s.Call("PUT", j.d.Path(), map[string]any{"allow_list": []string{"127.0.0.1", "127.0.0.9"}}, nil); code != 200 {
		t.Errorf("a change that waits: %d %s", code, body)
	}
	out, err := j.s.Command("doctor", "--config", j.s.ConfigPath())
	if err == nil || !strings.Contains(out, "region kube (kubernetes/"+j.namespace+"): can't be reached") {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	j.wire.set(whole)
	j.awaitRegion(t, 1)
	j.d = j.s.AwaitStatus(j.d, "active")
	c := j.s.Credentials(j.d)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	end, err := j.connect(ctx, j.d, c, "127.0.0.9")
	if err != nil {
		t.Fatalf("the change that waited: %v", err)
	}
	end()
	j.hangs(t, here)
}

// hangs: an API server that takes requests and doesn't answer holds up nothing elsewhere, and what it said before counts.
func (j *journey) hangs(t *testing.T, here harness.Database) {
	j.wire.set(hanging)
	j.awaitRegion(t, 0)
	j.erase(t, here)
	if code, body := j.s.Call("GET", j.d.Path()+"/nodes", nil, nil); code != 200 || !strings.Contains(body, `"health":"healthy"`) {
		t.Errorf("its nodes: %d %s", code, body)
	}
	j.enter(t, j.d, j.s.Credentials(j.d))
	j.wire.set(whole)
	j.awaitRegion(t, 1)
	if err := j.status("ok"); err != nil {
		t.Error(err)
	}
}

// undefined: while the API server doesn't know the operator's kind, nothing of the region is taken for gone, and nothing is begun there.
func (j *journey) undefined(t *testing.T) {
	back := simulator.Redefine(t, j.c, "clusters.postgresql.cnpg.io", func(version map[string]any) { version["served"] = false })
	j.awaitRegion(t, 0)
	if err := j.status("degraded"); err != nil {
		t.Error(err)
	}
	if now := j.s.AwaitStatus(j.d, "active"); now.Hosts != j.d.Hosts {
		t.Errorf("%+v", now)
	}
	spec := harness.Small("refused", "postgresql/15")
	spec["region"] = "kube"
	if code, body := j.s.Call("POST", "/v4/databases/postgresql/instances", spec, nil); code != 400 || !strings.Contains(body, "region kube can't be reached") {
		t.Errorf("%d %s", code, body)
	}
	if out, err := j.s.Command("doctor", "--config", j.s.ConfigPath()); err == nil || !strings.Contains(out, "kubectl apply --server-side -f cnpg-") {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	if log := string(readFile(t, j.s.LogPath)); !strings.Contains(log, "its kind isn't defined") {
		t.Errorf("the log doesn't say why")
	}
	back()
	j.awaitRegion(t, 1)
	j.enter(t, j.d, j.s.Credentials(j.d))
}

// awaitRegion waits until the region can be reached, 1, or can't, 0. It asks where that costs little.
func (j *journey) awaitRegion(t *testing.T, reachable int) {
	t.Helper()
	await.True(t, fmt.Sprintf("the region is reachable: %d", reachable), func() bool {
		return strings.Contains(j.metrics(t), fmt.Sprintf(`steward_region_reachable{region="kube"} %d`, reachable))
	})
}

func (j *journey) status(want string) error {
	if _, body := j.s.Call("GET", "/v4/regions/kube", nil, nil); !strings.Contains(body, `"status":"`+want+`"`) {
		return errors.New(body)
	}
	return nil
}

// metrics are what Prometheus is shown, at the address that the log tells.
func (j *journey) metrics(t *testing.T) string {
	t.Helper()
	log := string(readFile(t, j.s.LogPath))
	_, rest, _ := strings.Cut(log[strings.LastIndex(log, "  metrics   "):], "http://")
	address, _, _ := strings.Cut(rest, "\n")
	answer, err := http.Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// vanished: steward doesn't start without the regions of its databases, and says which are there.
func (j *journey) vanished(t *testing.T) {
	j.s.Stop()
	for _, v := range []struct{ menu, want string }{
		{"regions: [{id: local, label: This machine, country: zz, status: ok}]\n", "regions: kube is missing, and has database %d (over-there)"},
		{"regions: [{id: kube, label: Here, country: zz, status: ok}]\n", "regions: kube: platform is host, but was kubernetes/" + j.namespace + " for database %d (over-there)"},
	} {
		write(t, j.catalog, v.menu)
		j.s.Launch()
		select {
		case <-j.s.Exited():
		case <-time.After(harness.Patience):
			t.Fatal("it didn't end")
		}
		log, err := os.ReadFile(j.s.LogPath)
		if want := fmt.Sprintf(v.want, j.d.ID); err != nil || !strings.Contains(string(log), want) {
			t.Errorf("it doesn't say %q: %v\n%s", want, err, j.s.LogTail())
		}
	}
	write(t, j.catalog, j.menu)
	j.s.Start()
}

// mariaDB has a database of the region's other operator come and go.
func (j *journey) mariaDB(t *testing.T) {
	j.s.Stop()
	j.addMariaDB(t)
	j.s.Start()
	spec := harness.Small("other", "mysql/10.11")
	spec["region"] = "kube"
	d := j.s.CreateActive(spec)
	j.enter(t, d, j.s.Credentials(d))
	j.erase(t, d)
}

func (j *journey) remove(t *testing.T) {
	if err := j.api.DeletePostgresDatabase(t.Context(), int(j.d.ID)); err != nil {
		t.Fatal(err)
	}
	j.erased(j.d)
	if left := j.mine(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
