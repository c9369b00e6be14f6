package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/gateway"
	"steward/internal/platform"
)

// pass is one pass over a cluster: it looks, decides and carries out. Whoever
// runs it has the unit's turn.
type pass struct {
	d   *Driver
	u   *unit
	eng engine.Driver
	// want is what the pass aims at: asked for but for what has to come before.
	want, asked platform.Wanted
	top         topology
	keys        keychain
	// restarts tells that the primary's server may be started on its own data:
	// the alternative, another primary, was considered.
	restarts bool
}

// newPass reads which node is the primary, and puts on record what is wanted
// of the cluster as a whole before anything is touched.
func (d *Driver) newPass(u *unit, want platform.Wanted) (*pass, error) {
	eng, err := d.engine(want.Engine)
	if err != nil {
		return nil, err
	}
	top, err := d.topology(want.ID)
	if err != nil {
		return nil, &obstacle{err.Error()}
	}
	if top.Restoring {
		return nil, &obstacle{"a restore wasn't finished: restore a backup again, or bring the old data back with `steward restore --undo`"}
	}
	p := &pass{d: d, u: u, eng: eng, want: want, asked: want, keys: keychain{d: d, u: u}}
	if p.top, err = p.aim(top); err != nil {
		return nil, err
	}
	if p.top != top {
		if err := d.saveTopology(want.ID, p.top); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// run brings the cluster to what is wanted, as far as one pass can.
func (p *pass) run(ctx context.Context) error {
	if p.want.Suspended {
		return p.suspend(ctx)
	}
	if p.top.Members == 1 {
		return errors.Join(p.node(ctx, 0), p.removeOthers(ctx))
	}
	born, err := p.d.born(p.want.ID, p.top)
	if err != nil {
		return err
	}
	if !born {
		return p.createAll(ctx)
	}
	if err := p.ensurePrimary(ctx); err != nil {
		return err
	}
	switch {
	case p.shrinks():
		return p.shrink(ctx)
	case p.top.Growing:
		return p.grow(ctx)
	}
	return errors.Join(p.roll(ctx), p.setRoute(ctx))
}

// born tells whether any node may hold a customer's data. If so an empty
// database must never take its place.
func (d *Driver) born(id cluster.ID, top topology) (bool, error) {
	for ordinal := range top.Members {
		rec, err := readRecord(d.layout.node(id, ordinal))
		if err != nil {
			return false, &obstacle{err.Error()}
		}
		if rec != nil && rec.Bootstrapped {
			return true, nil
		}
	}
	return false, nil
}

func (p *pass) job(ctx context.Context, ordinal int) (*job, error) {
	return p.d.newJobWith(ctx, p.keys, p.want, p.top, ordinal)
}

// node looks at one node, plans and carries out.
func (p *pass) node(ctx context.Context, ordinal int) error {
	j, err := p.job(ctx, ordinal)
	if err != nil {
		return err
	}
	s, err := j.look(ctx)
	if err != nil {
		return err
	}
	if s.Replicated && !s.Replica && s.Bootstrapped && !s.Running && !p.restarts {
		return fmt.Errorf("node %d: the primary has ended meanwhile", ordinal)
	}
	for _, step := range plan(s) {
		if err := j.take(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// take carries out a step and tells of it.
func (j *job) take(ctx context.Context, s step) error {
	failpoint.Here("host: before " + string(s))
	began := time.Now()
	if err := j.do(ctx, s); err != nil {
		if j.top.Members > 1 {
			return fmt.Errorf("node %d: %s: %w", j.m.ordinal, s, err)
		}
		return fmt.Errorf("%s: %w", s, err)
	}
	j.d.log.Debug("step done", "cluster_id", j.want.ID, "node", j.m.ordinal, "step", string(s), "ms", milliseconds(time.Since(began)))
	failpoint.Here("host: after " + string(s))
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// createAll makes all nodes of a new cluster at the same time. They are clones
// of one template: no data has to travel. Only the identity of the primary's
// clone must be there before the others take it over.
func (p *pass) createAll(ctx context.Context) error {
	cloned := make(chan struct{})
	var work sync.WaitGroup
	errs := make([]error, p.top.Members)
	work.Go(func() {
		done := sync.OnceFunc(func() { close(cloned) })
		defer done()
		errs[p.top.Primary] = p.createPrimary(ctx, done)
	})
	for _, ordinal := range p.top.replicas() {
		work.Go(func() {
			<-cloned
			if exists(p.d.bareNode(p.want, engine.Installation{}, p.top, p.top.Primary).Data) {
				errs[ordinal] = p.node(ctx, ordinal)
			}
		})
	}
	work.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := p.awaitReplicas(ctx); err != nil {
		return err
	}
	return p.setRoute(ctx)
}

func (p *pass) createPrimary(ctx context.Context, cloned func()) error {
	j, err := p.job(ctx, p.top.Primary)
	if err != nil {
		return err
	}
	s, err := j.look(ctx)
	if err != nil {
		return err
	}
	for _, step := range plan(s) {
		if step != stepDiscard && step != stepClone {
			cloned()
		}
		if err := j.take(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// awaitReplicas waits for a moment until all replicas stream.
func (p *pass) awaitReplicas(ctx context.Context) error {
	const patience = 15 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, ordinal := range p.top.replicas() {
		if err := p.awaitStreaming(ctx, ordinal); err != nil {
			return err
		}
	}
	return nil
}

// awaitStreaming waits until a replica follows the primary and has applied
// most of what there is.
func (p *pass) awaitStreaming(ctx context.Context, ordinal int) error {
	j, err := p.job(ctx, ordinal)
	if err != nil {
		return err
	}
	for pause := 2 * time.Millisecond; ; pause = min(pause*5/4, 100*time.Millisecond) {
		s, err := j.standing(ctx)
		if err == nil && s.Streaming && s.Lag < 2*time.Second {
			return nil
		}
		if !p.u.member(p.top.Primary).running() {
			return fmt.Errorf("node %d can't follow the primary, which has ended", ordinal)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %d doesn't follow the primary yet: %s", ordinal, s.Problem)
		case <-time.After(pause):
		}
	}
}

// roll brings every node to what is wanted of it: the replicas first, one by
// one, then the primary. One that needs a restart hands its role over before, unless
// it is to have less of what replicas must not have less of.
func (p *pass) roll(ctx context.Context) error {
	if lower, err := p.lowers(ctx); err != nil {
		return err
	} else if lower {
		if err := p.node(ctx, p.top.Primary); err != nil {
			return err
		}
	}
	var errs []error
	copying := false
	for _, ordinal := range p.top.replicas() {
		if err := p.replica(ctx, ordinal); err != nil {
			errs = append(errs, err)
		}
		copying = copying || p.u.member(ordinal).isRebuilding()
	}
	restart, err := p.restartDue(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if restart && copying {
		// The copy comes from the primary. A later pass restarts it: with the role
		// handed over, or in place if the copy failed.
		return errors.Join(append(errs, errors.New("the primary isn't restarted while its data is copied"))...)
	}
	if restart && len(errs) == 0 {
		candidate, err := p.switchoverCandidate(ctx)
		if err == nil {
			err = p.switchover(ctx, candidate, "a planned restart")
		}
		if err != nil {
			return fmt.Errorf("switch over: %w", err)
		}
		for _, ordinal := range p.top.replicas() {
			if err := p.replica(ctx, ordinal); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(append(errs, p.node(ctx, p.top.Primary))...)
}

// lowers reports whether the primary runs with more of what its replicas must not have
// less of than is wanted.
func (p *pass) lowers(ctx context.Context) (bool, error) {
	j, err := p.job(ctx, p.top.Primary)
	if err != nil || j.rec == nil || j.rec.Launch == nil {
		return false, err
	}
	return j.rec.Launch.Config.Lowers(p.want.Config, string(p.want.Engine)), nil
}

// restartDue tells whether the primary can't become what is wanted while it runs.
func (p *pass) restartDue(ctx context.Context) (bool, error) {
	j, err := p.job(ctx, p.top.Primary)
	if err != nil {
		return false, err
	}
	s, err := j.look(ctx)
	return s.Running && (s.OtherBuild || s.Restart), err
}

// replica brings a replica to what is wanted, or has it made anew beside.
func (p *pass) replica(ctx context.Context, ordinal int) error {
	m := p.u.member(ordinal)
	j, err := p.job(ctx, ordinal)
	if err != nil {
		return err
	}
	if reason := p.lost(j); reason != "" {
		return p.rebuild(ctx, m, reason)
	}
	s, err := j.look(ctx)
	if err != nil {
		return err
	}
	steps := plan(s)
	if slices.Contains(steps, stepStop) {
		if err := p.mayStop(ctx, j, s); err != nil {
			return err
		}
	}
	for _, step := range steps {
		if err := j.take(ctx, step); err != nil {
			return err
		}
	}
	if len(steps) == 0 || onlyKeyring(steps) {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return p.awaitStreaming(short, ordinal)
}

// mayStop waits until a running replica may be restarted. One that is to have less of
// what it must not have less of than its primary has to apply the primary's own restart
// first: it wouldn't start otherwise.
func (p *pass) mayStop(ctx context.Context, j *job, s sight) error {
	if s.Streaming {
		if err := p.awaitOthers(ctx, j.m.ordinal); err != nil {
			return err
		}
	}
	if j.rec.Launch == nil || !j.rec.Launch.Config.Lowers(p.want.Config, string(p.want.Engine)) {
		return nil
	}
	primary, err := p.job(ctx, p.top.Primary)
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return applied(short, primary, j)
}

// awaitOthers waits for a moment until all other replicas stream: a node that is
// well isn't stopped while another isn't.
func (p *pass) awaitOthers(ctx context.Context, ordinal int) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for _, other := range p.top.replicas() {
		if other == ordinal {
			continue
		}
		if err := p.awaitStreaming(ctx, other); err != nil {
			return fmt.Errorf("node %d isn't restarted before all others are well: %w", ordinal, err)
		}
	}
	return nil
}

// lost says why a replica needs a new copy of the data; "" when it doesn't.
func (p *pass) lost(j *job) string {
	switch {
	case j.m.isRebuilding():
		return "it is being rebuilt"
	case !p.d.hasData(j.node.Data):
		return "it has no data"
	case j.rec == nil || !j.rec.Bootstrapped:
		return "it never had all data"
	}
	return j.m.hopeless(p.d.o.Now())
}

// route is where the gateway should lead: writes to the primary, reads to the
// replicas that are close behind it, or to the primary when there is none.
func (d *Driver) route(u *unit, want platform.Wanted, top topology) gateway.Route {
	r := gateway.Route{
		Cluster: want.ID, Port: want.Port, Allow: want.AllowList.Prefixes(),
		Primary: listenAddress(top.Primary, want.Port), Reads: d.readers(u, want.Port, top),
	}
	if want.LockedOut { // the servers have a password that was reset
		r.Allow = nil
	}
	return r
}

// readers are the servers that reads are spread over.
func (d *Driver) readers(u *unit, port int, top topology) []netip.AddrPort {
	var list []netip.AddrPort
	for _, ordinal := range top.replicas() {
		if u.member(ordinal).readable() {
			list = append(list, listenAddress(ordinal, port))
		}
	}
	if len(list) == 0 {
		return []netip.AddrPort{listenAddress(top.Primary, port)}
	}
	return list
}

// setRoute makes the gateway lead where it should.
func (p *pass) setRoute(ctx context.Context) error {
	j, err := p.job(ctx, p.top.Primary)
	if err != nil {
		return err
	}
	return j.setRoute(ctx)
}

// suspend ends all servers; data, addresses and records stay. Whoever connects
// is turned away.
func (p *pass) suspend(ctx context.Context) error {
	if err := p.hindered(ctx); err != nil {
		return err
	}
	closed := gateway.Route{Cluster: p.want.ID, Port: p.want.Port}
	if err := p.d.o.Gateway.Set(ctx, closed); err != nil {
		return err
	}
	// The primary first: its last words reach the replicas.
	for _, ordinal := range append([]int{p.top.Primary}, p.top.replicas()...) {
		j, err := p.job(ctx, ordinal)
		if err != nil {
			return err
		}
		if j.rec == nil {
			continue
		}
		failpoint.Here("host: before suspending a node")
		if err := j.stop(ctx); err != nil {
			return err
		}
		if err := j.killAll(ctx); err != nil {
			return err
		}
		failpoint.Here("host: after suspending a node")
	}
	return nil
}

var errNoServer = errors.New("the server isn't running")

// known is what can be said of a cluster without its row: enough to bring it
// back the way it was.
func (d *Driver) known(ctx context.Context, id cluster.ID, top topology) (platform.Wanted, error) {
	var want platform.Wanted
	var rec *record
	for _, ordinal := range append([]int{top.Primary}, top.replicas()...) {
		r, err := readRecord(d.layout.node(id, ordinal))
		if err == nil && r != nil && r.Applied != nil {
			rec = r
			break
		}
	}
	if rec == nil {
		return want, fmt.Errorf("cluster %d: no node of it was ever finished", id)
	}
	want = d.recorded(rec)
	want.Size, want.Replication, want.Suspended = top.Members, top.Replication, top.Suspended
	inst := d.installation(rec.Installation)
	want.Series, want.Installation = inst.Series, rec.Installation
	want.Hosts = cluster.Hosts{Primary: d.o.PrimaryAddress.String(), Secondary: d.o.SecondaryAddress.String()}
	routes, err := d.o.Gateway.Routes(ctx)
	if err != nil {
		return want, fmt.Errorf("look at the gateway: %w", err)
	}
	for _, r := range routes {
		if r.Port == rec.Port && r.Cluster == id {
			for _, prefix := range r.Allow {
				want.AllowList = append(want.AllowList, prefix.String())
			}
		}
	}
	return want, nil
}
