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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/parameter"
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
	// template is the bench's own; without one its servers are clones of the one that is kept.
	template string
	root     string
	thorough bool // it has what Run leaves
	servers  atomic.Int32
	loads    atomic.Int32
}

// NewBench has servers that are clones of the installation's template, which is made once per
// installation and program: see [testdir.Prepared].
func NewBench(t *testing.T, driver engine.Driver, inst engine.Installation, o Options) *Bench {
	t.Helper()
	return &Bench{Driver: driver, Installation: inst, Options: o, root: testdir.New(t, "et")}
}

const templateDeadline = 5 * time.Minute

func (b *Bench) makeTemplate(ctx context.Context, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, templateUID, templateUID); err != nil {
			return err
		}
	}
	return b.Driver.Template(ctx, b.Installation, dir, templatePassword, run)
}

// Case is a test of the bench beside its others: most of them wait for servers.
func (b *Bench) Case(t *testing.T, name string, do func(t *testing.T, b *Bench)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		cases <- struct{}{}
		defer func() { <-cases }()
		do(t, b)
	})
}

// cases bounds how many run at once on a machine with many cores, whatever
// -parallel says: the largest take three servers and 2 GB.
var cases = make(chan struct{}, casesAtOnce())

func casesAtOnce() int {
	var memory syscall.Sysinfo_t
	if syscall.Sysinfo(&memory) != nil {
		return 1
	}
	const each = 2 << 30
	return int(max(1, uint64(memory.Totalram)*uint64(memory.Unit)/each))
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
	number := b.next()
	return b.serverOf(t, number, firstUID+number, change...)
}

// next numbers the bench's servers.
func (b *Bench) next() int { return int(b.servers.Add(1)) }

// serverOf is Server for the given user, which nobody but root can choose.
func (b *Bench) serverOf(t *testing.T, number, uid int, change ...func(*engine.Node)) *Server {
	t.Helper()
	base := filepath.Join(b.root, fmt.Sprintf("n%d", number))
	n := engine.Node{
		Cluster: cluster.ID(number), Installation: b.Installation, Listen: freePort(t),
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

// Counting has a server count statements, which MariaDB doesn't unless it is asked to.
func Counting(n *engine.Node) {
	if n.Installation.Flavour == engine.FlavourMariaDB {
		n.Config = parameter.Config{parameter.StatementStatistics: true}
	}
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
	must(t, b.copyTemplate(t, to), "clone template")
	for range 2 {
		must(t, b.Driver.RegenerateIdentity(t.Context(), to), "regenerate identity, which is repeatable")
	}
}

func (b *Bench) copyTemplate(t *testing.T, to string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), templateDeadline)
	defer cancel()
	if b.template != "" {
		return testdir.Copy(ctx, b.template, to)
	}
	program, err := testdir.Program()
	if err != nil {
		return err
	}
	return testdir.Prepared(ctx, to, "engine-"+b.Installation.ID(), program, func(dir string) error { return b.makeTemplate(ctx, dir) })
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
	must(t, testdir.Walk(path, func(p string, _ fs.DirEntry) error { return os.Lchown(p, uid, uid) }), "give files away")
}

func must(t *testing.T, err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
