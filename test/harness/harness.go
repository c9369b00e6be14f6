// Package harness starts the built steward on free ports with real databases
// behind it, for the end-to-end, crash and speed suites. Everything it starts
// is stopped when the test ends, also when it fails.
package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/internal/api/apitest"
	"steward/internal/await"
	"steward/internal/pgtest"
	"steward/internal/testdir"
	"steward/internal/testnet"
)

// Patience is how long the harness waits for anything. Generous, since test
// machines are slow and shared; nothing is asserted about it.
const Patience = 90 * time.Second

// portsPerServer bounds how many databases one test server can have, unless it is WithPorts.
const portsPerServer = 24

// Server is one steward process and its data folder.
type Server struct {
	Data string
	// URL is where to ask; in tests each answer is held against the API's document
	// on its way.
	URL   string
	Token string
	// FirstPort is the first of the gateway's ports.
	FirstPort int
	// Env is added to the process's environment at the next Start.
	Env []string
	// LogPath is where the process's output goes.
	LogPath string

	t      testing.TB
	binary string
	listen string
	config string
	cmd    *exec.Cmd
	done   chan struct{}
	after  []func()
}

// Option changes a server before its first start.
type Option func(*settings)

type settings struct {
	tags   string
	config string
	fresh  bool
	empty  bool
	ports  int
	builds []string
}

// WithTags builds the binary with build tags, such as failpoint.
func WithTags(tags string) Option { return func(s *settings) { s.tags = tags } }

// WithConfig adds lines to the configuration file.
func WithConfig(yaml string) Option { return func(s *settings) { s.config += yaml + "\n" } }

// Fresh has the first start make everything, and clones ahead of use, as for a user.
func Fresh() Option { return func(s *settings) { s.fresh = true } }

// WithPorts lets the server have so many databases.
func WithPorts(n int) Option { return func(s *settings) { s.ports = n } }

// OfBuilds has templates of those builds alone be ready whose names begin so: to copy all takes longer than some tests.
func OfBuilds(prefixes ...string) Option {
	return func(s *settings) { s.builds = append(s.builds, prefixes...) }
}

// Empty leaves the data folder empty.
func Empty() Option { return func(s *settings) { s.empty = true } }

// New prepares a server and starts it; it returns once /readyz answers.
func New(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := Prepare(t, options...)
	s.Start()
	return s
}

// Prepare makes folder, configuration and binary without starting anything.
func Prepare(t testing.TB, options ...Option) *Server {
	t.Helper()
	testdir.NeedsServers(t)
	set := settings{ports: portsPerServer}
	for _, o := range options {
		o(&set)
	}
	first := testdir.Ports(t, 1+set.ports) + 1
	s := &Server{
		Data: dataFolder(t), FirstPort: first, t: t, binary: Binary(t, set.tags),
		listen: fmt.Sprintf("127.0.0.1:%d", first-1),
		config: filepath.Join(t.TempDir(), "steward.yaml"), LogPath: filepath.Join(t.TempDir(), "steward.log"),
	}
	s.URL = "http://" + s.listen
	if _, test := t.(*testing.T); test { // a benchmark measures the server alone
		s.URL = apitest.Proxy(t, s.URL, s.binary)
	}
	config := fmt.Sprintf("metrics: {listen: '127.0.0.1:0'}\ngateway:\n  driver: %s\n  ports: %d-%d\nlimits: {requests_per_minute: 0, checks_per_minute: 0, host_checks_per_minute: 0}\n%s", driver(), first, first+set.ports-1, set.config)
	if dir := EnginesFolder(); dir != "" && !strings.Contains(set.config, "engines:") {
		config += "engines:\n  folders: [" + dir + "]\n"
	}
	if _, test := t.(*testing.T); test && !set.fresh {
		if !set.empty {
			s.prepare(set.builds)
		}
		if !strings.Contains(set.config, "pool:") {
			config += "pool: {size: 0}\n" // clones that nobody takes cost more than most tests
		}
	}
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stopAll)
	return s
}

// driver is the kernel's gateway where tests have a network of their own; the machine's isn't touched.
func driver() string {
	if testnet.Inside() {
		return "kernel"
	}
	return "haproxy"
}

// EnginesFolder is where `make engines` keeps further server versions, "" when
// there is no such folder.
func EnginesFolder() string {
	dir := os.Getenv("STEWARD_ENGINES")
	if dir == "" {
		dir = "/var/cache/steward/engines"
		if os.Geteuid() != 0 {
			home, _ := os.UserHomeDir()
			dir = filepath.Join(home, ".cache/steward/engines")
		}
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return ""
	}
	return dir
}

// dataFolder is on the disk for benchmarks, and where it is fastest for tests.
func dataFolder(t testing.TB) string {
	if _, test := t.(*testing.T); test {
		return testdir.New(t, "st")
	}
	return testdir.OnDisk(t, "st")
}

var builds struct {
	sync.Mutex
	paths, digests map[string]string
}

// Binary builds cmd/steward once per process and set of tags.
func Binary(t testing.TB, tags string) string {
	t.Helper()
	testdir.NeedsServers(t)
	builds.Lock()
	defer builds.Unlock()
	if path := builds.paths[tags]; path != "" {
		return path
	}
	if err := lookAtSources(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "steward-bin-")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "steward")
	err = testdir.Built(path, strings.TrimSuffix("steward-"+tags, "-"), func(kept string) error {
		cmd := exec.Command("go", "build", "-ldflags=-s -w", "-tags", tags, "-o", kept, "steward/cmd/steward")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("build steward: %w\n%s", err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if builds.paths == nil {
		builds.paths = map[string]string{}
	}
	builds.paths[tags] = path
	return path
}

// lookAtSources has go test run tests again, instead of showing an old result, when the code
// changes that the binary is built of: it remembers which folders a test read. To name the code
// in an import would link all of it to each package of tests.
func lookAtSources() error {
	root := pgtest.SourceFolder()
	var errs []error
	for _, dir := range []string{"api", "cmd", "internal"} {
		errs = append(errs, filepath.WalkDir(filepath.Join(root, dir), func(_ string, _ os.DirEntry, err error) error { return err }))
	}
	_, err := os.ReadFile(filepath.Join(root, "go.mod"))
	return errors.Join(append(errs, err)...)
}

// RemoveBinaries deletes what Binary built; call it at the end of TestMain.
func RemoveBinaries() {
	builds.Lock()
	defer builds.Unlock()
	for _, path := range builds.paths {
		os.RemoveAll(filepath.Dir(path))
	}
	builds.paths = nil
}

// Start starts the process and waits until it is ready.
func (s *Server) Start(args ...string) {
	s.t.Helper()
	s.Launch(args...)
	s.AwaitReady()
}

// Launch starts the process without waiting for it to be ready.
func (s *Server) Launch(args ...string) {
	s.t.Helper()
	logFile, err := os.OpenFile(s.LogPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer logFile.Close()
	s.cmd = exec.Command(s.binary, append([]string{"serve", "--data", s.Data, "--listen", s.listen, "--config", s.config, "--debug"}, args...)...)
	s.cmd.Stdout, s.cmd.Stderr = logFile, logFile
	s.cmd.Env = append(os.Environ(), s.Env...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	done, cmd := make(chan struct{}), s.cmd
	s.done = done
	go func() { _ = cmd.Wait(); close(done) }()
}

// AwaitReady waits until /readyz answers 200 and reads the first token.
func (s *Server) AwaitReady() {
	s.t.Helper()
	s.Eventually("ready", func() error {
		select {
		case <-s.done:
			s.t.Fatalf("steward exited while starting\n%s", s.LogTail())
		default:
		}
		resp, err := http.Get(s.URL + "/readyz")
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz answered %d", resp.StatusCode)
		}
		return nil
	})
	token, err := os.ReadFile(filepath.Join(s.Data, "admin.token"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.Token = strings.TrimSpace(string(token))
}

// Kill sends SIGKILL and waits until the process is gone.
func (s *Server) Kill() {
	s.t.Helper()
	_ = s.cmd.Process.Kill()
	<-s.done
}

// Exited is closed once the process has ended.
func (s *Server) Exited() <-chan struct{} { return s.done }

// PID is steward's process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop asks the process to end and waits for it.
func (s *Server) Stop() {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(Patience):
		s.t.Fatalf("steward didn't stop\n%s", s.LogTail())
	}
}

// Command runs another steward command on the server's data folder.
func (s *Server) Command(args ...string) (string, error) {
	cmd := exec.Command(s.binary, args...)
	cmd.Env = append(os.Environ(), "STEWARD_URL="+s.URL, "STEWARD_TOKEN="+s.Token)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Listen is the API's address, without what stands before it in tests.
func (s *Server) Listen() string { return s.listen }

// ConfigPath is the server's configuration file.
func (s *Server) ConfigPath() string { return s.config }

func (s *Server) stopAll() {
	if s.t.Failed() {
		s.t.Logf("end of steward's log:\n%s", s.LogTail())
	}
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.done
	}
	if out, err := s.Command("stop", "--all", "--data", s.Data, "--config", s.config); err != nil {
		s.t.Errorf("stop everything: %v\n%s", err, out)
	}
	if _, test := s.t.(*testing.T); test {
		s.keepTemplates()
	}
	for _, do := range s.after {
		do()
	}
}

// AfterEnd has something done at the test's end once no server of it runs any more.
func (s *Server) AfterEnd(do func()) { s.after = append(s.after, do) }

// LogTail is the end of the process's log, without the requests that only look:
// a test that waits asks many times a second.
func (s *Server) LogTail() string {
	const most = 12000
	log, _ := os.ReadFile(s.LogPath)
	var lines []string
	for line := range strings.Lines(string(log)) {
		if !strings.Contains(line, "msg=request method=GET") || strings.Contains(line, "level=WARN") {
			lines = append(lines, line)
		}
	}
	tail := strings.Join(lines, "")
	return tail[max(0, len(tail)-most):]
}

// Call sends a request with the server's token and decodes the answer into out
// (nil: drop it). It returns the status and the raw body.
func (s *Server) Call(method, path string, in, out any) (int, string) {
	s.t.Helper()
	status, body, err := s.TryCall(method, path, in, out)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return status, body
}

// TryCall is Call for moments at which the server may be down.
func (s *Server) TryCall(method, path string, in, out any) (int, string, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return 0, "", err
		}
		body = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", err
	}
	if out != nil && resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, out); err != nil {
			return 0, "", fmt.Errorf("decode %s: %w", text, err)
		}
	}
	return resp.StatusCode, string(text), nil
}

// Eventually repeats check until it is nil, and fails the test when that
// doesn't happen in time.
func (s *Server) Eventually(what string, check func() error) {
	s.t.Helper()
	came := false
	defer func() {
		if !came {
			s.t.Logf("not %s in time\n%s", what, s.LogTail())
		}
	}()
	await.NoError(s.t, what, check)
	came = true
}

// BinaryPath is the steward that the server is.
func (s *Server) BinaryPath() string { return s.binary }
