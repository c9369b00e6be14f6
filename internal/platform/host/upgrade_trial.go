package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"steward/internal/failpoint"
	"steward/internal/platform"
	"steward/internal/platform/host/files"
	"steward/internal/process"
)

// TryUpgrade implements platform.Upgrader. The scratch server is one as for the verification of a backup, which gives way to it.
func (d *Driver) TryUpgrade(ctx context.Context, want platform.Wanted, c platform.Copy, r io.Reader) (platform.Trial, error) {
	found, err := d.tryUpgrade(ctx, want, c, r)
	if refused, ok := errors.AsType[*platform.NoUpgradeError](err); ok {
		d.log.Info("an upgrade was tried in vain", "cluster_id", want.ID, "series", want.Series, "error", err)
		return platform.Trial{Reasons: refused.Reasons}, nil
	}
	if err != nil {
		return found, fmt.Errorf("try to move cluster %d to series %s: %w", want.ID, want.Series, err)
	}
	return found, nil
}

func (d *Driver) tryUpgrade(ctx context.Context, want platform.Wanted, c platform.Copy, r io.Reader) (found platform.Trial, err error) {
	to, err := d.upgradeTarget(want, d.installation(c.Installation))
	if err != nil {
		return found, err
	}
	ctx, done, err := d.verifications.replace(ctx, want.ID)
	if err != nil {
		return found, err
	}
	defer done()
	s, err := d.newScratch(ctx, want, c)
	if err != nil {
		return found, err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), scratchGone)
		defer cancel()
		err = errors.Join(err, s.remove(ending))
	}()
	if err := s.serve(ctx, r); err != nil {
		return found, err
	}
	m := &dataUpgrade{d: d, before: s.node, after: s.node, eng: s.eng, dir: filepath.Join(s.dir, "upgrade"), user: d.user(want.Port), mark: s.identity().Mark + "-upgrade"}
	m.after.Installation = to
	return s.tryMove(ctx, m)
}

// tryMove moves the scratch server's data, and tells how long its customers would have waited.
func (s *scratch) tryMove(ctx context.Context, m *dataUpgrade) (found platform.Trial, err error) {
	if found.Reasons, err = s.eng.Obstacles(ctx, s.node, m.after.Installation); err != nil || len(found.Reasons) > 0 {
		return found, err
	}
	if err := s.eng.PrepareStop(ctx, s.node); err != nil {
		return found, err
	}
	if err := m.begin(ctx); err != nil {
		return found, err
	}
	failpoint.Here("host: before trying an upgrade")
	began := time.Now()
	if err := s.end(ctx); err != nil {
		return found, err
	}
	if err := os.Remove(m.old()); err != nil {
		return found, fmt.Errorf("make room for the data: %w", err)
	}
	if err := os.Rename(s.node.Data, m.old()); err != nil {
		return found, fmt.Errorf("move the data: %w", err)
	}
	if err := m.move(ctx); err != nil {
		return found, notMoved(err)
	}
	if err := os.Rename(m.moved(), s.node.Data); err != nil {
		return found, fmt.Errorf("move the data: %w", err)
	}
	if err := s.goOn(ctx, m); err != nil {
		return found, &platform.NoUpgradeError{Reasons: []string{noUpgrade}, Cause: err}
	}
	found.Pause = time.Since(began)
	return found, nil
}

// serve has a server run on the copy.
func (s *scratch) serve(ctx context.Context, r io.Reader) error {
	keyring, err := readKeyring(s.copy, r)
	if err != nil {
		return err
	}
	s.node.Keyring = keyring
	if err := files.MakeFolder(filepath.Dir(s.dir), 0o711, 0, 0); err != nil {
		return err
	}
	if err := s.unpack(ctx, s.node.Data, r); err != nil {
		return err
	}
	if err := s.certificate(ctx); err != nil {
		return err
	}
	return s.run(ctx)
}

func (s *scratch) run(ctx context.Context) error {
	if err := s.writeFiles(); err != nil {
		return err
	}
	if err := s.launch(ctx); err != nil {
		return err
	}
	return s.awaitStart(ctx)
}

// goOn has the server run with the other installation, on what became of its data.
func (s *scratch) goOn(ctx context.Context, m *dataUpgrade) error {
	s.inst, s.node.Installation = m.after.Installation, m.after.Installation
	if err := s.render(); err != nil {
		return err
	}
	if err := s.run(ctx); err != nil {
		return err
	}
	return errors.Join(s.eng.AdoptSeries(ctx, s.node), s.eng.AfterPatch(ctx, s.node))
}

// end stops the server cleanly.
func (s *scratch) end(ctx context.Context) error {
	if p := s.ns.process(); p != nil {
		if err := p.Stop(ctx, stopRequest(s.eng), s.group); err != nil {
			return fmt.Errorf("stop the scratch server: %w", err)
		}
	}
	return process.KillAll(ctx, s.identity(), s.group)
}
