package postgresql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/scram"
)

// Bootstrap replaces the template's passwords in one transaction, so that the
// cluster's own admin password works exactly when all is done. A replica
// receives them from its primary.
func (Driver) Bootstrap(ctx context.Context, n engine.Node) error {
	if n.Role == cluster.Replica {
		return nil
	}
	// The template's password first: it is what a fresh server has, and a login that fails costs as much as another.
	conn, err := notBootstrapped(ctx, n)
	if conn == nil || err != nil {
		return err
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

// notBootstrapped connects to a server that still has the template's password; nil when it has the cluster's own.
func notBootstrapped(ctx context.Context, n engine.Node) (*pgconn.PgConn, error) {
	if n.TemplatePassword != "" {
		conn, err := asAdmin(ctx, n, n.TemplatePassword)
		if err == nil {
			return conn, nil
		}
		if !errors.Is(err, engine.ErrAuthentication) {
			return nil, fmt.Errorf("bootstrap: %w", err)
		}
	}
	conn, err := asAdmin(ctx, n, n.AdminPassword)
	if err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	return nil, conn.Close(context.WithoutCancel(ctx))
}

// changePasswords is one message of some statements, the fence around the log among them: the server runs it as one
// transaction.
func changePasswords(n engine.Node) (string, error) {
	root, err := changePassword(customerRole, n.RootPassword, scram.CustomerRounds)
	if err != nil {
		return "", err
	}
	admin, err := changePassword(adminRole, n.AdminPassword, scram.OwnRounds)
	if err != nil {
		return "", err
	}
	return root + ";" + admin + ";" + quieten, nil
}

// changePassword needs no quoting: a verifier has no quotes.
func changePassword(role, password string, rounds int) (string, error) {
	secret, err := scram.Verifier(password, rounds)
	if err != nil {
		return "", fmt.Errorf("password of %s: %w", role, err)
	}
	return fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", role, secret), nil
}

// SetRootPassword makes n.RootPassword dbadmin's and ends dbadmin's sessions: one
// that somebody opened with the old password could set another. No transaction
// of a customer's holds it up. It also lets customers in again who locked
// themselves out.
func (Driver) SetRootPassword(ctx context.Context, n engine.Node) error {
	change := changeRootPassword
	if n.Role == cluster.Replica {
		change = takeOverRootPassword
	}
	if err := change(ctx, n); err != nil {
		return fmt.Errorf("set root password: %w", err)
	}
	return nil
}

// lockCatalogs keeps everybody else from changing what a reset changes, which
// would otherwise fail for whoever changed the same row a moment earlier.
const lockCatalogs = "BEGIN; LOCK TABLE pg_authid, pg_database, pg_db_role_setting IN SHARE ROW EXCLUSIVE MODE"

func changeRootPassword(ctx context.Context, n engine.Node) error {
	change, err := changePassword(customerRole, n.RootPassword, scram.CustomerRounds)
	if err != nil {
		return err
	}
	conn, err := asAdmin(ctx, n, n.AdminPassword)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := insist(ctx, n, conn, lockCatalogs); err != nil {
		return err
	}
	statements, err := wayIn(ctx, conn)
	if err != nil {
		return err
	}
	statements = append(statements, change, "COMMIT")
	if err := insist(ctx, n, conn, strings.Join(statements, "; ")); err != nil {
		return err
	}
	rows, err := query(ctx, conn, "SELECT clock_timestamp()")
	if err != nil {
		return err
	}
	if err := endSessions(ctx, conn, rows[0][0]); err != nil {
		return err
	}
	return ensureDatabase(ctx, n, conn)
}

// takeOver is how long a replica is given to receive a new password.
const takeOver = 5 * time.Second

// takeOverRootPassword ends the sessions on a replica once it has received the
// new password from its primary. One that is cut off from it keeps the old one
// until it follows again, and its customers at what they read.
func takeOverRootPassword(ctx context.Context, n engine.Node) error {
	conn, err := asOurs(ctx, n)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	waiting, cancel := context.WithTimeout(ctx, takeOver)
	defer cancel()
	for {
		rows, err := query(ctx, conn, "SELECT rolpassword, clock_timestamp() FROM pg_authid WHERE rolname = '"+customerRole+"'")
		if err != nil {
			return err
		}
		if len(rows) != 1 {
			return fmt.Errorf("the account %s isn't there", customerRole)
		}
		if arrived := scram.Verifies(rows[0][0], n.RootPassword); arrived || pause(waiting) != nil {
			return endSessions(ctx, conn, rows[0][1])
		}
	}
}

// VerifyRootPassword comes the way customers do, over verified TLS, but asks for
// our own database. What customers do to theirs, or to their role, is no matter
// there: who has the right password is told that the database is closed.
func (Driver) VerifyRootPassword(ctx context.Context, n engine.Node) error {
	config, err := verified(n)
	if err != nil {
		return fmt.Errorf("verify root password: %w", err)
	}
	conn, err := connect(ctx, login{
		host: door(n).Addr().String(), port: door(n).Port(),
		user: customerRole, password: n.RootPassword, database: adminDatabase, tls: config,
	})
	if err == nil {
		return errors.Join(errors.New("verify root password: dbadmin is let into our own database"), conn.Close(context.WithoutCancel(ctx)))
	}
	if knowsPassword(err) {
		return nil
	}
	return fmt.Errorf("verify root password: %w", err)
}

// knowsPassword reports whether the server refused only after the password had
// been accepted: for want of a privilege, or of a connection.
func knowsPassword(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (refused.Code == "42501" || refused.Code == "53300")
}
