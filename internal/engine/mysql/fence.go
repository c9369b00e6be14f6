package mysql

import (
	"context"
	"fmt"

	"steward/internal/engine"
)

// Fence implements engine.Driver. Like all that we do to accounts it is each
// node's own.
func (d *Driver) Fence(ctx context.Context, n engine.Node) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.unlogged(ctx); err != nil {
		return err
	}
	if err := s.withholdProcess(ctx, n); err != nil {
		return err
	}
	if err := s.withholdThreads(ctx, n.Installation.Flavour); err != nil {
		return err
	}
	if n.Installation.Flavour != engine.FlavourMariaDB {
		return nil
	}
	return s.withholdFileNames(ctx)
}

// seesAll are the accounts of others that hold PROCESS. With it they would read
// our statements, CHANGE MASTER and its password among them. It was dbadmin's once,
// and MySQL's dbadmin could hand it on.
const seesAll = "SELECT User, Host FROM mysql.user WHERE Process_priv = 'Y' " +
	"AND NOT (Host = 'localhost' AND (User = '" + adminUser + "' OR User LIKE 'mysql.%' OR User LIKE 'mariadb.%'))"

// notOurs leaves out those whose names no customer can have, where we, and whoever else looks after the server, come from elsewhere.
const notOurs = " AND User NOT IN ('" + adminUser + "', 'root')"

func (s *session) withholdProcess(ctx context.Context, n engine.Node) error {
	query := seesAll
	if n.Remote != nil {
		query += notOurs
	}
	accounts, err := s.rows(ctx, query)
	if err != nil {
		return err
	}
	for _, a := range accounts {
		account := identifier(a[0])
		if a[1] != "" { // a role of MariaDB's has no host
			account += "@" + identifier(a[1])
		}
		if err := s.exec(ctx, "REVOKE PROCESS ON *.* FROM "+account); err != nil {
			return fmt.Errorf("fence %s in: %w", account, err)
		}
	}
	return nil
}
