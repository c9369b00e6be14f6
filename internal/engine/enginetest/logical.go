package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/fault"
	"steward/internal/logical"
)

// logicalDatabases makes databases and users, and has the users log in and try what they may and what they may not.
func logicalDatabases(t *testing.T, s *Server) {
	l := logicalTest{Logical: s.Bench.Driver.Logical(s.Node), t: t, s: s, pg: s.Node.Installation.Family() == cluster.PostgreSQL}
	if !l.pg {
		l.schema = "my_shop."
	}
	l.databases()
	l.privileges()
	l.otherGrants()
	l.otherPassword()
	if l.pg {
		ownersPart(t, s, l.Logical, l.try, l.user)
		extensionsPart(t, s)
	}
	l.drops()
	if !t.Failed() { // rapid panics in a test that has failed
		quotedNames(t, s, l.Logical)
	}
}

// logicalTest is what lies inside one server. Its parts go on from what those before have left.
type logicalTest struct {
	engine.Logical
	t  *testing.T
	s  *Server
	pg bool
	// schema is put before a table of the database my_shop by who isn't connected to that.
	schema string
}

const insidePassword = "Inside-7Hq2xW"

func (l *logicalTest) user(name, database string) Login {
	return Login{User: name, Password: insidePassword, Database: database, CA: l.s.CA}
}

// grants are those of a user, as text.
func (l *logicalTest) grants(name string) string {
	l.t.Helper()
	all, err := l.Users(l.t.Context())
	must(l.t, err, "list users")
	for _, u := range all {
		if u.Name == name {
			return fmt.Sprint(u.Grants)
		}
	}
	return "gone"
}

// try demands that somebody may carry out statements, or none of them.
func (l *logicalTest) try(as Login, ok bool, statements ...string) {
	l.t.Helper()
	db := l.s.DB(l.t, as)
	defer db.Close()
	for _, q := range statements {
		if _, err := db.ExecContext(l.t.Context(), q); (err == nil) != ok {
			l.t.Errorf("%s as %s: %v", q, as.User, err)
		}
	}
}

// databases makes two, and shows none that are the server's.
func (l *logicalTest) databases() {
	must(l.t, l.CreateDatabase(l.t.Context(), logical.Database{Name: "my_shop"}), "create a database")
	must(l.t, l.CreateDatabase(l.t.Context(), logical.Database{Name: "myxshop"}), "create a database of a similar name")
	if err := l.CreateDatabase(l.t.Context(), logical.Database{Name: "my_shop", Encoding: "klingon", Collation: "nowhere"}); !namesFields(err, "name", "encoding", "collation") {
		l.t.Errorf("a database of nothing that there is: %v", err)
	}
	databases, err := l.Databases(l.t.Context())
	must(l.t, err, "list databases")
	i := slices.IndexFunc(databases, func(d logical.Database) bool { return d.Name == "my_shop" })
	if i < 0 || databases[i].Encoding == "" || databases[i].Collation == "" || l.pg && databases[i].Owner != logical.Root {
		l.t.Fatalf("databases: %+v", databases)
	}
	for _, d := range databases {
		if slices.Contains([]string{"postgres", "template0", "template1", "mysql", "sys", "steward", "information_schema", "performance_schema"}, d.Name) {
			l.t.Errorf("%s is shown", d.Name)
		}
	}
}

// privileges are of a user with each: what was there before has them, and what comes later.
func (l *logicalTest) privileges() {
	tables := l.s.Login()
	tables.Database = "my_shop"
	l.try(tables, true, "CREATE TABLE early (v int)", "INSERT INTO early VALUES (1)")

	for name, p := range map[string]logical.Privilege{"reader": logical.Read, "writer": logical.Write, "keeper": logical.Owner} {
		must(l.t, l.CreateUser(l.t.Context(), logical.User{Name: name, Grants: []logical.Grant{{Database: "my_shop", Privilege: p}}}, insidePassword), "create "+name)
		if got, want := l.grants(name), fmt.Sprintf("[{my_shop %s}]", p); got != want {
			l.t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if err := l.CreateUser(l.t.Context(), logical.User{Name: "reader", Grants: []logical.Grant{{Database: "nowhere", Privilege: logical.Read}}}, insidePassword); !namesFields(err, "username", "grants") {
		l.t.Errorf("a user that is there, of a database that isn't: %v", err)
	}
	l.try(tables, true, "CREATE TABLE late (v int)", "INSERT INTO late VALUES (1)")
	for _, table := range []string{"early", "late"} {
		l.try(l.user("reader", "my_shop"), true, "SELECT * FROM "+l.schema+table)
		l.try(l.user("reader", "my_shop"), false, "INSERT INTO "+l.schema+table+" VALUES (2)", "DELETE FROM "+l.schema+table, "DROP TABLE "+l.schema+table)
		l.try(l.user("writer", "my_shop"), true, "INSERT INTO "+l.schema+table+" VALUES (2)", "UPDATE "+l.schema+table+" SET v = 3", "DELETE FROM "+l.schema+table+" WHERE v = 3")
		l.try(l.user("writer", "my_shop"), false, "DROP TABLE "+l.schema+table, "CREATE TABLE "+l.schema+"evil (v int)")
	}
	l.try(l.user("keeper", "my_shop"), true, "CREATE TABLE kept (v int)", "INSERT INTO kept VALUES (1)", "ALTER TABLE kept ADD w int")
	l.try(l.user("reader", "my_shop"), true, "SELECT * FROM "+l.schema+"kept")
	l.try(l.user("writer", "my_shop"), true, "UPDATE "+l.schema+"kept SET v = 2")
	for _, name := range []string{"reader", "writer", "keeper"} {
		l.try(l.user(name, "myxshop"), false, "SELECT 1") // a pattern would let them in
	}
	l.try(tables, true, "SELECT * FROM kept", "UPDATE kept SET v = 3") // dbadmin is left out of nothing
}

// otherGrants takes the place of those that a user had.
func (l *logicalTest) otherGrants() {
	must(l.t, l.SetGrants(l.t.Context(), "writer", []logical.Grant{{Database: "my_shop", Privilege: logical.Read}, {Database: "myxshop", Privilege: logical.Write}}), "grant less and more")
	if got := l.grants("writer"); got != "[{my_shop read} {myxshop write}]" {
		l.t.Errorf("writer: %s", got)
	}
	l.try(l.user("writer", "my_shop"), true, "SELECT * FROM "+l.schema+"early", "SELECT * FROM "+l.schema+"kept")
	l.try(l.user("writer", "my_shop"), false, "UPDATE "+l.schema+"early SET v = 4", "UPDATE "+l.schema+"kept SET v = 4")
	if err := l.SetGrants(l.t.Context(), "nobody", nil); !fault.IsKind(err, fault.NotFound) {
		l.t.Errorf("grants of nobody: %v", err)
	}
}

// otherPassword ends the sessions of who had the old one.
func (l *logicalTest) otherPassword() {
	session, err := l.s.DB(l.t, l.user("writer", "my_shop")).Conn(l.t.Context())
	must(l.t, err, "log in")
	must(l.t, l.SetUserPassword(l.t.Context(), "writer", "Other-8Jr3yX"), "set the password")
	must(l.t, l.EndUser(l.t.Context(), "writer"), "end sessions")
	if _, err := session.ExecContext(l.t.Context(), "SELECT 1"); err == nil {
		l.t.Error("a session lives on")
	}
	session.Close()
	if l.s.TryLogin(l.t, l.user("writer", "my_shop")) == nil {
		l.t.Error("the old password is good still")
	}
	renewed := l.user("writer", "my_shop")
	renewed.Password = "Other-8Jr3yX"
	must(l.t, l.s.TryLogin(l.t, renewed), "log in with the new password")
}

// drops removes all, after which nothing of it comes back with a name.
func (l *logicalTest) drops() {
	must(l.t, l.SetGrants(l.t.Context(), "keeper", nil), "take all grants")
	l.try(l.user("keeper", "my_shop"), false, "SELECT 1")
	must(l.t, l.DropDatabase(l.t.Context(), "my_shop"), "drop a database")
	if err := l.DropDatabase(l.t.Context(), "my_shop"); !fault.IsKind(err, fault.NotFound) {
		l.t.Errorf("drop a database that is gone: %v", err)
	}
	if got := l.grants("reader"); got != "[]" {
		l.t.Errorf("grants on a database that is gone: %s", got)
	}
	must(l.t, l.CreateDatabase(l.t.Context(), logical.Database{Name: "my_shop"}), "create it again")
	l.try(l.user("reader", "my_shop"), false, "SELECT 1")
	for _, name := range []string{"reader", "writer", "keeper"} {
		must(l.t, l.DropUser(l.t.Context(), name), "drop "+name)
		if err := l.DropUser(l.t.Context(), name); !fault.IsKind(err, fault.NotFound) {
			l.t.Errorf("drop a user that is gone: %v", err)
		}
	}
	if l.s.TryLogin(l.t, l.user("reader", "my_shop")) == nil {
		l.t.Error("a user that was dropped logs in")
	}
	for _, name := range []string{"my_shop", "myxshop"} {
		must(l.t, l.DropDatabase(l.t.Context(), name), "drop "+name)
	}
	for _, name := range []string{"postgres", "template1", "mysql", "steward"} {
		if err := l.DropDatabase(l.t.Context(), name); !fault.IsKind(err, fault.NotFound) {
			l.t.Errorf("drop %s: %v", name, err)
		}
	}
}

// ownersPart is what only PostgreSQL has: databases and tables belong to somebody.
func ownersPart(t *testing.T, s *Server, inside engine.Logical, try func(Login, bool, ...string), user func(name, database string) Login) {
	ctx := t.Context()
	if err := inside.SetGrants(ctx, "reader", []logical.Grant{{Database: "my_shop", Privilege: logical.Owner}}); !namesFields(err, "grants") {
		t.Errorf("a second owner: %v", err)
	}
	expect := func(err error, words string) {
		t.Helper()
		if !fault.IsKind(err, fault.Precondition) || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
	}
	expect(inside.DropUser(ctx, "keeper"), "owns databases: my_shop")
	must(t, inside.SetGrants(ctx, "keeper", []logical.Grant{{Database: "my_shop", Privilege: logical.Write}}), "give the database up")
	try(user("keeper", "my_shop"), false, "CREATE TABLE evil (v int)")
	try(user("keeper", "my_shop"), true, "UPDATE kept SET v = 5") // the table stays the user's
	expect(inside.DropUser(ctx, "keeper"), "owns something in: my_shop")
	tables := s.Login()
	tables.Database = "my_shop"
	try(tables, true, "CREATE TABLE third (v int)", "CREATE SCHEMA later", "CREATE TABLE later.fourth (v int)")
	try(user("keeper", "my_shop"), true, "INSERT INTO third VALUES (1)", "INSERT INTO later.fourth VALUES (1)")
	try(user("reader", "my_shop"), true, "SELECT * FROM third", "SELECT * FROM later.fourth")
	try(tables, true, "DROP TABLE kept", "GRANT EXECUTE ON FUNCTION pg_catalog.now() TO dbadmin", "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'", "GRANT EXECUTE ON FUNCTION mine() TO keeper")
	for _, c := range []logical.Database{{Encoding: "LATIN1"}, {Collation: "C"}, {Owner: "keeper"}, {Collation: "de-x-icu"}} {
		c.Name = "of its own"
		err := inside.CreateDatabase(ctx, c)
		if namesFields(err, "collation") && c.Collation == "de-x-icu" {
			continue // a build without ICU, or a server before 15
		}
		must(t, err, fmt.Sprintf("create %+v", c))
		all, err := inside.Databases(ctx)
		must(t, err, "list databases")
		i := slices.IndexFunc(all, func(d logical.Database) bool { return d.Name == c.Name })
		if i < 0 || c.Encoding != "" && all[i].Encoding != c.Encoding || c.Collation != "" && all[i].Collation != c.Collation || c.Owner != "" && all[i].Owner != c.Owner {
			t.Errorf("asked for %+v, made %+v", c, all)
		}
		must(t, inside.DropDatabase(ctx, c.Name), "drop it")
	}
	if err := inside.CreateDatabase(ctx, logical.Database{Name: "x", Owner: "steward"}); !namesFields(err, "owner") {
		t.Errorf("a database of ours: %v", err)
	}
}

// extensionsPart makes and drops what the server trusts, and tries what it doesn't.
func extensionsPart(t *testing.T, s *Server) {
	e, ctx := s.Bench.Driver.(engine.Extensible).Extensions(s.Node, "my_shop"), t.Context()
	find := func(name string) (found logical.Extension) {
		t.Helper()
		all, err := e.Extensions(ctx)
		must(t, err, "list extensions")
		for _, x := range all {
			if x.Name == name {
				found = x
			}
		}
		return found
	}
	if x := find("citext"); !x.Offered || x.Version == "" || x.Installed != "" {
		t.Errorf("citext: %+v", x)
	}
	for _, name := range []string{"dblink", "file_fdw", "plperlu", "adminpack", "nothing", `x"; DROP TABLE late; --`} {
		if x := find(name); x.Name != "" {
			t.Errorf("offered: %+v", x)
		}
		if err := e.CreateExtension(ctx, name, "public"); !namesFields(err, "name") {
			t.Errorf("create %s: %v", name, err)
		}
		if err := e.DropExtension(ctx, name, true); !fault.IsKind(err, fault.NotFound) {
			t.Errorf("drop %s: %v", name, err)
		}
	}
	if err := e.CreateExtension(ctx, "citext", `no"where`); !namesFields(err, "schema") {
		t.Errorf("a schema that isn't there: %v", err)
	}
	must(t, e.CreateExtension(ctx, "cube", "public"), "create an extension")
	if cube := find("cube"); cube.Installed == "" || cube.Schema != "public" {
		t.Errorf("cube: %+v", cube)
	}
	if err := e.CreateExtension(ctx, "cube", "public"); !namesFields(err, "name") {
		t.Errorf("create it again: %v", err)
	}
	if err := e.UpdateExtension(ctx, "cube", "99'"); !namesFields(err, "version") {
		t.Errorf("a version that isn't there: %v", err)
	}
	must(t, e.UpdateExtension(ctx, "cube", ""), "update to what is there")
	cubes := s.Login()
	cubes.Database = "my_shop"
	table := s.DB(t, cubes)
	_, err := table.ExecContext(ctx, "CREATE TABLE cubes (v public.cube)")
	must(t, err, "create a table of it")
	table.Close()
	if err := e.DropExtension(ctx, "cube", false); !fault.IsKind(err, fault.Precondition) || !strings.Contains(err.Error(), "cascade=true") {
		t.Errorf("drop what another needs: %v", err)
	}
	must(t, e.DropExtension(ctx, "cube", true), "drop it with what needs it")
	if x := find("cube"); x.Installed != "" {
		t.Errorf("cube: %+v", x)
	}
	if _, err := s.Bench.Driver.(engine.Extensible).Extensions(s.Node, "no such").Extensions(ctx); !namesFields(err, "database") {
		t.Errorf("a database that isn't there: %v", err)
	}
	// What is planted runs with dbadmin's rights at most: it can't turn back into somebody else.
	s.Exec(t, "DROP DATABASE IF EXISTS planted WITH (FORCE)", "CREATE DATABASE planted")
	planted := s.Login()
	planted.Database = "planted"
	db := s.DB(t, planted)
	for _, q := range []string{
		"CREATE TABLE caught (who text)", "GRANT ALL ON caught TO PUBLIC",
		"CREATE FUNCTION public.evil(a text, b text) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.caught VALUES (session_user || ' ' || current_user); RETURN true; END$$",
		"CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = public.evil)",
		"ALTER DATABASE planted SET search_path = public, pg_catalog",
	} {
		_, err := db.ExecContext(ctx, q)
		must(t, err, q)
	}
	in := s.Bench.Driver.(engine.Extensible).Extensions(s.Node, "planted")
	must(t, in.CreateExtension(ctx, "citext", "public"), "create an extension beside what is planted")
	must(t, in.DropExtension(ctx, "citext", false), "drop it")
	var caught int
	must(t, db.QueryRowContext(ctx, "SELECT count(*) FROM caught").Scan(&caught), "look who was caught")
	if caught > 0 {
		t.Errorf("%d statements ran what was planted", caught)
	}
	db.Close()
	s.Exec(t, "DROP DATABASE planted WITH (FORCE)")
}

// quotedNames has names that try to end a quote made, granted and dropped: by us where they are allowed, else by the customer.
func quotedNames(t *testing.T, s *Server, inside engine.Logical) {
	ctx := t.Context()
	pieces := []string{`"`, `'`, "`", `\`, `;`, `--`, `$$`, `%`, `_`, `*`, `/*`, `*/`, ` `, `DROP ROLE dbadmin`, `{user}`, `%I`, `%[1]s`, `ä`, `x`}
	quoted := func(name string) string {
		if s.Node.Installation.Family() == cluster.PostgreSQL {
			return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		}
		return "`" + strings.ReplaceAll(name, "`", "``") + "`"
	}
	before, err := inside.Databases(ctx)
	must(t, err, "list databases")
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		if runs++; runs > 3 && !Thorough() {
			return // each makes a database
		}
		ok := func(err error, what string) {
			rt.Helper()
			if err != nil {
				rt.Fatalf("%s: %v", what, err)
			}
		}
		name := "n" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 6).Draw(rt, "name"), "") + "n"
		name = strings.ToValidUTF8(name[:min(len(name), 60)], "")
		role := "hostile"
		if logical.CheckDatabase(s.Node.Installation.Family(), "name", name) == nil {
			ok(inside.CreateDatabase(ctx, logical.Database{Name: name}), "create "+name)
		} else {
			s.Exec(t, "CREATE DATABASE "+quoted(name))
		}
		if logical.CheckUser(s.Node.Installation.Family(), "username", name) == nil {
			role = name
		}
		ok(inside.CreateUser(ctx, logical.User{Name: role, Grants: []logical.Grant{{Database: name, Privilege: logical.Write}}}, "Hostile-5Kt9zQ"), "create user "+role)
		all, err := inside.Users(ctx)
		ok(err, "list users")
		i := slices.IndexFunc(all, func(u logical.User) bool { return u.Name == role })
		if i < 0 || fmt.Sprint(all[i].Grants) != fmt.Sprintf("[{%s write}]", name) {
			rt.Errorf("users: %q", all)
		}
		ok(s.TryLogin(t, Login{User: role, Password: "Hostile-5Kt9zQ", Database: name, CA: s.CA}), "log in as "+role)
		ok(inside.SetGrants(ctx, role, []logical.Grant{{Database: name, Privilege: logical.Owner}}), "make "+role+" the owner")
		ok(inside.SetGrants(ctx, role, nil), "take the grants of "+role)
		ok(inside.SetUserPassword(ctx, role, "Hostile-6Lu0aR"), "set the password of "+role)
		ok(inside.EndUser(ctx, role), "end sessions of "+role)
		ok(inside.DropDatabase(ctx, name), "drop "+name)
		ok(inside.DropUser(ctx, role), "drop "+role)
		databases, err := inside.Databases(ctx)
		ok(err, "list databases")
		if !slices.Equal(databases, before) {
			rt.Errorf("databases: %q", databases)
		}
	})
	must(t, s.TryLogin(t, s.Login()), "log in as dbadmin")
}

// namesFields reports whether an error is faults of these fields, in any order.
func namesFields(err error, fields ...string) bool {
	var named fault.Faults
	one, isOne := errors.AsType[*fault.Fault](err)
	if isOne {
		named = fault.Faults{one}
	}
	if all, ok := errors.AsType[fault.Faults](err); ok {
		named = all
	}
	for _, f := range fields {
		if !named.Name(f) {
			return false
		}
	}
	return len(named) == len(fields)
}
