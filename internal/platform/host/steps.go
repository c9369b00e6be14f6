package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
	"steward/internal/platform/host/plan"
	"steward/internal/platform/host/state"
	"steward/internal/process"
)

// stopTimeout is how long a server may take to stop cleanly.
const stopTimeout = 30 * time.Second

// How long its stop may be prepared, while customers go on: a primary's, which writes, and a replica's.
const (
	flushTimeout   = 30 * time.Second
	releaseTimeout = 5 * time.Second
)

// fenceVersion is raised when an engine's Fence takes more from customers than it did: then
// it is called once for all data that is there.
const fenceVersion = 3

// execute carries out one step.
func (nr *nodeReconciler) execute(ctx context.Context, s plan.Step) error {
	do := map[plan.Step]func(context.Context) error{
		plan.Discard:        nr.discard,
		plan.Clone:          nr.clone,
		plan.PrepareReplica: nr.prepareReplica,
		plan.Certificate:    nr.certificate,
		plan.Stop:           nr.stop,
		plan.Files:          func(context.Context) error { return nr.writeFiles() },
		plan.Start:          nr.start,
		plan.Ready:          nr.ready,
		plan.Reload:         nr.reload,
		plan.Fence:          nr.fence,
		plan.Limits:         func(context.Context) error { return nr.raiseLimits() },
		plan.Bootstrap:      nr.bootstrap,
		plan.ResetRoot:      nr.resetRootAccount,
		plan.Role:           nr.takeRole,
		plan.Upgrade:        nr.upgrade,
		plan.Keyring:        nr.keyring,
		plan.ReadOnly:       nr.readOnly,
		plan.Wake:           nr.wakeUp,
		plan.Route:          nr.setRoute,
		plan.Settle:         func(context.Context) error { return nr.settle() },
	}[s]
	if do == nil {
		return fmt.Errorf("unknown step %q", s)
	}
	return do(ctx)
}

func (nr *nodeReconciler) save(durably bool) error { return nr.rec.Write(nr.dir, durably) }

func (nr *nodeReconciler) discard(ctx context.Context) error {
	if err := nr.killAll(ctx); err != nil {
		return err
	}
	if err := nr.d.trash.Put(nr.node.Data); err != nil {
		return err
	}
	// Keys made for the data are of no use to the next.
	if nr.node.Keys != "" {
		if err := os.RemoveAll(nr.node.Keys); err != nil {
			return fmt.Errorf("remove keys: %w", err)
		}
	}
	return nil
}

// runSteps does steps in order.
func (nr *nodeReconciler) runSteps(ctx context.Context, steps ...plan.Step) error {
	for _, s := range steps {
		if err := nr.runStep(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// runWithCertificate does steps in order, with a new certificate first where one is due.
func (nr *nodeReconciler) runWithCertificate(ctx context.Context, steps ...plan.Step) error {
	due, err := nr.certificateDue(ctx)
	if err != nil {
		return err
	}
	if due {
		steps = append([]plan.Step{plan.Certificate}, steps...)
	}
	return nr.runSteps(ctx, steps...)
}

// clone makes the node's folders and takes a clone of the template. The record
// comes before the data it tells of.
func (nr *nodeReconciler) clone(ctx context.Context) error {
	nr.rec = &state.Node{
		Cluster: nr.want.ID, Ordinal: nr.ns.ordinal, Engine: nr.want.Engine, Port: nr.want.Port,
		Installation: nr.inst.ID(), Boot: nr.d.boot, Encrypted: nr.want.Encrypted,
	}
	if err := nr.makeFolders(); err != nil {
		return err
	}
	if err := nr.save(false); err != nil {
		return err
	}
	note, err := nr.d.templates.Take(ctx, nr.inst, nr.dir, nr.d.user(nr.want.Port))
	if err != nil {
		return err
	}
	nr.node.TemplatePassword = note.Password
	return nil
}

// stopRequest asks a server of the engine to stop cleanly.
func stopRequest(eng engine.Driver) process.Request {
	return process.Request{Signal: eng.StopSignal(), Patience: stopTimeout, Child: eng.StopsChild}
}

func (nr *nodeReconciler) stop(ctx context.Context) error {
	p := nr.ns.process()
	if p == nil {
		return nil
	}
	if err := nr.checkStoppable(); err != nil {
		return fmt.Errorf("node %d isn't stopped: %w", nr.ns.ordinal, err)
	}
	nr.prepareStop(ctx)
	if nr.node.Role == cluster.Primary && !nr.want.Suspended {
		nr.d.pausePools(ctx, nr.cs)
	}
	if nr.eng.TellsOfStop() {
		nr.d.retire(ctx, nr.ns.ordinal, nr.want.Port)
	} else {
		nr.d.withhold(ctx, nr.ns.ordinal, nr.want.Port, stopGrace)
	}
	nr.ns.setProcess(nil) // its end is no crash
	nr.ns.startsAnew()
	return p.Stop(ctx, stopRequest(nr.eng), nr.d.groups.Find(nr.name()))
}

// prepareStop shortens the pause that customers notice while their primary is stopped, and the stop of a replica.
func (nr *nodeReconciler) prepareStop(ctx context.Context) {
	most := releaseTimeout
	if nr.node.Role == cluster.Primary {
		if nr.want.Suspended || nr.top.Sleeps() {
			return // nobody waits for it to be back
		}
		most = flushTimeout
	}
	short, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if err := nr.eng.PrepareStop(short, nr.node); err != nil {
		nr.d.log.Debug("prepare a stop", "cluster_id", nr.want.ID, "node", nr.ns.ordinal, "error", err)
	}
}

func (nr *nodeReconciler) name() string { return nodeName(nr.want.ID, nr.ns.ordinal) }

func (nr *nodeReconciler) killAll(ctx context.Context) error {
	nr.ns.setProcess(nil)
	id := nr.d.identity(&state.Node{Cluster: nr.want.ID, Ordinal: nr.ns.ordinal, Port: nr.want.Port})
	err := process.KillAll(ctx, id, nr.d.groups.Find(nr.name()))
	nr.d.withhold(ctx, nr.ns.ordinal, nr.want.Port, 0) // it may not have answered: its sessions have ended now
	return err
}

// start starts the server as wanted.
func (nr *nodeReconciler) start(ctx context.Context) error {
	// What a dead server left behind still holds its memory, files and locks.
	if nr.rec.Launch != nil {
		if err := nr.killAll(ctx); err != nil {
			return err
		}
	}
	err := nr.d.inNetwork(ctx, nr.ns.ordinal, nr.want.Port, func() error { return checkPort(ctx, nr.node.Listen) })
	if err != nil {
		return err
	}
	if nr.rec.Installation != nr.inst.ID() {
		nr.rec.Installation, nr.rec.Upgrading = nr.inst.ID(), true
	}
	nr.rec.Launch = nr.newLaunch()
	nr.rec.Encrypted, nr.rec.ReadOnly, nr.rec.Loaded = nr.want.Encrypted, nr.want.ReadOnly, nr.digest
	nr.rec.RestartDue = false
	if err := nr.save(nr.rec.Upgrading); err != nil {
		return err
	}
	return nr.d.startServer(ctx, nr.cs, nr.ns, nr.rec)
}

func (nr *nodeReconciler) newLaunch() *state.Launch {
	p, v := nr.eng.Process(nr.node), sandboxView(nr.node)
	v.Read = append(v.Read, nr.peerRuns()...) // a replica reaches its primary by its socket
	return &state.Launch{
		Installation: nr.inst.ID(), Env: p.Env, WorkDir: nr.node.Data, User: nr.d.user(nr.want.Port),
		Argv: nr.d.sandbox.Wrap(p.Argv, v, nr.node.Data), Sandboxed: nr.d.sandbox != nil,
		Limits: nr.limits(), Rlimits: nr.rlimits(), Listen: nr.node.Listen, Config: nr.want.Config, Restart: nr.want.Restart,
	}
}

func (nr *nodeReconciler) ready(ctx context.Context) error {
	p := nr.ns.process()
	if p == nil {
		return errors.New("the server isn't running")
	}
	if err := nr.await(ctx, p); err != nil {
		return err
	}
	if nr.node.Role == cluster.Primary {
		nr.d.leadPools(ctx, nr.cs)
	}
	if nr.rec == nil || !nr.rec.Bootstrapped {
		return nil // its fences are this steward's, or made so by resetRootAccount
	}
	return nr.fence(ctx)
}

// fence takes from customers what an older steward may have let them have.
func (nr *nodeReconciler) fence(ctx context.Context) error {
	if err := nr.eng.Fence(ctx, nr.node); err != nil {
		return fmt.Errorf("fence customers in: %w", err)
	}
	nr.rec.Fenced = fenceVersion
	return nr.save(false)
}

// reload has the server read its files again. What needs a restart gets one
// when the customer's settings changed; files that only look different because
// steward itself was upgraded wait for the maintenance window.
func (nr *nodeReconciler) reload(ctx context.Context) error {
	if err := nr.fence(ctx); err != nil {
		return err
	}
	restart, err := nr.eng.Reload(ctx, nr.node)
	if err != nil {
		return err
	}
	if restart && (nr.rec.Applied == nil || *nr.rec.Applied != nr.settings()) {
		for _, s := range []plan.Step{plan.Stop, plan.Files, plan.Start, plan.Ready} {
			if err := nr.execute(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		if nr.d.o.Networks != nil && nr.node.Role != cluster.Replica {
			return nr.setRoute(ctx)
		}
		return nil
	}
	nr.rec.Loaded, nr.rec.RestartDue = nr.digest, restart
	return nr.save(false)
}

func (nr *nodeReconciler) raiseLimits() error {
	group, err := nr.d.groups.Make(nr.name(), nr.limits())
	if err != nil || group == nil {
		return err
	}
	nr.rec.Launch.Limits = nr.limits()
	return nr.save(false)
}

// bootstrap gives a fresh server its own passwords and proves that the
// customer's works. Then the data is the customer's, which is put on the disk
// before anybody can get in.
func (nr *nodeReconciler) bootstrap(ctx context.Context) error {
	if err := nr.keyring(ctx); err != nil {
		return err
	}
	if err := nr.learnRootPassword(ctx); err != nil {
		return err
	}
	if err := nr.eng.Bootstrap(ctx, nr.node); err != nil {
		return err
	}
	if err := nr.keyring(ctx); err != nil {
		return err
	}
	if nr.node.Role == cluster.Primary { // a replica may get it only by following
		if err := nr.eng.VerifyRootPassword(ctx, nr.node); err != nil {
			return fmt.Errorf("log in as the customer: %w", err)
		}
	}
	nr.rec.Bootstrapped = true
	settings := nr.settings()
	nr.rec.Applied = &settings
	if err := nr.save(true); err != nil {
		return err
	}
	if nr.node.Role == cluster.Primary { // a replica has the template's until it has received its primary's
		nr.node.TemplatePassword = ""
	}
	return state.RemoveTemplate(nr.dir)
}

// learnRootPassword fills in dbadmin's password, which a reset may have changed.
func (nr *nodeReconciler) learnRootPassword(ctx context.Context) error {
	password, err := nr.keys.secret(ctx, platform.RootPassword)
	nr.node.RootPassword = string(password)
	return err
}

// resetRootAccount repairs dbadmin in the data of another cluster, whose customer may
// have dropped it. Our own account has that cluster's password there.
func (nr *nodeReconciler) resetRootAccount(ctx context.Context) error {
	if err := nr.learnRootPassword(ctx); err != nil {
		return err
	}
	there := nr.node
	there.AdminPassword = nr.foreign
	return nr.eng.SetRootPassword(ctx, there)
}

func (nr *nodeReconciler) upgrade(ctx context.Context) error {
	if err := nr.eng.AfterPatch(ctx, nr.node); err != nil {
		return err
	}
	nr.rec.Upgrading = false
	return nr.save(true)
}

// keyring seals what the server's keyring holds as soon as it differs from
// what is sealed: without it the data couldn't be read again.
func (nr *nodeReconciler) keyring(ctx context.Context) error {
	if !nr.want.Encrypted || nr.keys.offline { // a failover has it sealed afterwards
		return nil
	}
	content, err := nr.eng.KeyringContent(nr.node)
	if errors.Is(err, fs.ErrNotExist) && !nr.rec.Bootstrapped {
		return nil // there will be one when there is something to encrypt
	}
	if err != nil || content == nil || bytes.Equal(content, nr.node.Keyring) {
		return err
	}
	if err := nr.keys.save(ctx, keyringName(nr.ns.ordinal), content); err != nil {
		return fmt.Errorf("seal keyring: %w", err)
	}
	nr.node.Keyring = content
	return nil
}

func (nr *nodeReconciler) readOnly(ctx context.Context) error {
	if err := nr.eng.SetReadOnly(ctx, nr.node, nr.want.ReadOnly); err != nil {
		return err
	}
	nr.rec.ReadOnly = nr.want.ReadOnly
	return nr.save(false)
}

func (nr *nodeReconciler) settle() error {
	settings := nr.settings()
	if nr.rec.Applied != nil && *nr.rec.Applied == settings {
		return nil
	}
	nr.rec.Applied = &settings
	return nr.save(false)
}
