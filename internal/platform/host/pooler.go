package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/pgbouncer"
	"steward/internal/failpoint"
	"steward/internal/gateway"
	"steward/internal/platform"
	"steward/internal/platform/host/state"
	"steward/internal/process"
)

// A cluster with connection pools has one more process, its pooler. It has a port of its own, from which all else follows as
// it does for nodes: its address in a network of its own, and a user who can neither read a file of the servers' nor signal them.
// pooler.json says what is wanted of it; it is written before anything is done.

// poolerState is what this process knows of a cluster's pooler.
type poolerState struct {
	// mu is held while files, process or console are used.
	mu sync.Mutex
	// users are the verifiers that were last written, nil for none yet; usersTold is that the process has read them and has ended whom it should.
	users     map[string]string
	usersTold bool
	// files is what the process that runs has read.
	files string

	known sync.Mutex // guards the rest
	rec   *state.Pooler
	read  bool
	proc  *process.Process
	// leave ends the supervision.
	leave context.CancelFunc
}

func (ps *poolerState) process() *process.Process {
	ps.known.Lock()
	defer ps.known.Unlock()
	return ps.proc
}

func (ps *poolerState) setProcess(p *process.Process) {
	ps.known.Lock()
	defer ps.known.Unlock()
	ps.proc = p
}

// forget ends the supervision, and returns the process.
func (ps *poolerState) forget() *process.Process {
	ps.known.Lock()
	defer ps.known.Unlock()
	if ps.leave != nil {
		ps.leave()
	}
	p := ps.proc
	ps.leave, ps.proc = nil, nil
	return p
}

func (ps *poolerState) running() bool {
	p := ps.process()
	return p != nil && p.Running()
}

// pools returns the record of a cluster's pools; nil when it has none.
func (d *Driver) pools(id cluster.ID) (*state.Pooler, error) {
	ps := &d.clusterState(id).pooler
	ps.known.Lock()
	defer ps.known.Unlock()
	if !ps.read {
		rec, found, err := state.Read[state.Pooler](d.layout.poolerRecord(id))
		if err != nil {
			return nil, err
		}
		if ps.read = true; found {
			ps.rec = &rec
		}
	}
	if ps.rec == nil {
		return nil, nil
	}
	copied := *ps.rec
	return &copied, nil
}

// savePools returns when the record is on the disk.
func (d *Driver) savePools(id cluster.ID, rec state.Pooler) error {
	if err := state.Write(d.layout.poolerRecord(id), rec); err != nil {
		return err
	}
	ps := &d.clusterState(id).pooler
	ps.known.Lock()
	defer ps.known.Unlock()
	ps.rec, ps.read = &rec, true
	return nil
}

// clientsPerConnection is how many clients may share a connection that customers have to a server.
const clientsPerConnection = 20

// wantedPools is the record of what is wanted.
func (d *Driver) wantedPools(eng engine.Driver, want platform.Wanted) state.Pooler {
	return state.Pooler{
		Port: want.PoolPort, ClusterPort: want.Port, Pools: want.Pools, TLSOnly: want.SSLConnection,
		Clients: clientsPerConnection * eng.Connections(engine.Node{Plan: want.Plan}),
	}
}

// recordPools puts on record what is wanted, before nodes are looked at: whom they let in follows from it.
func (cr *clusterReconciler) recordPools() error {
	had, err := cr.d.pools(cr.want.ID)
	if err != nil {
		return &permanentError{err.Error()}
	}
	if len(cr.want.Pools) == 0 && had == nil || cr.want.Suspended {
		return nil
	}
	now := cr.d.wantedPools(cr.eng, cr.want)
	if had != nil {
		if now.Launch = had.Launch; now.SameAs(*had) {
			return nil
		}
		now.Port, now.ClusterPort = had.Port, had.ClusterPort // they are for good
	}
	failpoint.Here("host: before recording pools")
	if !exists(cr.d.layout.cluster(cr.want.ID)) {
		return nil // there is no cluster to pool connections of yet
	}
	return cr.d.savePools(cr.want.ID, now)
}

// pool brings the pooler in line with the record.
func (cr *clusterReconciler) pool(ctx context.Context) error {
	rec, err := cr.d.pools(cr.want.ID)
	switch {
	case err != nil || rec == nil:
		return err
	case len(rec.Pools) == 0:
		return cr.d.removePooler(ctx, cr.cs)
	}
	if err := cr.d.ensurePooler(ctx, cr.cs, cr.want.Patch); err != nil {
		return fmt.Errorf("connection pools: %w", err)
	}
	failpoint.Here("host: pooler runs")
	return cr.d.setPoolRoute(ctx, cr.want, *rec)
}

// setPoolRoute lets those in who may connect.
func (d *Driver) setPoolRoute(ctx context.Context, want platform.Wanted, rec state.Pooler) error {
	err := d.o.Gateway.Set(ctx, d.poolRoute(want, rec))
	if taken, ok := errors.AsType[*gateway.PortError](err); ok {
		return &permanentError{taken.Error()}
	}
	failpoint.Here("host: pools are led to")
	return err
}

// poolRoute leads both ends to the pooler.
func (d *Driver) poolRoute(want platform.Wanted, rec state.Pooler) gateway.Route {
	at := d.listenAddress(0, rec.Port)
	r := gateway.Route{
		Cluster: want.ID, Engine: want.Engine, Port: rec.Port, Allow: want.AllowList.Prefixes(),
		Primary: at, Reads: []netip.AddrPort{at}, Connections: rec.Clients,
	}
	if want.LockedOut {
		r.Allow = nil
	}
	return r
}

// ensurePooler has the pooler run, with the files that it should have, and lead to the primary.
func (d *Driver) ensurePooler(ctx context.Context, cs *clusterState, patch bool) error {
	ps := &cs.pooler
	ps.mu.Lock()
	defer ps.mu.Unlock()
	l, err := d.newPoolerLook(ctx, cs)
	if err != nil {
		return err
	}
	program, errProgram := d.poolerProgram()
	if errProgram == nil && patch && ps.running() && l.rec.Launch != nil && l.rec.Launch.Installation != program.Version() {
		if err := d.endPooler(ctx, cs, l.rec); err != nil {
			return err
		}
	}
	if !ps.running() {
		return d.startPooler(ctx, cs, l)
	}
	return d.refreshPooler(ctx, cs, l)
}

// poolerLook is what is known of a pooler and of the primary that it leads to.
type poolerLook struct {
	rec     state.Pooler
	conf    pgbouncer.Config
	primary engine.Node
	eng     engine.Pooled
	console pgbouncer.Console
	secret  string
}

// newPoolerLook asks no server and no store.
func (d *Driver) newPoolerLook(ctx context.Context, cs *clusterState) (*poolerLook, error) {
	rec, err := d.pools(cs.id)
	if err != nil || rec == nil {
		return nil, errors.Join(err, errors.New("there are no pools"))
	}
	top, err := d.topology(cs.id)
	if err != nil {
		return nil, err
	}
	if top.Restoring { // what clients wrote into it would be lost if it were put in place anew
		return nil, errors.New("the data is being replaced")
	}
	node, err := state.ReadNode(d.layout.node(cs.id, top.Primary))
	if err != nil || node == nil {
		return nil, errors.Join(err, errors.New("the primary isn't set up"))
	}
	eng, primary, err := d.recordedNode(ctx, node)
	if err != nil {
		return nil, err
	}
	pooled, ok := eng.(engine.Pooled)
	if !ok {
		return nil, fmt.Errorf("no connections to %s are pooled", node.Engine)
	}
	secret := consolePassword(primary.AdminPassword)
	return &poolerLook{
		rec: *rec, conf: d.poolerConf(cs.id, *rec, primary), primary: primary, eng: pooled, secret: secret,
		console: pgbouncer.Console{Run: d.layout.runPooler(cs.id), Port: rec.Port, Password: secret},
	}, nil
}

func (d *Driver) poolerConf(id cluster.ID, rec state.Pooler, primary engine.Node) pgbouncer.Config {
	dir := d.layout.pooler(id)
	program, _ := d.poolerProgram() // one that runs goes on when it is uninstalled
	return pgbouncer.Config{
		Program: program, Listen: d.listenAddress(0, rec.Port), Run: d.layout.runPooler(id),
		Conf: filepath.Join(dir, "conf"), Keys: d.layout.keysPooler(id), TLS: filepath.Join(dir, "tls"),
		Server: primary.Listen, TLSToServer: d.o.Networks == nil, TLSOnly: rec.TLSOnly, Clients: rec.Clients, Pools: rec.Pools,
	}
}

// poolsSettled reports whether the pooler does what is on record, and that is what is wanted, if that is told.
func (d *Driver) poolsSettled(ctx context.Context, cs *clusterState, want *platform.Wanted) bool {
	rec, err := d.pools(cs.id)
	if err != nil {
		return false
	}
	if rec == nil || len(rec.Pools) == 0 {
		return rec == nil && (want == nil || len(want.Pools) == 0)
	}
	if !cs.pooler.running() {
		return false
	}
	routes, err := d.o.Gateway.Routes(ctx)
	at := d.listenAddress(0, rec.Port)
	led := slices.ContainsFunc(routes, func(r gateway.Recorded) bool {
		return r.Port == rec.Port && r.Cluster == cs.id && r.InForce && r.Primary == at
	})
	if err != nil || !led || want == nil {
		return err == nil && led
	}
	eng, err := d.engine(want.Engine)
	return err == nil && d.wantedPools(eng, *want).SameAs(*rec) && hasRoute(routes, d.poolRoute(*want, *rec))
}
