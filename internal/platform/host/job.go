package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/gateway"
	"steward/internal/platform"
	"steward/internal/process"
)

// job is one pass over a node: what is wanted, what was found, and the tools
// to get from one to the other.
type job struct {
	d    *Driver
	u    *unit
	m    *member
	want platform.Wanted
	eng  engine.Driver
	dir  string
	rec  *record // nil before there is a clone
	inst engine.Installation
	node engine.Node
	keys keychain
	// foreign is the password that our own account has in another cluster's data;
	// "" when the data is the cluster's own.
	foreign string
	top     topology
	// files are the rendered configuration, digest that of them and the certificate.
	files  []engine.File
	digest string
	route  gateway.Route
}

// newJob gathers what the steps need.
func (d *Driver) newJob(ctx context.Context, u *unit, want platform.Wanted, top topology, ordinal int) (*job, error) {
	return d.newJobWith(ctx, keychain{d: d, u: u}, want, top, ordinal)
}

func (d *Driver) newJobWith(ctx context.Context, keys keychain, want platform.Wanted, top topology, ordinal int) (*job, error) {
	eng, err := d.engine(want.Engine)
	if err != nil {
		return nil, err
	}
	u := keys.u
	j := &job{d: d, u: u, m: u.member(ordinal), top: top, want: want, eng: eng, keys: keys, dir: d.layout.node(want.ID, ordinal)}
	if j.rec, err = readRecord(j.dir); err != nil {
		return nil, &obstacle{err.Error()}
	}
	current := want.Installation
	if j.rec != nil {
		current = j.rec.Installation
	}
	inst, problem := choose(d.Installations(), want.Engine, want.Series, current, want.Patch)
	if problem != "" {
		return nil, &obstacle{problem}
	}
	j.inst = inst
	if missing := j.encryptionMissing(); missing != "" {
		return nil, &obstacle{missing}
	}
	if err := j.fillIn(ctx); err != nil {
		return nil, err
	}
	j.route = j.d.route(u, want, top)
	j.route.Connections = j.eng.Connections(j.node)
	return j, j.render()
}

func (j *job) encryptionMissing() string {
	if !j.want.Encrypted {
		return ""
	}
	return j.eng.EncryptionMissing(j.inst)
}

// fillIn fills in the node, with the secrets that every step may need. What few
// steps need they ask for themselves.
func (j *job) fillIn(ctx context.Context) error {
	n := j.d.bareNode(j.want, j.inst, j.top, j.m.ordinal)
	password, err := j.keys.secret(ctx, platform.AdminPassword)
	if err != nil {
		return err
	}
	n.AdminPassword = string(password)
	if j.want.Encrypted {
		if n.AtRestKey, err = j.keys.secret(ctx, platform.AtRestKey); err != nil {
			return err
		}
		if n.Keyring, err = j.keys.secret(ctx, keyringName(j.m.ordinal)); err != nil {
			return err
		}
	}
	if j.rec == nil || !j.rec.Bootstrapped {
		note, err := readNote(j.dir)
		if err != nil {
			return err
		}
		n.TemplatePassword = note.Password
	}
	j.node = n
	return nil
}

// bareNode is a node without secrets.
func (d *Driver) bareNode(want platform.Wanted, inst engine.Installation, top topology, ordinal int) engine.Node {
	dir := d.layout.node(want.ID, ordinal)
	n := engine.Node{
		Cluster: want.ID, Ordinal: ordinal, Installation: inst,
		Listen: listenAddress(ordinal, want.Port),
		Data:   filepath.Join(dir, "data"), Conf: filepath.Join(dir, "conf"), TLS: filepath.Join(dir, "tls"),
		Tmp: filepath.Join(dir, "tmp"), Log: filepath.Join(dir, "log"), Run: d.layout.runNode(want.ID, ordinal),
		Plan: want.Plan, Commit: want.Commit, SSLConnection: want.SSLConnection,
		Encrypted: want.Encrypted, ReadOnly: want.ReadOnly, Config: want.Config,
	}
	if d.o.Continuous {
		n.ArchiveDir = d.layout.spool(want.ID, ordinal)
	}
	n.Term = top.Failovers
	n.Members, n.Role, n.Replication = top.Members, top.role(ordinal), top.Replication
	if n.Role == cluster.Replica {
		n.Source = engine.Peer{
			Ordinal: top.Primary, Listen: listenAddress(top.Primary, want.Port), Run: d.layout.runNode(want.ID, top.Primary),
		}
	}
	if want.Encrypted {
		n.Keys = d.layout.keysNode(want.ID, ordinal)
	}
	return n
}

// Third parts of the addresses of databases' servers and of scratch ones.
const serversPart, scratchPart = 77, 79

// ServerNetworks are where servers listen for the gateway, and scratch servers for
// nobody: no one else has business there.
func ServerNetworks() []netip.Prefix {
	network := func(third byte) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, third, 0}), 24) }
	return []netip.Prefix{network(serversPart), network(scratchPart)}
}

// listenAddress is where a node's server listens for the gateway.
func listenAddress(ordinal, port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, serversPart, byte(1 + ordinal)}), uint16(port))
}

// scratchAddress is where a server listens that tries a backup of the cluster at the port.
func scratchAddress(port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, scratchPart, 1}), uint16(port))
}

// render makes the files and their digest. Files that the server itself goes
// on writing don't count.
func (j *job) render() error {
	files, err := j.eng.Files(j.node)
	if err != nil {
		return fmt.Errorf("render configuration: %w", err)
	}
	j.files = files
	sum := sha256.New()
	for _, f := range files {
		if !f.Once {
			fmt.Fprintf(sum, "%s %d\n", f.Path, len(f.Content))
			sum.Write(f.Content)
		}
	}
	certificate, err := os.ReadFile(filepath.Join(j.node.TLS, engine.TLSCert))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read certificate: %w", err)
	}
	sum.Write(certificate)
	j.digest = hex.EncodeToString(sum.Sum(nil))
	return nil
}

func (j *job) settings() settings {
	s := settings{Plan: j.want.Plan, SSLConnection: j.want.SSLConnection, Commit: j.want.Commit, Config: j.want.Config.Text()}
	if j.top.Members > 1 {
		s.Replication = j.top.Replication
	}
	return s
}

// look compares what is there with what is wanted.
func (j *job) look(ctx context.Context) (sight, error) {
	s := sight{Data: exists(j.node.Data), Rebooted: true, Running: j.m.running(), Encrypted: j.want.Encrypted}
	if s.Data && j.rec == nil && !exists(noteFile(j.dir)) {
		return s, &obstacle{fmt.Sprintf("the data in %s has no record of whose it is: it is left alone", j.dir)}
	}
	// Once a customer had it, data that isn't there is a lost disk or one that
	// isn't mounted: an empty database must not take its place.
	s.Replicated, s.Replica = j.top.Members > 1, j.node.Role == cluster.Replica
	if !s.Data && !s.Replica && (j.want.Hosts.Primary != "" || j.rec != nil && j.rec.Bootstrapped) {
		return s, &obstacle{fmt.Sprintf("the data in %s is gone; nothing was made in its place", j.node.Data)}
	}
	var err error
	if s.CertificateDue, err = j.certificateDue(ctx); err != nil {
		return s, err
	}
	routes, err := j.d.o.Gateway.Routes(ctx)
	if err != nil {
		return s, fmt.Errorf("look at the gateway: %w", err)
	}
	s.RouteDue = !s.Replica && !hasRoute(routes, j.route)
	if j.rec == nil {
		return s, nil
	}
	s.Bootstrapped, s.Upgrading = j.rec.Bootstrapped, j.rec.Upgrading
	s.Rebooted = j.rec.Boot != j.d.boot
	s.ReadOnlyDue = j.rec.ReadOnly != j.want.ReadOnly
	s.FilesDue = j.rec.Loaded != j.digest
	s.FencesDue = s.Bootstrapped && j.rec.Fenced != fences
	s.Settled = j.rec.Applied != nil && *j.rec.Applied == j.settings()
	s.RoleDue = s.Bootstrapped && !s.Replica && j.rec.Applied != nil && j.rec.Applied.Replication != j.settings().Replication
	// A running server isn't moved to another build unless that was asked for,
	// also when the distribution has replaced its programs.
	s.OtherBuild = j.rec.Installation != j.inst.ID() && (!s.Running || j.want.Patch)
	if s.Running && j.rec.Launch != nil {
		s.Restart = j.rec.Applied != nil && j.rec.Applied.Plan.MemoryMB != j.want.Plan.MemoryMB &&
			j.rec.Launch.Limits.MemoryBytes != j.limits().MemoryBytes ||
			len(j.want.Config.Restarts(j.rec.Launch.Config, string(j.want.Engine))) > 0 ||
			j.want.Patch && j.rec.RestartDue
		s.LimitsDue = j.rec.Launch.Limits != j.limits()
		s.Answers = j.eng.Ping(ctx, j.node) == nil
	}
	if s.Answers && s.Replicated {
		standing, err := j.standing(ctx)
		switch {
		case err != nil:
			s.RoleDue = true
		case s.Replica && standing.Writable:
			s.Restart = true // it believes to be the primary
		default:
			s.RoleDue = s.RoleDue || s.Replica != standing.Streaming || s.Replica == standing.Writable
			s.Streaming = s.Replica && standing.Streaming
		}
	}
	return s, nil
}

// limits are the plan's, for all of a node's processes together.
func (j *job) limits() process.GroupLimits {
	// Threads and backends of the largest plans stay far below.
	const processes = 4096
	return process.GroupLimits{
		MemoryBytes: int64(j.want.Plan.MemoryMB) << 20, CPUs: j.want.Plan.VCPUs, Processes: processes,
	}
}

// rlimits are for each single process.
func (j *job) rlimits() process.Rlimits {
	l := process.Rlimits{OpenFiles: 65536}
	if j.inst.Flavour == engine.FlavourPostgreSQL {
		// A query that wants all memory gets an error before the kernel has to
		// kill a process of the group, which would end everybody's sessions.
		const least = 768
		l.AddressSpace = uint64(max(j.want.Plan.MemoryMB, least)) << 20
	}
	return l
}

// await polls until the server answers or the context ends.
func (j *job) await(ctx context.Context, p *process.Process) error {
	const patience = 10 * time.Second
	pause, since := 2*time.Millisecond, time.Now()
	for {
		err := j.eng.Ping(ctx, j.pingNode())
		if err == nil {
			j.m.answered(j.d.o.Now())
			return nil
		}
		if !errors.Is(err, engine.ErrStarting) && time.Since(since) > patience {
			return fmt.Errorf("the server runs but doesn't answer: %w", err)
		}
		select {
		case <-p.Done():
			return fmt.Errorf("the server ended while it started: %s", lastWords(j.dir))
		case <-ctx.Done():
			return fmt.Errorf("the server doesn't answer yet (%w): %w", err, ctx.Err())
		case <-time.After(pause):
		}
		pause = min(pause*5/4, 50*time.Millisecond)
	}
}

// pingNode is the node to ping: one that isn't bootstrapped most likely still
// has the template's password, so that is tried first.
func (j *job) pingNode() engine.Node {
	n := j.node
	if n.TemplatePassword != "" {
		n.AdminPassword, n.TemplatePassword = n.TemplatePassword, n.AdminPassword
	}
	return n
}
