package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/fault"
	"steward/internal/insight"
	"steward/internal/logical"
)

// Logical implements engine.Shaped.
func (d *Driver) Logical(n engine.Node) engine.Logical { return inside{d, n} }

// inside is what lies inside a server. Its sessions are in the binary log, unlike our other ones: databases and users are the
// customer's data, which replicas and restores have, too.
type inside struct {
	d *Driver
	n engine.Node
}

// Numbers of the server's refusals.
const (
	errDatabaseExists  = 1007
	errNoDatabase      = 1008
	errUnknownDatabase = 1049
	errCharacterSet    = 1115
	errCollation       = 1273
	errMismatch        = 1253
	errReadOnly        = 1290
	errReadOnlyTables  = 1836
	errUserStatement   = 1396
)

// toldOf is the error as a customer is told it, where it is the server's refusal of something that may happen to anybody.
func toldOf(what string, err error) error {
	switch {
	case is(err, errReadOnly, errReadOnlyTables):
		return fault.NewPrecondition("The database takes no writes now: its disk is full, or its primary changes. Try again soon.")
	case is(err, errLockWaitTimeout):
		return fault.NewPrecondition("Others hold locks that this needs; try again soon.")
	}
	return fmt.Errorf("%s: %w", what, err)
}

// said is what the server says of a refusal, in its own words.
func said(err error) string {
	refused, _ := errors.AsType[*mysql.MySQLError](err)
	return insight.Said(refused.Message)
}

// ready opens a session that doesn't wait long for customers' locks.
func (i inside) ready(ctx context.Context) (*session, error) {
	s, err := i.d.admin(ctx, i.n)
	if err != nil {
		return nil, err
	}
	if err := s.exec(ctx, "SET SESSION lock_wait_timeout = 10"); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// literalText is text as a literal of SQL, whatever sql_mode says of backslashes.
func literalText(text string) string { return fmt.Sprintf("CONVERT(0x%x USING utf8mb4)", text) }

// account is a user's, for statements about accounts.
func account(user string) string { return identifier(user) + "@`%`" }

// Databases implements engine.Logical.
func (i inside) Databases(ctx context.Context) ([]logical.Database, error) {
	s, err := i.ready(ctx)
	if err != nil {
		return nil, fmt.Errorf("list databases: %w", err)
	}
	defer s.close()
	return s.databases(ctx)
}

func (s *session) databases(ctx context.Context) ([]logical.Database, error) {
	rows, err := s.rows(ctx, "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA ORDER BY 1")
	if err != nil {
		return nil, fmt.Errorf("list databases: %w", err)
	}
	var all []logical.Database
	for _, r := range rows {
		if !logical.OwnSchema(r[0]) && !strings.HasPrefix(r[0], "#mysql50#") { // a folder that is no database
			all = append(all, logical.Database{Name: r[0], Encoding: r[1], Collation: r[2]})
		}
	}
	return all, nil
}

// CreateDatabase implements engine.Logical.
func (i inside) CreateDatabase(ctx context.Context, d logical.Database) error {
	s, err := i.ready(ctx)
	if err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	defer s.close()
	faults, err := s.databaseFaults(ctx, d)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return faults
	}
	create := "CREATE DATABASE " + identifier(d.Name)
	if d.Encoding != "" {
		create += " CHARACTER SET " + identifier(d.Encoding)
	}
	if d.Collation != "" {
		create += " COLLATE " + identifier(d.Collation)
	}
	err = s.exec(ctx, create)
	switch {
	case err == nil:
		return nil
	case is(err, errDatabaseExists):
		return logical.Taken("name")
	case is(err, errCharacterSet, errCollation, errMismatch):
		return fault.NewInvalid("collation", "The server refuses: %s", said(err))
	}
	return toldOf("create the database", err)
}

// databaseFaults are what the server would have against a new database.
func (s *session) databaseFaults(ctx context.Context, d logical.Database) (faults fault.Faults, err error) {
	all, err := s.databases(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(other logical.Database) bool { return other.Name == d.Name }) {
		faults = append(faults, logical.Taken("name"))
	}
	has := func(query string) (bool, error) {
		rows, err := s.rows(ctx, query)
		return len(rows) > 0, err
	}
	if d.Encoding != "" {
		there, err := has("SELECT 1 FROM information_schema.CHARACTER_SETS WHERE CHARACTER_SET_NAME = " + literalText(d.Encoding))
		if err != nil {
			return nil, fmt.Errorf("look for the encoding: %w", err)
		}
		if !there {
			faults.Add("encoding", "The server has no encoding %s", fault.Quote([]string{d.Encoding}))
		}
	}
	if d.Collation == "" {
		return faults, nil
	}
	// MariaDB's newer collations have a name for all character sets, and one for each.
	there, err := has("SELECT 1 FROM information_schema.COLLATIONS WHERE COLLATION_NAME = " + literalText(d.Collation))
	if err == nil && !there {
		there, err = has("SELECT 1 FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY WHERE COLLATION_NAME = " + literalText(d.Collation) + s.fullNames(ctx, d.Collation))
	}
	if err != nil {
		return nil, fmt.Errorf("look for the collation: %w", err)
	}
	if !there {
		faults.Add("collation", "The server has no collation %s", fault.Quote([]string{d.Collation}))
	}
	return faults, nil
}

// fullNames is more to look for where the server tells collations' names with their character sets.
func (s *session) fullNames(ctx context.Context, collation string) string {
	rows, err := s.rows(ctx, `SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'information_schema'
		AND TABLE_NAME = 'COLLATION_CHARACTER_SET_APPLICABILITY' AND COLUMN_NAME = 'FULL_COLLATION_NAME'`)
	if err != nil || len(rows) == 0 {
		return ""
	}
	return " OR FULL_COLLATION_NAME = " + literalText(collation)
}

// DropDatabase implements engine.Logical.
func (i inside) DropDatabase(ctx context.Context, name string) error {
	s, err := i.ready(ctx)
	if err != nil {
		return fmt.Errorf("drop the database: %w", err)
	}
	defer s.close()
	all, err := s.databases(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(d logical.Database) bool { return d.Name == name }) {
		return fault.NewNotFound()
	}
	if err := s.exec(ctx, "DROP DATABASE "+identifier(name)); is(err, errNoDatabase, errUnknownDatabase) {
		return nil
	} else if err != nil {
		return toldOf("drop the database", err)
	}
	return errors.Join(i.withdraw(ctx, s, name), i.dropWriters(ctx, s, name))
}

// dropWriters removes accounts that wrote what a source sent into a database that is gone, of a steward that was killed.
func (i inside) dropWriters(ctx context.Context, s *session, database string) error {
	left, err := s.rows(ctx, "SELECT User, Db FROM mysql.db WHERE Host = 'localhost' AND User LIKE 'steward\\_%'")
	if err != nil {
		return fmt.Errorf("look who wrote into the database: %w", err)
	}
	for _, r := range left {
		if name, one := i.plain(r[1]); !one || name != database {
			continue
		}
		if err := s.exec(ctx, "DROP USER IF EXISTS "+writerAccount(r[0])); err != nil {
			return toldOf("drop who wrote into the database", err)
		}
	}
	return nil
}

// withdraw takes the grants on a database that is gone, which the server keeps: another one of the name would be open to
// whoever had them.
func (i inside) withdraw(ctx context.Context, s *session, database string) error {
	users, err := i.users(ctx, s)
	if err != nil {
		return err
	}
	for _, u := range users {
		if u.In(database) == "" {
			continue
		}
		if err := s.exec(ctx, "REVOKE ALL PRIVILEGES ON "+i.pattern(database)+".* FROM "+account(u.Name)); err != nil {
			return toldOf("take the grants on the database", err)
		}
	}
	return nil
}

// pattern is a database's name in a grant. There MariaDB takes _ and % for any characters unless they are escaped; MySQL takes
// them as they are, since it has partial revokes.
func (i inside) pattern(database string) string {
	if i.n.Installation.Flavour == engine.FlavourMariaDB {
		database = strings.NewReplacer(`\`, `\\`, `_`, `\_`, `%`, `\%`).Replace(database)
	}
	return identifier(database)
}

// plain is the name that pattern wrote, false for what stands for several databases.
func (i inside) plain(pattern string) (string, bool) {
	if i.n.Installation.Flavour != engine.FlavourMariaDB {
		return pattern, true
	}
	var b strings.Builder
	for rest := pattern; rest != ""; rest = rest[1:] {
		switch {
		case rest[0] == '\\' && len(rest) > 1:
			rest = rest[1:]
		case rest[0] == '_', rest[0] == '%':
			return "", false
		}
		b.WriteByte(rest[0])
	}
	return b.String(), true
}

// EndUser implements engine.Logical.
func (i inside) EndUser(ctx context.Context, user string) error {
	s, err := i.d.admin(ctx, i.n)
	if err != nil {
		return fmt.Errorf("end the user's sessions: %w", err)
	}
	defer s.close()
	if err := s.kill(ctx, s.inspected()+" AND USER = "+literalText(user)+" COLLATE utf8mb4_bin"); err != nil {
		return fmt.Errorf("end the user's sessions: %w", err)
	}
	return nil
}

// tidyTime bounds what is put back after a user couldn't be made, whatever time was left for making it.
const tidyTime = 5 * time.Second

// reserved reports whether customers don't manage a user.
func reserved(user string) bool { return logical.Reserved(cluster.MySQL, user) }
