package postgresql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
	"steward/internal/fault"
	"steward/internal/insight"
	"steward/internal/logical"
)

// Logical implements engine.Shaped.
func (Driver) Logical(n engine.Node) engine.Logical { return inside{n} }

// inside is what lies inside a server. Everything is read from its catalogs, and done as our superuser with a search path
// that nobody else can put anything on; no statement here runs what a customer wrote.
type inside struct{ n engine.Node }

// shapingParameters differ from those of our other sessions: what a customer asks for is kept as their own commits are.
func (s inside) shapingParameters() map[string]string {
	all := ownParameters()
	all["synchronous_commit"], all["client_encoding"] = string(commit(s.n)), "UTF8"
	return all
}

// connect opens a session in a database, ours when none is named.
func (s inside) connect(ctx context.Context, database string) (*pgconn.PgConn, error) {
	if database == "" {
		return connectAsOurs(ctx, s.n, login{password: s.n.AdminPassword, database: adminDatabase, parameters: s.shapingParameters()})
	}
	return asAdminIn(ctx, s.n, database, s.shapingParameters())
}

// run runs statements, as one transaction where they may be in one, and returns the last one's rows.
func (s inside) run(ctx context.Context, database string, statements ...string) ([][]string, error) {
	conn, err := s.connect(ctx, database)
	if err != nil {
		return nil, err
	}
	defer closeSoon(ctx, conn)
	return query(ctx, conn, strings.Join(statements, ";\n"))
}

// quoteName is an identifier, and quoteText a literal, as they stand in SQL. A literal with a backslash says so: what it means doesn't
// depend on a setting then.
func quoteName(of string) string { return `"` + strings.ReplaceAll(of, `"`, `""`) + `"` }

func quoteText(of string) string {
	if strings.Contains(of, `\`) {
		return ` E'` + strings.ReplaceAll(literal(of), `\`, `\\`) + `'`
	}
	return `'` + literal(of) + `'`
}

// Codes of the server's refusals.
const (
	codeDuplicateDatabase = "42P04"
	codeDuplicateObject   = "42710"
	codeNoObject          = "42704"
	codeNoDatabase        = "3D000"
	codeInUse             = "55006"
	codeDependent         = "2BP01"
	codeReadOnly          = "25006"
	codeUnique            = "23505"
	codeConcurrently      = "XX000" // "tuple concurrently updated": two changed the same at once
)

// codeOf is the server's code for an error, "" for errors that aren't the server's.
func codeOf(err error) string {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refused.Code
	}
	return ""
}

// said is what the server says of a refusal, in its own words.
func said(err error) string {
	refused, _ := errors.AsType[*pgconn.PgError](err)
	return insight.Said(refused.Message)
}

// toldOf is the error as a customer is told it, where it is the server's refusal of something that may happen to anybody.
func toldOf(what string, err error) error {
	switch codeOf(err) {
	case codeReadOnly:
		return fault.NewPrecondition("The database takes no writes now: its disk is full, or its primary changes. Try again soon.")
	case codeConcurrently:
		return fault.NewPrecondition("Somebody else changes the same just now; try again.")
	}
	return fmt.Errorf("%s: %w", what, err)
}

// customers are the databases that aren't ours or an operator's. One whose limit is -2 was being dropped when the server died.
const customersDatabases = "pg_database d JOIN pg_roles o ON o.oid = d.datdba WHERE NOT o.rolsuper AND d.datconnlimit <> -2"

// customersUsers are those that customers manage.
const customersUsers = "r.rolcanlogin AND r.oid NOT IN (SELECT oid FROM pg_roles WHERE rolsuper OR rolreplication) AND r.rolname <> '" + customerRole + "' AND r.rolname !~ '^pg_'"

// Databases implements engine.Logical.
func (s inside) Databases(ctx context.Context) ([]logical.Database, error) {
	collation, err := s.shownCollation()
	if err != nil {
		return nil, err
	}
	rows, err := s.run(ctx, "", "SELECT d.datname, o.rolname, pg_encoding_to_char(d.encoding), "+collation+" FROM "+customersDatabases+" ORDER BY 1")
	if err != nil {
		return nil, fmt.Errorf("list databases: %w", err)
	}
	all := make([]logical.Database, len(rows))
	for i, r := range rows {
		all[i] = logical.Database{Name: r[0], Owner: r[1], Encoding: r[2], Collation: r[3]}
	}
	return all, nil
}

// DropDatabase implements engine.Logical.
func (s inside) DropDatabase(ctx context.Context, database string) error {
	rows, err := s.run(ctx, "", "SELECT d.datname = "+quoteText(database)+" FROM "+customersDatabases)
	if err != nil {
		return fmt.Errorf("look for the database: %w", err)
	}
	if !slices.ContainsFunc(rows, func(r []string) bool { return r[0] == "t" }) {
		return fault.NewNotFound()
	}
	if len(rows) == 1 {
		return fault.NewPrecondition("It is the only database of the server: nobody could log in any more. Create another one first.")
	}
	_, err = s.run(ctx, "", "DROP DATABASE IF EXISTS "+quoteName(database)+" WITH (FORCE)")
	if codeOf(err) == codeInUse {
		return fault.NewPrecondition("The database is in use: %s", said(err))
	}
	if err != nil {
		return toldOf("drop the database", err)
	}
	return nil
}

// EndUser implements engine.Logical.
func (s inside) EndUser(ctx context.Context, user string) error {
	if _, err := ask(ctx, s.n, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = "+quoteText(user)+" AND usename NOT IN "+ourRoles); err != nil {
		return fmt.Errorf("end the user's sessions: %w", err)
	}
	return nil
}

// standingGrants are what users may do with the tables that a database's owner, or dbadmin, makes: the grant that the server
// itself keeps for those to come.
const standingGrants = `SELECT g.rolname, bool_or(a.privilege_type = 'INSERT')
	FROM pg_default_acl l, aclexplode(l.defaclacl) a, pg_roles g
	WHERE g.oid = a.grantee AND l.defaclnamespace = 0 AND l.defaclobjtype = 'r'
		AND (l.defaclrole = '` + customerRole + `'::regrole OR l.defaclrole = (SELECT datdba FROM pg_database WHERE datname = current_database()))
	GROUP BY 1 HAVING bool_or(a.privilege_type = 'SELECT')`

// granting are the databases in which somebody has a standing grant, and all others that are somebody's.
const granting = `SELECT d.datname, o.rolname, d.datallowconn AND EXISTS (SELECT FROM pg_shdepend s
	WHERE s.dbid = d.oid AND s.classid = 'pg_default_acl'::regclass AND s.deptype = 'a') FROM ` + customersDatabases + ` ORDER BY 1`

// Users implements engine.Logical.
func (s inside) Users(ctx context.Context) ([]logical.User, error) {
	rows, err := s.run(ctx, "", "SELECT r.rolname FROM pg_roles r WHERE "+customersUsers+" ORDER BY 1")
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	all, at := make([]logical.User, len(rows)), map[string]int{}
	for i, r := range rows {
		all[i].Name, at[r[0]] = r[0], i
	}
	databases, err := s.run(ctx, "", granting)
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	for _, d := range databases {
		held := map[string]logical.Privilege{}
		if d[2] == "t" {
			if held, err = s.held(ctx, d[0]); err != nil {
				return nil, err
			}
		}
		held[d[1]] = logical.Owner
		for user, p := range held {
			if i, known := at[user]; known {
				all[i].Grants = append(all[i].Grants, logical.Grant{Database: d[0], Privilege: p})
			}
		}
	}
	return all, nil
}

// held is who has which standing grant in a database; nobody in one that is gone meanwhile.
func (s inside) held(ctx context.Context, database string) (map[string]logical.Privilege, error) {
	rows, err := s.run(ctx, database, standingGrants)
	if codeOf(err) == codeNoDatabase {
		return map[string]logical.Privilege{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	held := map[string]logical.Privilege{}
	for _, r := range rows {
		held[r[0]] = logical.Read
		if r[1] == "t" {
			held[r[0]] = logical.Write
		}
	}
	return held, nil
}

// user is one of customers'; fault.NotFound when there is none such.
func (s inside) user(ctx context.Context, user string) (logical.User, error) {
	all, err := s.Users(ctx)
	if err != nil {
		return logical.User{}, err
	}
	i := slices.IndexFunc(all, func(u logical.User) bool { return u.Name == user })
	if i < 0 {
		return logical.User{}, fault.NewNotFound()
	}
	return all[i], nil
}

// exists is nil when there is a user of customers' of the name.
func (s inside) exists(ctx context.Context, user string) error {
	rows, err := s.run(ctx, "", "SELECT FROM pg_roles r WHERE r.rolname = "+quoteText(user)+" AND "+customersUsers)
	if err != nil {
		return fmt.Errorf("look for the user: %w", err)
	}
	if len(rows) == 0 {
		return fault.NewNotFound()
	}
	return nil
}

// owners is whose each database is.
func (s inside) owners(ctx context.Context) (map[string]string, error) {
	all, err := s.Databases(ctx)
	owners := make(map[string]string, len(all))
	for _, d := range all {
		owners[d.Name] = d.Owner
	}
	return owners, err
}

// sortedGrants are grants by database, and the databases' names.
func sortedGrants(grants []logical.Grant) (map[string]logical.Privilege, []string) {
	all := make(map[string]logical.Privilege, len(grants))
	for _, g := range grants {
		all[g.Database] = g.Privilege
	}
	return all, slices.Sorted(maps.Keys(all))
}
