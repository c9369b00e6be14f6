package postgresql

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// Bootstrap replaces the template's passwords in one transaction, so that the
// cluster's own admin password works exactly when all is done. A replica
// receives them from its primary.
func (Driver) Bootstrap(ctx context.Context, n engine.Node) error {
	if n.Role == cluster.Replica {
		return nil
	}
	conn, err := asAdmin(ctx, n, n.AdminPassword)
	if err == nil {
		return conn.Close(context.WithoutCancel(ctx))
	}
	if n.TemplatePassword == "" || !errors.Is(err, engine.ErrAuthentication) {
		return fmt.Errorf("bootstrap: %w", err)
	}
	conn, err = asAdmin(ctx, n, n.TemplatePassword)
	if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	change, err := changePasswords(n)
	if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	if _, err := query(ctx, conn, change); err != nil {
		return fmt.Errorf("bootstrap: set passwords: %w", err)
	}
	return nil
}

// changePasswords is one message of two statements: the server runs it as one
// transaction.
func changePasswords(n engine.Node) (string, error) {
	root, err := changePassword(customerRole, n.RootPassword, customerRounds)
	if err != nil {
		return "", err
	}
	admin, err := changePassword(adminRole, n.AdminPassword, adminRounds)
	if err != nil {
		return "", err
	}
	return root + ";" + admin, nil
}

// changePassword needs no quoting: a verifier has no quotes.
func changePassword(role, password string, rounds int) (string, error) {
	secret, err := verifier(password, rounds)
	if err != nil {
		return "", fmt.Errorf("password of %s: %w", role, err)
	}
	return fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", role, secret), nil
}

// SetRootPassword makes n.RootPassword dbadmin's. It also lets a customer in
// again who locked themselves out with a library that can't be loaded. A
// replica receives it from its primary.
func (Driver) SetRootPassword(ctx context.Context, n engine.Node) error {
	if n.Role == cluster.Replica {
		return nil
	}
	change, err := changePassword(customerRole, n.RootPassword, customerRounds)
	if err != nil {
		return fmt.Errorf("set root password: %w", err)
	}
	change += "; ALTER ROLE " + customerRole + " RESET local_preload_libraries"
	if _, err := ask(ctx, n, change); err != nil {
		return fmt.Errorf("set root password: %w", err)
	}
	return nil
}

// VerifyRootPassword logs in as dbadmin the way customers do, over verified TLS.
func (Driver) VerifyRootPassword(ctx context.Context, n engine.Node) error {
	config, err := verified(n)
	if err != nil {
		return fmt.Errorf("verify root password: %w", err)
	}
	conn, err := connect(ctx, login{
		host: n.Listen.Addr().String(), port: n.Listen.Port(),
		user: customerRole, password: n.RootPassword, database: firstDatabase, tls: config,
	})
	if err == nil {
		return conn.Close(context.WithoutCancel(ctx))
	}
	if knowsPassword(err) {
		return nil
	}
	return fmt.Errorf("verify root password: %w", err)
}

// knowsPassword tells whether the server refused only after the password had
// been accepted: customers may drop defaultdb, or use up their connections.
func knowsPassword(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	switch refused.Code {
	case "3D000", "42501", "53300", "55000":
		return true
	}
	return false
}
