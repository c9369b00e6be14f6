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
	"steward/internal/platform"
	"steward/internal/process"
)

// stopPatience is how long a server may take to stop cleanly.
const stopPatience = 30 * time.Second

// do carries out one step.
func (j *job) do(ctx context.Context, s step) error {
	switch s {
	case stepDiscard:
		return j.discard(ctx)
	case stepClone:
		return j.clone(ctx)
	case stepCertificate:
		return j.certificate(ctx)
	case stepStop:
		return j.stop(ctx)
	case stepFiles:
		return j.writeFiles()
	case stepStart:
		return j.start(ctx)
	case stepReady:
		return j.ready(ctx)
	case stepReload:
		return j.reload(ctx)
	case stepFence:
		return j.fence(ctx)
	case stepLimits:
		return j.raiseLimits()
	case stepPrepareReplica:
		return j.prepareReplica(ctx)
	case stepRole:
		return j.takeRole(ctx)
	case stepResetRoot:
		return j.resetRoot(ctx)
	case stepBootstrap:
		return j.bootstrap(ctx)
	case stepUpgrade:
		return j.upgrade(ctx)
	case stepKeyring:
		return j.keyring(ctx)
	case stepReadOnly:
		return j.readOnly(ctx)
	case stepRoute:
		return j.setRoute(ctx)
	case stepSettle:
		return j.settle()
	}
	return fmt.Errorf("unknown step %q", s)
}

func (j *job) save(durably bool) error { return j.rec.write(j.dir, durably) }

func (j *job) discard(ctx context.Context) error {
	if err := j.killAll(ctx); err != nil {
		return err
	}
	if err := j.d.trash.put(j.node.Data); err != nil {
		return err
	}
	// Keys made for the data are of no use to the next.
	if j.node.Keys != "" {
		if err := os.RemoveAll(j.node.Keys); err != nil {
			return fmt.Errorf("remove keys: %w", err)
		}
	}
	return nil
}

// clone makes the node's folders and takes a clone of the template. The record
// comes before the data it tells of.
func (j *job) clone(ctx context.Context) error {
	j.rec = &record{
		Cluster: j.want.ID, Ordinal: j.m.ordinal, Engine: j.want.Engine, Port: j.want.Port,
		Installation: j.inst.ID(), Boot: j.d.boot, Encrypted: j.want.Encrypted,
	}
	if err := j.makeFolders(); err != nil {
		return err
	}
	if err := j.save(false); err != nil {
		return err
	}
	note, err := j.d.templates.take(ctx, j.inst, j.dir, j.d.user(j.want.Port))
	if err != nil {
		return err
	}
	j.node.TemplatePassword = note.Password
	return nil
}

func (j *job) stop(ctx context.Context) error {
	p := j.m.process()
	if p == nil {
		return nil
	}
	if err := j.hindered(); err != nil {
		return fmt.Errorf("node %d isn't stopped: %w", j.m.ordinal, err)
	}
	j.m.setProcess(nil) // its end is no crash
	return p.Stop(ctx, j.eng.StopSignal(), stopPatience, j.d.groups.Find(j.name()))
}

func (j *job) name() string { return nodeName(j.want.ID, j.m.ordinal) }

func (j *job) killAll(ctx context.Context) error {
	j.m.setProcess(nil)
	id := j.d.identity(&record{Cluster: j.want.ID, Ordinal: j.m.ordinal, Port: j.want.Port})
	return process.KillAll(ctx, id, j.d.groups.Find(j.name()))
}

// start starts the server as wanted.
func (j *job) start(ctx context.Context) error {
	// What a dead server left behind still holds its memory, files and locks.
	if j.rec.Launch != nil {
		if err := j.killAll(ctx); err != nil {
			return err
		}
	}
	if err := checkPort(ctx, j.node.Listen); err != nil {
		return err
	}
	if j.rec.Installation != j.inst.ID() {
		j.rec.Installation, j.rec.Upgrading = j.inst.ID(), true
	}
	j.rec.Launch = j.newLaunch()
	j.rec.Encrypted, j.rec.ReadOnly, j.rec.Loaded = j.want.Encrypted, j.want.ReadOnly, j.digest
	j.rec.RestartDue = false
	if err := j.save(j.rec.Upgrading); err != nil {
		return err
	}
	return j.d.startServer(j.u, j.m, j.rec)
}

func (j *job) newLaunch() *launch {
	p, v := j.eng.Process(j.node), view(j.node)
	v.Read = append(v.Read, j.peerRuns()...) // a replica reaches its primary by its socket
	return &launch{
		Installation: j.inst.ID(), Env: p.Env, WorkDir: j.node.Data, User: j.d.user(j.want.Port),
		Argv: j.d.walls.Wrap(p.Argv, v, j.node.Data), Walled: j.d.walls != nil,
		Limits: j.limits(), Rlimits: j.rlimits(), Config: j.want.Config,
	}
}

func (j *job) ready(ctx context.Context) error {
	p := j.m.process()
	if p == nil {
		return errors.New("the server isn't running")
	}
	if err := j.await(ctx, p); err != nil {
		return err
	}
	if j.rec == nil || !j.rec.Bootstrapped {
		return nil // its fences are this steward's, or made so by resetRoot
	}
	return j.fence(ctx)
}

// fence takes from customers what an older steward may have let them have.
func (j *job) fence(ctx context.Context) error {
	if err := j.eng.Fence(ctx, j.node); err != nil {
		return fmt.Errorf("fence customers in: %w", err)
	}
	j.rec.Fenced = fences
	return j.save(false)
}

// reload has the server read its files again. What needs a restart gets one
// when the customer's settings changed; files that only look different because
// steward itself was upgraded wait for the maintenance window.
func (j *job) reload(ctx context.Context) error {
	if err := j.fence(ctx); err != nil {
		return err
	}
	restart, err := j.eng.Reload(ctx, j.node)
	if err != nil {
		return err
	}
	if restart && (j.rec.Applied == nil || *j.rec.Applied != j.settings()) {
		for _, s := range []step{stepStop, stepFiles, stepStart, stepReady} {
			if err := j.do(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return nil
	}
	j.rec.Loaded, j.rec.RestartDue = j.digest, restart
	return j.save(false)
}

func (j *job) raiseLimits() error {
	group, err := j.d.groups.Make(j.name(), j.limits())
	if err != nil || group == nil {
		return err
	}
	j.rec.Launch.Limits = j.limits()
	return j.save(false)
}

// bootstrap gives a fresh server its own passwords and proves that the
// customer's works. Then the data is the customer's, which is put on the disk
// before anybody can get in.
func (j *job) bootstrap(ctx context.Context) error {
	if err := j.keyring(ctx); err != nil {
		return err
	}
	if err := j.learnRootPassword(ctx); err != nil {
		return err
	}
	if err := j.eng.Bootstrap(ctx, j.node); err != nil {
		return err
	}
	if err := j.keyring(ctx); err != nil {
		return err
	}
	if j.node.Role == cluster.Primary { // a replica may get it only by following
		if err := j.eng.VerifyRootPassword(ctx, j.node); err != nil {
			return fmt.Errorf("log in as the customer: %w", err)
		}
	}
	j.rec.Bootstrapped = true
	settings := j.settings()
	j.rec.Applied = &settings
	if err := j.save(true); err != nil {
		return err
	}
	return removeNote(j.dir)
}

// learnRootPassword fills in dbadmin's password, which a reset may have changed.
func (j *job) learnRootPassword(ctx context.Context) error {
	password, err := j.keys.secret(ctx, platform.RootPassword)
	j.node.RootPassword = string(password)
	return err
}

// resetRoot makes dbadmin as it should be in the data of another cluster, whose
// customer may have dropped it. Our own account has that cluster's password there.
func (j *job) resetRoot(ctx context.Context) error {
	if err := j.learnRootPassword(ctx); err != nil {
		return err
	}
	there := j.node
	there.AdminPassword = j.foreign
	return j.eng.SetRootPassword(ctx, there)
}

func (j *job) upgrade(ctx context.Context) error {
	if err := j.eng.AfterPatch(ctx, j.node); err != nil {
		return err
	}
	j.rec.Upgrading = false
	return j.save(true)
}

// keyring seals what the server's keyring holds as soon as it differs from
// what is sealed: without it the data couldn't be read again.
func (j *job) keyring(ctx context.Context) error {
	if !j.want.Encrypted || j.keys.offline { // a failover has it sealed afterwards
		return nil
	}
	content, err := j.eng.KeyringContent(j.node)
	if errors.Is(err, fs.ErrNotExist) && !j.rec.Bootstrapped {
		return nil // there will be one when there is something to encrypt
	}
	if err != nil || content == nil || bytes.Equal(content, j.node.Keyring) {
		return err
	}
	if err := j.keys.save(ctx, keyringName(j.m.ordinal), content); err != nil {
		return fmt.Errorf("seal keyring: %w", err)
	}
	j.node.Keyring = content
	return nil
}

func (j *job) readOnly(ctx context.Context) error {
	if err := j.eng.SetReadOnly(ctx, j.node, j.want.ReadOnly); err != nil {
		return err
	}
	j.rec.ReadOnly = j.want.ReadOnly
	return j.save(false)
}

func (j *job) settle() error {
	settings := j.settings()
	if j.rec.Applied != nil && *j.rec.Applied == settings {
		return nil
	}
	j.rec.Applied = &settings
	return j.save(false)
}
