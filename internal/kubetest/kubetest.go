// Package kubetest gives tests a real API server of Kubernetes, with etcd behind it and RBAC on: no
// controllers, no nodes. It is started once per test process and ends with it, however that
// ends. Each test has a namespace of its own.
package kubetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/pki"
	"steward/internal/testdir"
)

// patience is long because machines that run tests are busy.
const patience = 2 * time.Minute

// Server is an API server that runs.
type Server struct {
	dir, url string
	ca       *pki.CA
	// token is the administrator's.
	token string
	stop  func()

	mu    sync.Mutex
	users map[string]*rest.Config
}

var (
	mu     sync.Mutex
	shared *Server
)

// Main runs the tests and ends the server; call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	Stop()
	os.Exit(code)
}

// Stop ends the server, for a TestMain that has more to do than Main.
func Stop() {
	mu.Lock()
	defer mu.Unlock()
	if shared != nil {
		shared.stop()
		shared = nil
	}
}

// Start returns the process's server, which the first test that asks for it starts.
func Start(t testing.TB) *Server {
	t.Helper()
	testdir.NeedsServers(t)
	mu.Lock()
	defer mu.Unlock()
	if shared != nil {
		return shared
	}
	s, err := start(t)
	if err != nil {
		t.Fatalf("start an API server of Kubernetes for tests: %v", err)
	}
	shared = s
	return s
}

// Namespace makes one for a test, with nothing in it.
func (s *Server) Namespace(t testing.TB, c client.Client) string {
	t.Helper()
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := c.Create(t.Context(), made); err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	return made.Name
}

// Admin may do anything. It logs in by a token, which the API server looks up: a certificate it verifies with each request.
func (s *Server) Admin(testing.TB) *rest.Config {
	return &rest.Config{Host: s.url, QPS: -1, BearerToken: s.token, TLSClientConfig: rest.TLSClientConfig{CAData: s.ca.CertPEM()}}
}

// User has the rights that roles give the name or the groups.
func (s *Server) User(t testing.TB, name string, groups ...string) *rest.Config {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[name] == nil {
		cert, key, err := s.clientCertificate(name, groups)
		if err != nil {
			t.Fatalf("certificate of %s: %v", name, err)
		}
		s.users[name] = &rest.Config{
			Host: s.url, QPS: -1, // nobody else is to be spared
			TLSClientConfig: rest.TLSClientConfig{CAData: s.ca.CertPEM(), CertData: cert, KeyData: key},
		}
	}
	return rest.CopyConfig(s.users[name])
}

// Kubeconfig is the text of a file that logs in as config does.
func Kubeconfig(config *rest.Config, namespace string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: test, namespace: %s}}]
clusters: [{name: test, cluster: {server: "%s", certificate-authority-data: %s}}]
users: [{name: test, user: {client-certificate-data: %s, client-key-data: %s}}]
`, namespace, config.Host, encode(config.CAData), encode(config.CertData), encode(config.KeyData))
}

func start(t testing.TB) (*Server, error) {
	program, err := built()
	if err != nil {
		return nil, err
	}
	dir, err := testdir.Make("steward-kube-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, token: rand.Text(), users: map[string]*rest.Config{}}
	if s.ca, err = pki.NewCA("kubetest", time.Now()); err != nil {
		return nil, err
	}
	if err := s.writeKeys(); err != nil {
		return nil, err
	}
	port := testdir.Ports(t, 3)
	s.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	if s.stop, err = s.guard(program, port); err != nil {
		return nil, err
	}
	if err := s.ready(t); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "apiserver.log"))
		s.stop()
		return nil, fmt.Errorf("%w; its log ends: %s", err, log[max(0, len(log)-2000):])
	}
	return s, nil
}

// built is the path of the program, which scripts/fetch-kube builds where it isn't there.
func built() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		script := filepath.Join(dir, "scripts", "fetch-kube")
		if _, missing := os.Stat(script); missing == nil {
			cmd := exec.CommandContext(context.Background(), script)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				return "", fmt.Errorf("%s: %w", script, err)
			}
			return strings.TrimSpace(string(out)), nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("there is no scripts/fetch-kube above %s", dir)
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

func (s *Server) writeKeys() error {
	cert, key, err := s.ca.Issue([]string{"localhost"}, []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, time.Now())
	if err != nil {
		return err
	}
	account, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(account)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&account.PublicKey)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"ca.crt": s.ca.CertPEM(), "server.crt": cert, "server.key": key,
		"account.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		"tokens.csv":  []byte(s.token + `,admin,admin,"system:masters"` + "\n"),
		"account.pub": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// guardian runs both programs until the test process closes its end of the pipe or dies. What it
// ends has nothing that is worth keeping.
const guardian = `cd "$1" || exit
etcd --data-dir etcd --listen-client-urls "http://127.0.0.1:$4" --advertise-client-urls "http://127.0.0.1:$4" \
  --listen-peer-urls "http://127.0.0.1:$5" --log-level warn >etcd.log 2>&1 </dev/null &
etcd=$!
{ while [ ! -e stop ]; do
"$2" --etcd-servers "http://127.0.0.1:$4" --bind-address 127.0.0.1 --secure-port "$3" --advertise-address 127.0.0.1 \
  --cert-dir . --client-ca-file ca.crt --token-auth-file tokens.csv --tls-cert-file server.crt --tls-private-key-file server.key \
  --service-account-issuer https://kubernetes.default.svc --service-account-key-file account.pub --service-account-signing-key-file account.key \
  --service-cluster-ip-range 10.96.0.0/16 --authorization-mode RBAC --allow-privileged \
  --disable-admission-plugins ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection --endpoint-reconciler-type none \
  --etcd-count-metric-poll-period 0 --enable-priority-and-fairness=false --shutdown-delay-duration 0 >>apiserver.log 2>&1 </dev/null &
echo $! >apiserver.pid
wait $!
done; touch stopped; } &
read -r _
touch stop
until [ -e stopped ]; do kill -KILL "$(cat apiserver.pid)" 2>/dev/null; sleep 0.02; done
kill -KILL "$etcd"
wait
rm -rf "$1"`

// guard starts a guardian of its own session, out of reach of what is typed at the tests'
// terminal; stop makes it act and waits for it.
func (s *Server) guard(program string, port int) (stop func(), err error) {
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", guardian, "sh", s.dir, program, fmt.Sprint(port), fmt.Sprint(port+1), fmt.Sprint(port+2))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2", "GOGC=400")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		hold.Close()
		_ = cmd.Wait() // its exit code is that of what it killed
	}), nil
}

// Crash kills the API server, which then comes back; what it knew is in etcd. It returns when it answers again.
func (s *Server) Crash(t testing.TB, meanwhile func()) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "apiserver.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	meanwhile()
	if err := s.ready(t); err != nil {
		t.Fatal(err)
	}
}

// ready waits until the server answers and has its own roles.
func (s *Server) ready(t testing.TB) error {
	transport, err := rest.TransportFor(s.Admin(t))
	if err != nil {
		return err
	}
	web := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if last = healthy(t.Context(), web, s.url+"/readyz"); last == nil {
			return nil
		}
	}
	return fmt.Errorf("it isn't ready after %v: %w", patience, last)
}

func healthy(ctx context.Context, web *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := web.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return err
}
