package mysql

import (
	"context"
	"fmt"
	"strings"

	"steward/internal/engine"
)

// Reload implements engine.Driver. It compares the wanted settings with the
// running server's, so that it is right whatever happened before.
func (d *Driver) Reload(ctx context.Context, n engine.Node) (restart bool, err error) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return false, err
	}
	defer s.close()
	running, err := s.variables(ctx)
	if err != nil {
		return false, err
	}
	settings, _ := settingsOf(n)
	for _, w := range settings {
		now, known := running[w.name]
		if w.when == apart || known && now == w.text() {
			continue
		}
		if !known {
			// That of a plugin which is loaded at the next start.
			w.when = fixed
		}
		taken, err := s.set(ctx, w)
		if err != nil {
			return false, fmt.Errorf("reload: %w", err)
		}
		if !taken {
			d.log.Info("a setting needs a restart", "cluster_id", n.Cluster, "node", n.Ordinal, "setting", w.name, "running", running[w.name], "wanted", w.text())
			restart = true
		}
	}
	if err := s.unchosen(ctx, n, settings); err != nil {
		return false, fmt.Errorf("reload: %w", err)
	}
	if err := s.exec(ctx, flavourOf(n.Installation.Flavour).dialect().reloadTLS); err != nil {
		return false, fmt.Errorf("reload certificates: %w", err)
	}
	return restart, nil
}

// set reports whether the running server took the setting over.
func (s *session) set(ctx context.Context, w setting) (taken bool, err error) {
	if w.when == fixed {
		return false, nil
	}
	if err := s.exec(ctx, "SET GLOBAL "+w.name+" = "+w.literal()); err != nil || w.when == live {
		return err == nil, err
	}
	now, err := s.text(ctx, "SELECT @@GLOBAL."+w.name)
	return now == w.text(), err
}

func (s *session) variables(ctx context.Context) (map[string]string, error) {
	rows, err := s.rows(ctx, "SHOW GLOBAL VARIABLES")
	if err != nil {
		return nil, err
	}
	all := make(map[string]string, len(rows))
	for _, r := range rows {
		all[strings.ToLower(r[0])] = r[1]
	}
	return all, nil
}
