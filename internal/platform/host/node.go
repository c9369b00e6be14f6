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
	"steward/internal/platform/host/build"
	"steward/internal/platform/host/plan"
	"steward/internal/platform/host/state"
	"steward/internal/process"
)

// nodeReconciler reconciles one node: it holds what is wanted, what was found, and
// what its steps need.
type nodeReconciler struct {
	d    *Driver
	cs   *clusterState
	ns   *nodeState
	want platform.Wanted
	eng  engine.Driver
	dir  string
	rec  *state.Node // nil before there is a clone
	inst engine.Installation
	node engine.Node
	keys keychain
	// foreign is the password of our own account in another cluster's data; "" when the
	// data is the cluster's own.
	foreign string
	top     state.Topology
	// files are the rendered configuration, digest that of them and the certificate.
	files  []engine.File
	digest string
}

// newNodeReconciler reads the node's record and renders its configuration.
func (d *Driver) newNodeReconciler(ctx context.Context, keys keychain, want platform.Wanted, top state.Topology, ordinal int) (*nodeReconciler, error) {
	eng, err := d.engine(want.Engine)
	if err != nil {
		return nil, err
	}
	cs := keys.cs
	nr := &nodeReconciler{d: d, cs: cs, ns: cs.node(ordinal), top: top, want: want, eng: eng, keys: keys, dir: d.layout.node(want.ID, ordinal)}
	if nr.rec, err = state.ReadNode(nr.dir); err != nil {
		return nil, &permanentError{err.Error()}
	}
	current := want.Installation
	if nr.rec != nil {
		current = nr.rec.Installation
	}
	inst, problem := build.Choose(d.Installations(), want.Engine, want.Series, current, want.Patch)
	if problem != "" {
		return nil, &permanentError{problem}
	}
	nr.inst = inst
	if missing := nr.encryptionMissing(); missing != "" {
		return nil, &permanentError{missing}
	}
	if err := nr.fillIn(ctx); err != nil {
		return nil, err
	}
	return nr, nr.render()
}

// route is where the gateway should lead now, with the node as the primary.
func (nr *nodeReconciler) route() gateway.Route {
	r := nr.d.route(nr.cs, nr.want, nr.top)
	r.Connections = nr.eng.Connections(nr.node)
	return r
}

func (nr *nodeReconciler) encryptionMissing() string {
	if !nr.want.Encrypted {
		return ""
	}
	return nr.eng.EncryptionMissing(nr.inst)
}

// fillIn fills in the node, with the secrets that every step may need. What few
// steps need they ask for themselves.
func (nr *nodeReconciler) fillIn(ctx context.Context) error {
	n := nr.d.engineNode(nr.want, nr.inst, nr.top, nr.ns.ordinal)
	password, err := nr.keys.secret(ctx, platform.AdminPassword)
	if err != nil {
		return err
	}
	n.AdminPassword = string(password)
	if nr.want.Encrypted {
		if n.AtRestKey, err = nr.keys.secret(ctx, platform.AtRestKey); err != nil {
			return err
		}
		if n.Keyring, err = nr.keys.secret(ctx, keyringName(nr.ns.ordinal)); err != nil {
			return err
		}
	}
	if nr.rec == nil || !nr.rec.Bootstrapped {
		note, err := state.ReadTemplate(nr.dir)
		if err != nil {
			return err
		}
		n.TemplatePassword = note.Password
	}
	nr.node = n
	return nil
}

// engineNode is a node without secrets.
func (d *Driver) engineNode(want platform.Wanted, inst engine.Installation, top state.Topology, ordinal int) engine.Node {
	dir := d.layout.node(want.ID, ordinal)
	n := engine.Node{
		Cluster: want.ID, Ordinal: ordinal, Installation: inst,
		Listen: d.listenAddress(ordinal, want.Port),
		Data:   filepath.Join(dir, "data"), Conf: filepath.Join(dir, "conf"), TLS: filepath.Join(dir, "tls"),
		Tmp: filepath.Join(dir, "tmp"), Log: filepath.Join(dir, "log"), Run: d.layout.runNode(want.ID, ordinal),
		Plan: want.Plan, Commit: want.Commit, SSLConnection: want.SSLConnection,
		Encrypted: want.Encrypted, ReadOnly: want.ReadOnly, Config: want.Config,
	}
	if d.o.Continuous {
		n.ArchiveDir = d.layout.archiveDir(want.ID, ordinal)
	}
	n.Followers = d.followerAddresses(want.Port)
	if d.o.Networks != nil {
		if rec, err := d.pools(want.ID); err == nil && rec != nil && len(rec.Pools) > 0 {
			n.Pooler = d.listenAddress(0, rec.Port).Addr()
		}
		// The allow list, a second time, and those who were held: they come from where we do.
		n.Clients = append(ipv4(want.AllowList.Prefixes()), netip.PrefixFrom(d.o.Networks.Gateway(), 32))
	}
	n.Term = top.Failovers
	n.ClusterSize, n.Role, n.Replication = top.Size, top.Role(ordinal), top.Replication
	if n.Role == cluster.Replica {
		n.Source = engine.Peer{
			Ordinal: top.Primary, Listen: d.listenAddress(top.Primary, want.Port), Run: d.layout.runNode(want.ID, top.Primary),
		}
	}
	if want.Encrypted {
		n.Keys = d.layout.keysNode(want.ID, ordinal)
	}
	return n
}

// render makes the files and their digest. Files that the server itself goes
// on writing don't count.
func (nr *nodeReconciler) render() error {
	files, err := nr.eng.Files(nr.node)
	if err != nil {
		return fmt.Errorf("render configuration: %w", err)
	}
	nr.files = files
	sum := sha256.New()
	for _, f := range files {
		if !f.Once {
			fmt.Fprintf(sum, "%s %d\n", f.Path, len(f.Content))
			sum.Write(f.Content)
		}
	}
	certificate, err := os.ReadFile(filepath.Join(nr.node.TLS, engine.TLSCert))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read certificate: %w", err)
	}
	sum.Write(certificate)
	nr.digest = hex.EncodeToString(sum.Sum(nil))
	return nil
}

func (nr *nodeReconciler) settings() state.Settings {
	s := state.Settings{Plan: nr.want.Plan, SSLConnection: nr.want.SSLConnection, Commit: nr.want.Commit, Config: nr.want.Config.Text()}
	if nr.top.Size > 1 {
		s.Replication = nr.top.Replication
	}
	return s
}

// status compares what was found with what is wanted.
func (nr *nodeReconciler) status(ctx context.Context) (plan.Status, error) {
	s := plan.Status{
		Data: exists(nr.node.Data), Rebooted: true, Running: nr.ns.running(), Encrypted: nr.want.Encrypted,
		Replicated: nr.top.Size > 1, Replica: nr.node.Role == cluster.Replica,
	}
	if err := nr.checkData(s); err != nil {
		return s, err
	}
	var err error
	if s.CertificateDue, err = nr.certificateDue(ctx); err != nil {
		return s, err
	}
	routes, err := nr.d.o.Gateway.Routes(ctx)
	if err != nil {
		return s, fmt.Errorf("look at the gateway: %w", err)
	}
	s.RouteDue = !s.Replica && !hasRoute(routes, nr.route())
	if nr.rec == nil {
		return s, nil
	}
	s.Asleep = nr.top.Sleeps()
	nr.compareRecord(&s)
	if s.Running && nr.rec.Launch != nil {
		s.Restart, s.LimitsDue = nr.needsRestart(), nr.rec.Launch.Limits != nr.limits()
		s.Answers = nr.eng.Ping(ctx, nr.node) == nil
	}
	if s.Answers && s.Replicated {
		nr.compareRole(ctx, &s)
	}
	return s, nil
}

// checkData returns a permanentError when data is there that may be anybody's, or gone
// that was a customer's.
func (nr *nodeReconciler) checkData(s plan.Status) error {
	if s.Data && nr.rec == nil && !exists(state.TemplateFile(nr.dir)) {
		return &permanentError{fmt.Sprintf("the data in %s has no record of whose it is: it is left alone", nr.dir)}
	}
	// Once a customer had it, data that isn't there is a lost disk or one that
	// isn't mounted: an empty database must not take its place.
	if !s.Data && !s.Replica && (nr.want.Hosts.Primary != "" || nr.rec != nil && nr.rec.Bootstrapped) {
		return &permanentError{fmt.Sprintf("the data in %s is gone; nothing was made in its place", nr.node.Data)}
	}
	return nil
}

// compareRecord compares the node's record with what is wanted.
func (nr *nodeReconciler) compareRecord(s *plan.Status) {
	rec, settings := nr.rec, nr.settings()
	s.Bootstrapped, s.Upgrading = rec.Bootstrapped, rec.Upgrading
	s.Rebooted = rec.Boot != nr.d.boot
	s.ReadOnlyDue = rec.ReadOnly != nr.want.ReadOnly
	s.FilesDue = rec.Loaded != nr.digest
	s.FencesDue = s.Bootstrapped && rec.Fenced != fenceVersion
	s.Settled = rec.Applied != nil && *rec.Applied == settings
	s.RoleDue = s.Bootstrapped && !s.Replica && rec.Applied != nil && rec.Applied.Replication != settings.Replication
	// A running server isn't moved to another build unless that was asked for,
	// also when the distribution has replaced its programs.
	s.OtherBuild = rec.Installation != nr.inst.ID() && (!s.Running || nr.want.Patch)
}

// needsRestart reports whether the running server has to be restarted for what changed.
func (nr *nodeReconciler) needsRestart() bool {
	rec, want := nr.rec, nr.want
	memory := rec.Applied != nil && rec.Applied.Plan.MemoryMB != want.Plan.MemoryMB && rec.Launch.Limits.MemoryBytes != nr.limits().MemoryBytes
	// Fewer worker processes than its primary has a replica must not have: all give them up at once.
	processors := rec.Applied != nil && rec.Applied.Plan.VCPUs > want.Plan.VCPUs && rec.Launch.Limits.CPUs != nr.limits().CPUs
	settings := len(want.Config.Restarts(rec.Launch.Config, string(want.Engine))) > 0
	asked := want.Restart != 0 && rec.Launch.Restart != want.Restart
	return memory || processors || settings || asked || want.Patch && rec.RestartDue
}

// compareRole asks the server whether it is the primary, or a replica that follows.
func (nr *nodeReconciler) compareRole(ctx context.Context, s *plan.Status) {
	repl, err := nr.replicationStatus(ctx)
	switch {
	case err != nil:
		s.RoleDue = true
	case s.Replica && repl.Writable:
		s.Restart = true // it believes to be the primary
	default:
		s.RoleDue = s.RoleDue || s.Replica != repl.Streaming || s.Replica == repl.Writable
		s.Streaming = s.Replica && repl.Streaming
	}
}

// limits are the plan's, for all of a node's processes together.
func (nr *nodeReconciler) limits() process.GroupLimits {
	// Threads and backends of the largest plans stay far below.
	const processes = 4096
	return process.GroupLimits{
		MemoryBytes: int64(nr.want.Plan.MemoryMB) << 20, CPUs: nr.want.Plan.VCPUs, Processes: processes,
	}
}

// rlimits are for each single process.
func (nr *nodeReconciler) rlimits() process.Rlimits {
	l := process.Rlimits{OpenFiles: 65536}
	if nr.inst.Flavour == engine.FlavourPostgreSQL {
		// A query that wants all memory gets an error before the kernel has to
		// kill a process of the group, which would end everybody's sessions.
		const least = 768
		l.AddressSpace = uint64(max(nr.want.Plan.MemoryMB, least)) << 20
	}
	return l
}

// await returns when the server answers. One that isn't starting any more has to within patience.
func (nr *nodeReconciler) await(ctx context.Context, p *process.Process) error {
	const patience = 10 * time.Second
	since := time.Now()
	err := p.Await(ctx, 5*time.Millisecond, func(ctx context.Context) (bool, error) { // asking a server that starts costs next to nothing
		err := nr.eng.Ping(ctx, nr.pingNode())
		return err == nil || !errors.Is(err, engine.ErrStarting) && time.Since(since) > patience, err
	})
	switch {
	case errors.Is(err, process.ErrEnded):
		return fmt.Errorf("the server ended while it started: %s", lastWords(nr.dir, nr.eng))
	case err != nil:
		return fmt.Errorf("the server doesn't answer yet: %w", err)
	}
	nr.ns.answered(nr.d.o.Now())
	return nil
}

// pingNode is the node to ping: one that isn't bootstrapped most likely still
// has the template's password, so that is tried first.
func (nr *nodeReconciler) pingNode() engine.Node {
	n := nr.node
	if n.TemplatePassword != "" {
		n.AdminPassword, n.TemplatePassword = n.TemplatePassword, n.AdminPassword
	}
	return n
}
