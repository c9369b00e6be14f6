package postgresql

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/logical"
	"steward/internal/scram"
)

// tidyTime bounds what is put back after a user couldn't be made, whatever time was left for making it.
const tidyTime = 5 * time.Second

// CreateUser implements engine.Logical. A user of whom not all could be made is taken away again; who is killed between
// leaves one whose password nobody knows, and who can be given another or be deleted.
func (s inside) CreateUser(ctx context.Context, u logical.User, password string) error {
	major, err := majorOf(s.n.Installation)
	if err != nil {
		return err
	}
	faults, err := s.grantFaults(ctx, u.Name, u.Grants)
	if err != nil {
		return err
	}
	rows, err := s.run(ctx, "", "SELECT FROM pg_roles WHERE rolname = "+quoteText(u.Name))
	if err != nil {
		return fmt.Errorf("look for the user: %w", err)
	}
	if len(rows) > 0 {
		faults = append(fault.Faults{logical.Taken("username")}, faults...)
	}
	if len(faults) > 0 {
		return faults
	}
	secret, err := scram.Verifier(password, scram.CustomerRounds)
	if err != nil {
		return fmt.Errorf("password of the user: %w", err)
	}
	// What a user makes dbadmin can use, as with users that it makes itself.
	create := []string{"CREATE ROLE " + quoteName(u.Name) + " LOGIN PASSWORD '" + secret + "' ADMIN " + customerRole}
	if major < 16 {
		create = []string{
			"CREATE ROLE " + quoteName(u.Name) + " LOGIN PASSWORD '" + secret + "' ROLE " + customerRole,
			"COMMENT ON ROLE " + quoteName(u.Name) + " IS 'made by steward.create_user'",
		}
	}
	switch _, err := s.run(ctx, "", create...); {
	case codeOf(err) == codeDuplicateObject, codeOf(err) == codeUnique:
		return logical.Taken("username")
	case err != nil:
		return toldOf("create the user", err)
	}
	if err := s.SetGrants(ctx, u.Name, u.Grants); err != nil {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		if left := s.SetGrants(tidy, u.Name, nil); left == nil {
			_ = s.DropUser(tidy, u.Name) // the first error is the one to tell
		}
		return err
	}
	return nil
}

// grantFaults are what the server would have against grants: there is no such database, or it is another user's.
func (s inside) grantFaults(ctx context.Context, user string, grants []logical.Grant) (faults fault.Faults, err error) {
	owners, err := s.owners(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range grants {
		owner, there := owners[g.Database]
		switch {
		case !there:
			faults = append(faults, logical.NoDatabase("grants", g.Database))
		case g.Privilege == logical.Owner && owner != user && owner != customerRole:
			faults.Add("grants", "The database %s belongs to the user %s, who has to give it up first", fault.Quote([]string{g.Database}), fault.Quote([]string{owner}))
		}
	}
	return faults, nil
}

// SetGrants implements engine.Logical. Each database is a transaction of its own.
func (s inside) SetGrants(ctx context.Context, user string, grants []logical.Grant) error {
	u, err := s.user(ctx, user)
	if err != nil {
		return err
	}
	faults, err := s.grantFaults(ctx, user, grants)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return faults
	}
	want, names := sortedGrants(grants)
	for _, g := range u.Grants {
		if want[g.Database] == "" {
			names = append(names, g.Database)
		}
	}
	for _, database := range names {
		if err := s.grant(ctx, user, database, u.In(database), want[database]); err != nil {
			return err
		}
	}
	return nil
}

// grant makes a user's privilege in a database what is wanted, in one transaction. What the user has already is given
// anew: tables that others have made since are among it then.
func (s inside) grant(ctx context.Context, user, database string, had, want logical.Privilege) error {
	conn, err := s.connect(ctx, database)
	if err != nil {
		return fmt.Errorf("grant: %w", err)
	}
	defer closeSoon(ctx, conn)
	schemas, err := query(ctx, conn, `SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'steward')`)
	if err != nil {
		return fmt.Errorf("look for schemas: %w", err)
	}
	owner, err := query(ctx, conn, "SELECT o.rolname FROM pg_database d JOIN pg_roles o ON o.oid = d.datdba WHERE d.datname = current_database()")
	if err != nil {
		return fmt.Errorf("look for the owner: %w", err)
	}
	held, err := query(ctx, conn, standingGrants)
	if err != nil {
		return fmt.Errorf("look for grants: %w", err)
	}
	g := granter{user: user, database: database, makers: makers(owner[0][0], customerRole)}
	for _, r := range schemas {
		g.schemas = append(g.schemas, r[0])
	}
	statements := []string{"BEGIN"}
	if had == logical.Owner && want != logical.Owner {
		// First, so that what the owner may do with the database becomes dbadmin's and isn't revoked.
		statements = append(statements, "ALTER DATABASE "+quoteName(database)+" OWNER TO "+customerRole)
		for _, r := range held { // what the user makes no longer becomes others'
			other := granter{user: r[0], makers: []string{user}}
			statements = append(statements, other.revokeFuture()...)
		}
		g.makers = []string{customerRole}
	}
	if had != "" && had != want {
		revoke, err := query(ctx, conn, strings.ReplaceAll(granted, "{user}", quoteText(user)))
		if err != nil {
			return fmt.Errorf("look for grants: %w", err)
		}
		statements = append(statements, g.revokeFuture()...)
		for _, r := range revoke {
			statements = append(statements, r[0])
		}
	}
	switch want {
	case logical.Owner:
		statements = append(statements, g.give(logical.Owner)...)
		statements = append(statements, "ALTER DATABASE "+quoteName(database)+" OWNER TO "+quoteName(user))
		for _, r := range held { // others read and write what the new owner will make, as before
			p := map[bool]logical.Privilege{true: logical.Write, false: logical.Read}[r[1] == "t"]
			if r[0] != user {
				other := granter{user: r[0], makers: []string{user}}
				statements = append(statements, other.giveFuture(p)...)
			}
		}
	case logical.Read, logical.Write:
		statements = append(statements, g.give(want)...)
	}
	if _, err := query(ctx, conn, strings.Join(append(statements, "COMMIT"), ";\n")); err != nil {
		return toldOf("grant", err)
	}
	return nil
}

// makers are those whose tables a grant is for, each once.
func makers(roles ...string) []string {
	slices.Sort(roles)
	return slices.Compact(roles)
}

// granter writes the statements of one user's grant in one database.
type granter struct {
	user, database string
	schemas        []string
	// makers are whose future tables the grant covers.
	makers []string
}

// kinds are what a grant covers, by how GRANT calls all of them, and what each privilege may do with it.
var kinds = []struct {
	plural string
	may    map[logical.Privilege]string
}{
	{"TABLES", map[logical.Privilege]string{logical.Read: "SELECT", logical.Write: "SELECT, INSERT, UPDATE, DELETE", logical.Owner: "ALL"}},
	{"SEQUENCES", map[logical.Privilege]string{logical.Read: "SELECT", logical.Write: "ALL", logical.Owner: "ALL"}},
}

// onSchema and onDatabase are what each privilege may do with a schema and with the database.
var (
	onSchema   = map[logical.Privilege]string{logical.Read: "USAGE", logical.Write: "USAGE", logical.Owner: "ALL"}
	onDatabase = map[logical.Privilege]string{logical.Read: "CONNECT", logical.Write: "CONNECT, TEMPORARY", logical.Owner: "ALL"}
)

// give grants a privilege on what there is and on what will be.
func (g granter) give(p logical.Privilege) []string {
	all := []string{"GRANT " + onDatabase[p] + " ON DATABASE " + quoteName(g.database) + " TO " + quoteName(g.user)}
	for _, schema := range g.schemas {
		all = append(all, "GRANT "+onSchema[p]+" ON SCHEMA "+quoteName(schema)+" TO "+quoteName(g.user))
		for _, k := range kinds {
			all = append(all, "GRANT "+k.may[p]+" ON ALL "+k.plural+" IN SCHEMA "+quoteName(schema)+" TO "+quoteName(g.user))
		}
	}
	return append(all, g.giveFuture(p)...)
}

// giveFuture grants a privilege on what the makers will make.
func (g granter) giveFuture(p logical.Privilege) (all []string) {
	for _, maker := range g.makers {
		if maker == g.user {
			continue
		}
		of := "ALTER DEFAULT PRIVILEGES FOR ROLE " + quoteName(maker) + " GRANT "
		all = append(all, of+onSchema[p]+" ON SCHEMAS TO "+quoteName(g.user))
		for _, k := range kinds {
			all = append(all, of+k.may[p]+" ON "+k.plural+" TO "+quoteName(g.user))
		}
	}
	return all
}

// revokeFuture takes what is granted on what the makers will make.
func (g granter) revokeFuture() (all []string) {
	for _, maker := range g.makers {
		if maker == g.user {
			continue
		}
		for _, plural := range []string{"SCHEMAS", "TABLES", "SEQUENCES"} {
			all = append(all, "ALTER DEFAULT PRIVILEGES FOR ROLE "+quoteName(maker)+" REVOKE ALL ON "+plural+" FROM "+quoteName(g.user))
		}
	}
	return all
}

// granted are statements that take from a user what it was granted in a database and isn't its own: tables and the like,
// schemas, and the database.
const granted = `SELECT format('REVOKE ALL ON %s %I.%I FROM %I', CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, nspname, relname, {user})
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, (SELECT oid FROM pg_roles WHERE rolname = {user}) u
	WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND relowner <> u.oid AND EXISTS (SELECT FROM aclexplode(relacl) WHERE grantee = u.oid)
UNION ALL SELECT format('REVOKE ALL ON SCHEMA %I FROM %I', nspname, {user})
	FROM pg_namespace, (SELECT oid FROM pg_roles WHERE rolname = {user}) u
	WHERE nspowner <> u.oid AND EXISTS (SELECT FROM aclexplode(nspacl) WHERE grantee = u.oid)
UNION ALL SELECT format('REVOKE ALL ON DATABASE %I FROM %I', current_database(), {user})`

// SetUserPassword implements engine.Logical.
func (s inside) SetUserPassword(ctx context.Context, user, password string) error {
	if err := s.exists(ctx, user); err != nil {
		return err
	}
	secret, err := scram.Verifier(password, scram.CustomerRounds)
	if err != nil {
		return fmt.Errorf("password of the user: %w", err)
	}
	if _, err := s.run(ctx, "", "ALTER ROLE "+quoteName(user)+" PASSWORD '"+secret+"'"); err != nil {
		return toldOf("set the user's password", err)
	}
	return nil
}

// belongings are the databases in which a user has something: owned reports whether it is more than a say in what others get.
const belongings = `SELECT coalesce(d.datname, ''), bool_or(s.deptype = 'o' AND s.classid <> 'pg_default_acl'::regclass),
	bool_and(coalesce(d.datallowconn, true))
	FROM pg_shdepend s LEFT JOIN pg_database d ON d.oid = s.dbid WHERE s.refclassid = 'pg_authid'::regclass AND s.refobjid = (SELECT oid FROM pg_roles WHERE rolname = %s)
	GROUP BY 1 ORDER BY 1`

// DropUser implements engine.Logical. What the user may do goes; what it owns has to be somebody's first. Should it make
// something in the moment between, that becomes dbadmin's.
func (s inside) DropUser(ctx context.Context, user string) error {
	if err := s.exists(ctx, user); err != nil {
		return err
	}
	owners, err := s.owners(ctx)
	if err != nil {
		return err
	}
	var own []string
	for _, database := range slices.Sorted(maps.Keys(owners)) {
		if owners[database] == user {
			own = append(own, database)
		}
	}
	if len(own) > 0 {
		return fault.NewPrecondition("The user owns databases: %s. Delete them or take the grant of owner from the user first.", fault.Quote(own))
	}
	rows, err := s.run(ctx, "", fmt.Sprintf(belongings, quoteText(user)))
	if err != nil {
		return fmt.Errorf("look what the user owns: %w", err)
	}
	for _, r := range rows {
		if r[1] == "t" {
			own = append(own, r[0])
		}
		if r[2] != "t" {
			return fault.NewPrecondition("The user has something in the database %s, to which nobody can connect: ALTER DATABASE … ALLOW_CONNECTIONS true first.", fault.Quote([]string{r[0]}))
		}
	}
	if len(own) > 0 {
		return fault.NewPrecondition("The user owns something in: %s. Drop it there, or give it to somebody else: REASSIGN OWNED BY … TO dbadmin.", fault.Quote(own))
	}
	for _, r := range rows {
		if r[0] == "" {
			continue
		}
		if _, err := s.run(ctx, r[0], "REASSIGN OWNED BY "+quoteName(user)+" TO "+customerRole, "DROP OWNED BY "+quoteName(user)); err != nil {
			return toldOf("take the user's grants", err)
		}
	}
	_, err = s.run(ctx, "", "DROP OWNED BY "+quoteName(user), "DROP ROLE "+quoteName(user))
	if codeOf(err) == codeDependent {
		return fault.NewPrecondition("Others depend on the user: %s", said(err))
	}
	if err != nil {
		return toldOf("drop the user", err)
	}
	return nil
}
