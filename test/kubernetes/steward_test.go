package kubernetes

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/await"
	"steward/internal/pgtest"
	"steward/internal/process"
	"steward/internal/testdir"
	"steward/test/harness"
)

// nobody is who the image's program runs as.
const nobody = 65532

// TestStewardInTheCluster: what deploy/steward says is taken by the API server as it is, and two replicas of the image, run as it says, on one
// store, without privileges and with nothing but the image, make a database by their own account's rights. One is killed in the middle, the other finishes; then they
// are replaced as an update does it, and somebody is always ready.
func TestStewardInTheCluster(t *testing.T) {
	w := newWorld(t)
	in := w.deploy(t)
	image := unpack(t, packed(t))
	store := overTCP(t, pgtest.URL(t))
	first, second := in.start(t, image, store), in.start(t, image, store)
	first.ready(t)
	second.ready(t)

	token := first.command(t, "token", "create", "--user", "admin", "--scopes", "*")
	d := second.create(t, token)
	await.True(t, "it is being made", func() bool { return len(w.mine(t, d.ID)) > 0 })
	second.kill(t, syscall.SIGKILL)
	first.await(t, token, d, "active")

	// An update: another one is ready before an old one is told to end, and none that is asked fails.
	third := in.start(t, image, store)
	third.ready(t)
	answered := make(chan error, 1)
	go func() {
		_, err := first.try(http.MethodGet, "/v4/databases/instances", token, nil, nil)
		answered <- err
	}()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	first.kill(t, syscall.SIGTERM)
	if took := first.ended.Sub(first.told); took > in.grace {
		t.Errorf("it took %v to end, of %v that it has", took, in.grace)
	}
	if first.code != 0 {
		t.Errorf("it ended with %d: %s", first.code, first.log(t))
	}
	third.await(t, token, d, "active")
	if _, err := third.try(http.MethodDelete, d.Path(), token, nil, nil); err != nil {
		t.Fatal(err)
	}
	await.True(t, "nothing of it is left", func() bool { return len(w.mine(t, d.ID)) == 0 })
	if log := third.log(t); !strings.Contains(log, "no region is this host") || strings.Contains(log, "weaker") {
		t.Errorf("its log: %s", log)
	}
}

// deployed is steward as an API server has it.
type deployed struct {
	*world
	namespace string
	container corev1.Container
	config    map[string]string
	grace     time.Duration
	// token logs in as its account.
	token string
	n     int
}

// deploy makes what `kubectl apply -k deploy/steward` does, and gives its account the rights that rights.yaml does.
func (w *world) deploy(t *testing.T) *deployed {
	t.Helper()
	in := &deployed{world: w, namespace: w.namespace + "-steward"}
	at := map[string]string{"databases": w.namespace, "steward": in.namespace}
	w.make(t, "../../deploy/steward", at)
	w.makeFile(t, "../../deploy/steward/rights.yaml", at)
	var deployment appsv1.Deployment
	w.read(t, in.namespace, "steward", "apps/v1", "Deployment", &deployment)
	pod := deployment.Spec.Template
	in.container, in.grace = pod.Spec.Containers[0], time.Duration(*pod.Spec.TerminationGracePeriodSeconds)*time.Second
	// What guards the namespace lets such Pods in.
	try := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "try", Namespace: in.namespace, Labels: pod.Labels}, Spec: pod.Spec}
	if err := client.NewDryRunClient(w.c).Create(t.Context(), try); err != nil {
		t.Errorf("its Pods: %v", err)
	}
	var config corev1.ConfigMap
	w.read(t, in.namespace, "steward", "v1", "ConfigMap", &config)
	in.config = config.Data
	ask := &authenticationv1.TokenRequest{}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.ServiceAccountName, Namespace: in.namespace}}
	if err := w.c.SubResource("token").Create(t.Context(), account, ask); err != nil {
		t.Fatal(err)
	}
	in.token = ask.Status.Token
	return in
}

// read reads an object of a kind that steward itself doesn't know.
func (w *world) read(t *testing.T, namespace, name, version, kind string, into any) {
	t.Helper()
	o := unstructuredOf(version, kind)
	if err := w.c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
		t.Fatal(err)
	}
}

// packed is the image of the program under test, as `make image` makes it, but not compressed.
func packed(t *testing.T) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image.tar")
	text, err := exec.CommandContext(t.Context(), "go", "run", "../../scripts/image.go", "-program", harness.Binary(t, ""), "-out", out, "-level", "0").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// unpack makes the image's root folder, as a container's, of what its manifest says; every part must be what its digest says.
func unpack(t *testing.T, image string) (root string) {
	t.Helper()
	blobs := map[string][]byte{}
	f, err := os.Open(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	each(t, f, func(h *tar.Header, content []byte) { blobs[h.Name] = content })
	type descriptor struct{ Digest string }
	blob := func(d descriptor) []byte {
		content := blobs["blobs/"+strings.ReplaceAll(d.Digest, ":", "/")]
		if sum := sha256.Sum256(content); content == nil || "sha256:"+hex.EncodeToString(sum[:]) != d.Digest {
			t.Fatalf("%s isn't what it says", d.Digest)
		}
		return content
	}
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var config struct {
		Config struct {
			User       string
			Entrypoint []string
		}
	}
	decode(t, blobs["index.json"], &index)
	decode(t, blob(index.Manifests[0]), &manifest)
	decode(t, blob(manifest.Config), &config)
	if config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/steward"}) {
		t.Errorf("the image says %+v", config)
	}
	root = testdir.New(t, "steward-image-")
	for _, l := range manifest.Layers {
		plain, err := gzip.NewReader(bytes.NewReader(blob(l)))
		if err != nil {
			t.Fatal(err)
		}
		each(t, plain, func(h *tar.Header, content []byte) {
			path := filepath.Join(root, h.Name)
			if h.Typeflag == tar.TypeDir {
				err = os.MkdirAll(path, 0o755)
			} else {
				err = os.WriteFile(path, content, fs.FileMode(h.Mode))
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	return root
}

func each(t *testing.T, from io.Reader, do func(h *tar.Header, content []byte)) {
	t.Helper()
	for archive := tar.NewReader(from); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		content := make([]byte, h.Size)
		if _, err := io.ReadFull(archive, content); err != nil {
			t.Fatal(err)
		}
		do(h, content)
	}
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// overTCP leads to a store that is behind a socket, which isn't in a container; it is what a Pod is told of its store.
func overTCP(t *testing.T, store string) map[string]string {
	t.Helper()
	u, err := url.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(u.Query().Get("host"), ".s.PGSQL."+u.Query().Get("port"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				to, err := net.Dial("unix", socket)
				if err != nil {
					return
				}
				defer to.Close()
				go func() { _, _ = io.Copy(from, to); from.Close() }()
				_, _ = io.Copy(to, from)
			}()
		}
	}()
	password, _ := u.User.Password()
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"PGHOST": host, "PGPORT": port, "PGDATABASE": strings.TrimPrefix(u.Path, "/"), "PGUSER": u.User.Username(), "PGPASSWORD": password}
}

// replica is one of the program's Pods.
type replica struct {
	root, url   string
	cmd         *exec.Cmd
	env         []string
	done        chan struct{}
	told, ended time.Time
	code        int
}

// start runs a container as its Deployment says, but for where it listens and for its store, which has no certificate.
func (in *deployed) start(t *testing.T, image string, store map[string]string) *replica {
	t.Helper()
	in.n++
	r := &replica{root: testdir.New(t, "steward-pod-"), done: make(chan struct{})}
	if out, err := exec.CommandContext(t.Context(), "cp", "-al", image+"/.", r.root).CombinedOutput(); err != nil { // as layers are shared
		t.Fatalf("%v: %s", err, out)
	}
	server, err := url.Parse(in.admin.Host)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"var/run/secrets/kubernetes.io/serviceaccount/token": in.token, "var/run/secrets/kubernetes.io/serviceaccount/ca.crt": string(in.admin.CAData)}
	const boot = "proc/sys/kernel/random/boot_id"
	files[boot] = string(readFile(t, "/"+boot)) // a container has all of /proc
	for name, text := range in.config {
		text = strings.ReplaceAll(text, "namespace: databases", "namespace: "+in.world.namespace)
		files["etc/steward/"+name] = strings.ReplaceAll(text, "10.244.0.0/16", "127.0.0.1/32")
	}
	for name, text := range files {
		path := filepath.Join(r.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(r.root, "data")
	if err := errors.Join(os.Mkdir(data, 0o755), os.Chown(data, owner(), owner())); err != nil {
		t.Fatal(err)
	}
	r.env = []string{"PATH=/usr/bin", "KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()}
	values := map[string]string{"SEAL_KEY": "smGbjm71Nxd1Ig5FS0wj9SlbzAIrnolCz9bQQ6uAhl4="}
	for _, e := range in.container.Env {
		value, told := store[e.Name]
		if !told {
			value = e.Value
		}
		if e.ValueFrom != nil && !told {
			value = values[e.Name]
		}
		r.env = append(r.env, e.Name+"="+strings.ReplaceAll(value, "$(SEAL_KEY)", values["SEAL_KEY"]))
	}
	r.env = append(r.env, "PGPORT="+store["PGPORT"])
	port := testdir.Ports(t, 1)
	r.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	args := slices.Clone(in.container.Args)
	for i, a := range args {
		switch name, _, _ := strings.Cut(a, "="); name {
		case "--listen":
			args[i] = fmt.Sprintf("--listen=127.0.0.1:%d", port)
		case "--metrics":
			args[i] = "--metrics=127.0.0.1:0"
		case "--store":
			args[i] = "--store=postgres://?sslmode=disable"
		}
	}
	log, err := os.Create(filepath.Join(r.root, "..", filepath.Base(r.root)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close(); os.Remove(log.Name()) })
	r.cmd = r.program(args...)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	err = process.StartBound(r.cmd, func(error) {
		r.code, r.ended = r.cmd.ProcessState.ExitCode(), time.Now()
		close(r.done)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.kill(t, syscall.SIGKILL)
		if t.Failed() {
			t.Logf("a replica's log: %s", r.log(t))
		}
	})
	return r
}

// owner is the container's user outside of it.
func owner() int {
	if os.Geteuid() != 0 {
		return os.Geteuid()
	}
	return nobody
}

// program runs the image's program in its root folder, as nobody.
func (r *replica) program(args ...string) *exec.Cmd {
	cmd := exec.Command("/usr/bin/steward", args...)
	cmd.Dir, cmd.Env = "/", r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: r.root, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	} else {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getegid(), Size: 1}}
	}
	return cmd
}

func (r *replica) log(t *testing.T) string {
	t.Helper()
	return string(readFile(t, filepath.Join(r.root, "..", filepath.Base(r.root)+".log")))
}

// ready waits until the readiness probe would be answered.
func (r *replica) ready(t *testing.T) {
	t.Helper()
	await.NoError(t, "ready", func() error {
		select {
		case <-r.done:
			t.Fatalf("it ended: %s", r.log(t))
		default:
		}
		_, err := r.try(http.MethodGet, "/readyz", "", nil, nil)
		return err
	})
}

// kill ends the process and waits for that.
func (r *replica) kill(t *testing.T, how syscall.Signal) {
	t.Helper()
	r.told = time.Now()
	_ = r.cmd.Process.Signal(how) // it may have ended
	select {
	case <-r.done:
	case <-time.After(harness.Patience):
		t.Fatalf("it didn't end: %s", r.log(t))
	}
}

// command gives an operator's command in the container, as `kubectl exec` does.
func (r *replica) command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := r.program(append(args, "--data=/data", "--store=postgres://?sslmode=disable")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// try asks, and returns an error unless the answer is 200.
func (r *replica) try(method, path, token string, in, out any) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	text, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(body, out)
	}
	return string(body), err
}

func (r *replica) create(t *testing.T, token string) (d harness.Database) {
	t.Helper()
	spec := harness.Small("in-the-cluster", "postgresql/15")
	spec["region"] = "kube"
	if _, err := r.try(http.MethodPost, "/v4/databases/postgresql/instances", token, spec, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func (r *replica) await(t *testing.T, token string, d harness.Database, status string) {
	t.Helper()
	await.NoError(t, status, func() error {
		var now harness.Database
		body, err := r.try(http.MethodGet, d.Path(), token, nil, &now)
		if err == nil && now.Status != status {
			err = errors.New(body)
		}
		return err
	})
}
