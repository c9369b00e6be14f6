package mysql

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/engine"
)

// Bootstrap implements engine.Driver. Our own password comes last: where it
// works, all the rest is done.
func (d *Driver) Bootstrap(ctx context.Context, n engine.Node) error {
	s, err := d.admin(ctx, n)
	if err == nil {
		defer s.close()
		return s.makeReplicaAccounts(ctx, n, false)
	}
	if !errors.Is(err, engine.ErrAuthentication) {
		return err
	}
	s, err = d.adminWith(ctx, n, n.TemplatePassword)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.unlogged(ctx); err != nil {
		return err
	}
	f := flavourOf(n.Installation.Flavour)
	if n.Encrypted {
		if err := f.encrypt(ctx, s); err != nil {
			return fmt.Errorf("encrypt what the template brought: %w", err)
		}
	}
	if err := setPassword(ctx, s, f, "'"+rootUser+"'@'%'", n.RootPassword, " ACCOUNT UNLOCK"); err != nil {
		return err
	}
	if err := s.makeReplicaAccounts(ctx, n, true); err != nil {
		return err
	}
	return setPassword(ctx, s, f, "'"+adminUser+"'@'localhost'", n.AdminPassword, "")
}

// rootSessions are those of customers who logged in with dbadmin's password.
const rootSessions = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '" + rootUser + "'"

// SetRootPassword implements engine.Driver. It also makes dbadmin whole again,
// should the customer have dropped it or taken rights from it. Where something else makes replicas, they receive
// accounts as all that the primary has.
func (d *Driver) SetRootPassword(ctx context.Context, n engine.Node) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	if n.Remote != nil && isReplica(n) {
		return s.kill(ctx, rootSessions)
	}
	if n.Remote == nil {
		if err := s.unlogged(ctx); err != nil {
			return err
		}
	}
	f, account := flavourOf(n.Installation.Flavour), "'"+rootUser+"'@'%'"
	verifier, err := f.verifier(n.RootPassword)
	if err != nil {
		return err
	}
	if err := s.exec(ctx, "CREATE USER IF NOT EXISTS "+account+" IDENTIFIED "+verifier); err != nil {
		return err
	}
	if err := s.exec(ctx, f.dialect().root...); err != nil {
		return err
	}
	if err := s.withholdProcess(ctx, n); err != nil {
		return err
	}
	if err := setPassword(ctx, s, f, account, n.RootPassword, " ACCOUNT UNLOCK"); err != nil {
		return err
	}
	return s.kill(ctx, rootSessions)
}

func setPassword(ctx context.Context, s *session, f flavour, account, password, options string) error {
	verifier, err := f.verifier(password)
	if err != nil {
		return err
	}
	return s.exec(ctx, "ALTER USER "+account+" IDENTIFIED "+verifier+options)
}
