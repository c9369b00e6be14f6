package mysql

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"steward/internal/engine"
	"steward/internal/fault"
	"steward/internal/logical"
)

// rights are what each privilege is on MariaDB and MySQL.
var rights = map[logical.Privilege]string{
	logical.Read:  "SELECT, SHOW VIEW",
	logical.Write: "SELECT, SHOW VIEW, INSERT, UPDATE, DELETE, EXECUTE, LOCK TABLES, CREATE TEMPORARY TABLES",
	logical.Owner: "ALL PRIVILEGES",
}

// usersQuery has the accounts that may log in from anywhere; those of single hosts are for SQL.
const (
	usersQuery        = "SELECT User FROM mysql.user WHERE Host = '%' ORDER BY User"
	usersQueryMariaDB = "SELECT User FROM mysql.user WHERE Host = '%' AND is_role = 'N' ORDER BY User"
	grantsQuery       = "SELECT User, Db, Select_priv = 'Y', Insert_priv = 'Y' AND Update_priv = 'Y' AND Delete_priv = 'Y', Create_priv = 'Y' AND Drop_priv = 'Y' AND Alter_priv = 'Y' " +
		"FROM mysql.db WHERE Host = '%' ORDER BY Db"
)

// operators are users of those who look after servers elsewhere, or of their images; root is nobody's anyway.
var operators = map[string]bool{"repl": true, "healthcheck": true}

// Users implements engine.Logical.
func (i inside) Users(ctx context.Context) ([]logical.User, error) {
	s, err := i.ready(ctx)
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	defer s.close()
	return i.users(ctx, s)
}

func (i inside) users(ctx context.Context, s *session) ([]logical.User, error) {
	query := usersQuery
	if i.n.Installation.Flavour == engine.FlavourMariaDB {
		query = usersQueryMariaDB
	}
	rows, err := s.rows(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	var all []logical.User
	at := map[string]int{}
	for _, r := range rows {
		if !reserved(r[0]) && (i.n.Remote == nil || !operators[r[0]]) {
			at[r[0]] = len(all)
			all = append(all, logical.User{Name: r[0]})
		}
	}
	grants, err := s.rows(ctx, grantsQuery)
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	for _, r := range grants {
		j, known := at[r[0]]
		database, one := i.plain(r[1])
		if p := privilegeOf(r[2] == "1", r[3] == "1", r[4] == "1"); known && one && p != "" && all[j].In(database) == "" {
			all[j].Grants = append(all[j].Grants, logical.Grant{Database: database, Privilege: p})
		}
	}
	return all, nil
}

// privilegeOf is the greatest that somebody has who may read, write and change what tables there are.
func privilegeOf(reads, writes, changes bool) logical.Privilege {
	switch {
	case reads && writes && changes:
		return logical.Owner
	case reads && writes:
		return logical.Write
	case reads:
		return logical.Read
	}
	return ""
}

// user is one of customers'; fault.NotFound when there is none such.
func (i inside) user(ctx context.Context, s *session, user string) (logical.User, error) {
	all, err := i.users(ctx, s)
	if err != nil {
		return logical.User{}, err
	}
	j := slices.IndexFunc(all, func(u logical.User) bool { return u.Name == user })
	if j < 0 {
		return logical.User{}, fault.NewNotFound()
	}
	return all[j], nil
}

// CreateUser implements engine.Logical. A user of whom not all could be made is taken away again; who is killed between
// leaves one whose password nobody knows, and who can be given another or be deleted.
func (i inside) CreateUser(ctx context.Context, u logical.User, password string) error {
	s, err := i.ready(ctx)
	if err != nil {
		return fmt.Errorf("create the user: %w", err)
	}
	defer s.close()
	faults, err := i.grantFaults(ctx, s, u.Grants)
	if err != nil {
		return err
	}
	taken, err := s.rows(ctx, "SELECT 1 FROM mysql.user WHERE User = "+literalText(u.Name)+" COLLATE utf8mb4_bin")
	if err != nil {
		return fmt.Errorf("look for the user: %w", err)
	}
	if len(taken) > 0 || i.n.Remote != nil && operators[u.Name] {
		faults = append(fault.Faults{logical.Taken("username")}, faults...)
	}
	if len(faults) > 0 {
		return faults
	}
	verifier, err := flavourOf(i.n.Installation.Flavour).verifier(password)
	if err != nil {
		return fmt.Errorf("password of the user: %w", err)
	}
	if err := s.exec(ctx, "CREATE USER "+account(u.Name)+" IDENTIFIED "+verifier); is(err, errUserStatement) {
		return logical.Taken("username")
	} else if err != nil {
		return toldOf("create the user", err)
	}
	if err := i.setGrants(ctx, s, u.Name, nil, u.Grants); err != nil {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		_ = i.DropUser(tidy, u.Name) // the first error is the one to tell
		return err
	}
	return nil
}

// grantFaults are what the server would have against grants.
func (i inside) grantFaults(ctx context.Context, s *session, grants []logical.Grant) (faults fault.Faults, err error) {
	all, err := s.databases(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range grants {
		switch {
		case !slices.ContainsFunc(all, func(d logical.Database) bool { return d.Name == g.Database }):
			faults = append(faults, logical.NoDatabase("grants", g.Database))
		case g.Privilege == logical.Owner && logical.FileName(g.Database):
			faults.Add("grants", "%s is a name of the server's own files: nobody can create tables in it", fault.Quote([]string{g.Database}))
		}
	}
	return faults, nil
}

// SetGrants implements engine.Logical.
func (i inside) SetGrants(ctx context.Context, user string, grants []logical.Grant) error {
	s, err := i.ready(ctx)
	if err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	defer s.close()
	u, err := i.user(ctx, s, user)
	if err != nil {
		return err
	}
	faults, err := i.grantFaults(ctx, s, grants)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return faults
	}
	return i.setGrants(ctx, s, user, u.Grants, grants)
}

// setGrants takes what isn't wanted any more, then grants what is; had are the grants until now.
func (i inside) setGrants(ctx context.Context, s *session, user string, had, grants []logical.Grant) error {
	want := map[string]logical.Privilege{}
	for _, g := range grants {
		want[g.Database] = g.Privilege
	}
	for _, g := range had {
		if want[g.Database] == g.Privilege {
			continue
		}
		if err := s.exec(ctx, "REVOKE ALL PRIVILEGES ON "+i.pattern(g.Database)+".* FROM "+account(user)); err != nil {
			return toldOf("take a grant", err)
		}
	}
	for _, database := range slices.Sorted(maps.Keys(want)) {
		if err := s.exec(ctx, "GRANT "+rights[want[database]]+" ON "+i.pattern(database)+".* TO "+account(user)); err != nil {
			return toldOf("grant", err)
		}
	}
	return nil
}

// SetUserPassword implements engine.Logical.
func (i inside) SetUserPassword(ctx context.Context, user, password string) error {
	s, err := i.ready(ctx)
	if err != nil {
		return fmt.Errorf("set the user's password: %w", err)
	}
	defer s.close()
	if _, err := i.user(ctx, s, user); err != nil {
		return err
	}
	if err := setPassword(ctx, s, flavourOf(i.n.Installation.Flavour), account(user), password, ""); err != nil {
		return toldOf("set the user's password", err)
	}
	return nil
}

// DropUser implements engine.Logical.
func (i inside) DropUser(ctx context.Context, user string) error {
	s, err := i.ready(ctx)
	if err != nil {
		return fmt.Errorf("drop the user: %w", err)
	}
	defer s.close()
	if _, err := i.user(ctx, s, user); err != nil {
		return err
	}
	if err := s.exec(ctx, "DROP USER IF EXISTS "+account(user)); err != nil {
		return toldOf("drop the user", err)
	}
	return nil
}
