package enginetest

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/testdir"
)

// templatePassword is the admin password of the suite's templates.
const templatePassword = "template-4fK2mQ9x"

// firstUID is that of the first server started as root. It has no entry in the
// passwd file, as on the host platform.
const firstUID = 765000

// templateUID makes templates when the tests run as root: initdb insists on a
// user with a name.
const templateUID = 65534

// Bench is one installation with its template, ready to give servers.
type Bench struct {
	Driver       engine.Driver
	Installation engine.Installation
	Options      Options
	template     string
	root         string
	servers      int
}

// NewBench makes the installation's template.
func NewBench(t *testing.T, driver engine.Driver, inst engine.Installation, o Options) *Bench {
	t.Helper()
	b := &Bench{Driver: driver, Installation: inst, Options: o, root: testdir.New(t, "et")}
	b.template = filepath.Join(b.root, "template")
	must(t, os.Mkdir(b.template, 0o700), "make template folder")
	if os.Geteuid() == 0 {
		must(t, os.Chown(b.template, templateUID, templateUID), "give template folder away")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	started := time.Now()
	must(t, driver.Template(ctx, inst, b.template, templatePassword, run), "make template")
	t.Logf("template made in %v", time.Since(started).Round(time.Millisecond))
	return b
}

// run is the suite's engine.Runner.
func run(ctx context.Context, dir string, p engine.Process, stdin []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, p.Argv[0], p.Argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin = p.Env, dir, bytes.NewReader(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		owner := info.Sys().(*syscall.Stat_t)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	return cmd.CombinedOutput()
}

// Server clones the template and readies a node, changed as wanted. It isn't
// started yet. Everything is stopped and removed with the test.
func (b *Bench) Server(t *testing.T, change ...func(*engine.Node)) *Server {
	t.Helper()
	return b.serverOf(t, firstUID+b.servers+1, change...)
}

// serverOf is Server for the given user, which nobody but root can choose.
func (b *Bench) serverOf(t *testing.T, uid int, change ...func(*engine.Node)) *Server {
	t.Helper()
	b.servers++
	base := filepath.Join(b.root, fmt.Sprintf("n%d", b.servers))
	n := engine.Node{
		Cluster: cluster.ID(b.servers), Installation: b.Installation, Listen: freePort(t),
		Data: base + "/data", Conf: base + "/conf", TLS: base + "/tls",
		Tmp: base + "/tmp", Log: base + "/log", Run: base + "/run",
		Plan:          catalog.Plan{ID: "test", MemoryMB: 1024, DiskMB: 10240, VCPUs: 1},
		SSLConnection: true,
		AdminPassword: "admin-7Hq3vLw8Zt", RootPassword: "Xk4mPq7wRt2nBv9cDf6gHj3s",
		TemplatePassword: templatePassword,
	}
	if b.Installation.Family() == cluster.PostgreSQL {
		n.Commit = cluster.CommitLocal
	}
	for _, f := range change {
		f(&n)
	}
	s := &Server{Node: n, Bench: b, base: base, uid: os.Geteuid()}
	if s.uid == 0 {
		s.uid = uid
	}
	must(t, os.Mkdir(base, 0o711), "make node folder")
	for _, dir := range []string{n.Conf, n.TLS, n.Tmp, n.Log, n.Run} {
		must(t, os.Mkdir(dir, 0o700), "make node folder")
	}
	if n.Keys != "" {
		must(t, os.MkdirAll(n.Keys, 0o700), "make key folder")
		t.Cleanup(func() { os.RemoveAll(n.Keys) })
	}
	b.clone(t, n.Data)
	s.NewCertificates(t)
	s.WriteFiles(t)
	t.Cleanup(func() { s.cleanUp(t) })
	return s
}

// Started is Server, then Start and Bootstrap.
func (b *Bench) Started(t *testing.T, change ...func(*engine.Node)) *Server {
	t.Helper()
	s := b.Server(t, change...)
	s.Start(t)
	s.Bootstrap(t)
	return s
}

func (b *Bench) clone(t *testing.T, to string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "cp", "-a", "--reflink=auto", b.template, to).CombinedOutput()
	must(t, err, "clone template: "+string(out))
	for range 2 {
		must(t, b.Driver.RegenerateIdentity(t.Context(), to), "regenerate identity, which is repeatable")
	}
}

// freePort is one that nobody else gets before the server listens there, or while it
// is down.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.77.1"), uint16(testdir.Ports(t, 1)))
}

// giveAway hands everything below the path to the server's user.
func giveAway(t *testing.T, path string, uid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	must(t, filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, uid, uid)
	}), "give files away")
}

func must(t *testing.T, err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
