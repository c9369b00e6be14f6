package postgresql

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"steward/internal/engine"
	"steward/internal/fault"
	"steward/internal/parameter"
)

// vettedExtension is one that the server leaves to superusers, and that gives nobody more rights than they have. We make each in a schema of
// its own, in which nobody but us can put anything that its script might take for the server's, and have its functions run with the
// rights of who calls them: they are ours.
type vettedExtension struct {
	// schema is where it is made unless another is named; fixed reports whether its script makes that by itself.
	schema string
	fixed  bool
	// library is what has to be loaded for it, "" for none.
	library string
	// theirs reports whether dbadmin owns what is in it, and the schema: then it can't do more than dbadmin.
	theirs bool
}

var vetted = map[string]vettedExtension{
	"postgis":            {schema: "postgis"},
	"vector":             {schema: "vector"},
	"pg_stat_statements": {schema: "stat_statements", library: statementsLibrary},
	"pg_cron":            {schema: "cron", fixed: true, library: "pg_cron"},
	"pg_partman":         {schema: "partman", theirs: true},
}

// needsSuperuser is said of extensions that the server doesn't trust.
const needsSuperuser = "It is for superusers only"

// refusedExtensions says more of some.
var refusedExtensions = map[string]string{
	"pg_repack": "Its functions are for superusers only, and rebuild tables with the rights of one: use VACUUM FULL, or CLUSTER",
	"pgaudit":   "It isn't needed: engine_config." + parameter.Loader("pgaudit") + " has statements audited, and the extension's triggers would stop all that changes tables once that is taken back",
}

// missing is why customers can't create an extension of a server that has loaded these libraries, "" when they can.
func missing(name string, trusted bool, loaded []string) string {
	if why := refusedExtensions[name]; why != "" {
		return why
	}
	v, ok := vetted[name]
	switch {
	case !ok && !trusted:
		return needsSuperuser
	case v.library != "" && !slices.Contains(loaded, v.library):
		if loader := parameter.Loader(v.library); loader != "" {
			return fmt.Sprintf("The server loads %s when it starts: set engine_config.%s first", name, loader)
		}
		return "The server loads " + name + " from its next start on"
	}
	return ""
}

// asInvoker changes the functions of an extension that would run with our rights.
const asInvoker = `DO $ours$
	DECLARE f record;
	BEGIN
		FOR f IN SELECT p.oid::regprocedure AS name FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid JOIN pg_extension x ON x.oid = d.refobjid
			WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND x.extname = '%s' AND p.prosecdef
		LOOP
			EXECUTE 'ALTER ROUTINE ' || f.name || ' SECURITY INVOKER';
		END LOOP;
	END $ours$`

// asTheirs gives dbadmin what is in an extension. Tables bring their types, and sequences, indexes and constraints along.
const asTheirs = `DO $ours$
	DECLARE o record;
	BEGIN
		FOR o IN SELECT format('ALTER ROUTINE %%s OWNER TO ` + customerRole + `', p.oid::regprocedure) AS statement
			FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid JOIN pg_extension x ON x.oid = d.refobjid
			WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND x.extname = '%[1]s'
		UNION ALL SELECT format('ALTER TABLE %%s OWNER TO ` + customerRole + `', c.oid::regclass)
			FROM pg_depend d JOIN pg_class c ON c.oid = d.objid JOIN pg_extension x ON x.oid = d.refobjid
			WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND x.extname = '%[1]s' AND c.relkind IN ('r', 'p', 'v', 'm')
		UNION ALL SELECT format('ALTER TYPE %%s OWNER TO ` + customerRole + `', t.oid::regtype)
			FROM pg_depend d JOIN pg_type t ON t.oid = d.objid JOIN pg_extension x ON x.oid = d.refobjid LEFT JOIN pg_class c ON c.oid = t.typrelid
			WHERE d.classid = 'pg_type'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND x.extname = '%[1]s' AND coalesce(c.relkind, 'c') = 'c'
		LOOP
			EXECUTE o.statement;
		END LOOP;
	END $ours$`

// createVetted makes an extension and a schema for it.
func (e extensions) createVetted(ctx context.Context, named string, v vettedExtension, schema string) error {
	if v.fixed && schema != "" && schema != v.schema {
		return fault.NewInvalid("schema", "%s is always in the schema %s", named, v.schema)
	}
	if named == "pg_cron" {
		if err := e.schedulerPinned(ctx); err != nil {
			return err
		}
	}
	schema = cmp.Or(schema, v.schema)
	err := e.asUs(ctx, v.create(e.database, named, schema)...)
	switch codeOf(err) {
	case "":
		if err != nil {
			return e.told("create the extension", err)
		}
		return nil
	case "42P06":
		return fault.NewInvalid("schema", "The schema %s is there already, and %s needs one of its own: %s", fault.Quote([]string{schema}), named, v.instead())
	case "42939":
		return fault.NewInvalid("schema", "The server refuses: %s", said(err))
	case codeDuplicateObject:
		return fault.NewInvalid("name", "The extension is in the database already")
	case "P0001": // pg_cron's script
		return fault.NewInvalid("database", "Must be the one of engine_config.%s", parameter.Loader("pg_cron"))
	}
	return e.told("create the extension", err)
}

// instead is what whoever has a schema of that name can do.
func (v vettedExtension) instead() string {
	if v.fixed {
		return "drop it"
	}
	return "choose another"
}

// create are the statements that make it. Who works there as us keeps account while the disk guard is on.
func (v vettedExtension) create(database, named, schema string) []string {
	invoker, use := fmt.Sprintf(asInvoker, literal(named)), "GRANT USAGE ON SCHEMA "+quoteName(schema)+" TO PUBLIC"
	if v.fixed {
		unguarded := "ALTER ROLE " + adminRole + " IN DATABASE " + quoteName(database) + " SET default_transaction_read_only = off"
		return []string{unguarded, "CREATE EXTENSION " + quoteName(named), invoker, use}
	}
	all := []string{"CREATE SCHEMA " + quoteName(schema), "CREATE EXTENSION " + quoteName(named) + " SCHEMA " + quoteName(schema), invoker, use}
	if v.theirs {
		all = append(all, fmt.Sprintf(asTheirs, literal(named)), "ALTER SCHEMA "+quoteName(schema)+" OWNER TO "+customerRole)
	}
	return all
}

// dropSchema are the statements that take its schema away: ours has nothing else in it, in dbadmin's what they made stays.
func (v vettedExtension) dropSchema(schema string) []string {
	switch {
	case v.fixed: // it is part of the extension
		return nil
	case v.theirs:
		return []string{"DO $ours$ BEGIN DROP SCHEMA " + quoteName(schema) + "; EXCEPTION WHEN dependent_objects_still_exist THEN NULL; END $ours$"}
	}
	return []string{"DROP SCHEMA " + quoteName(schema)}
}

// pins are what our superuser's sessions have, wherever it works and whatever a database's owner gave the database: they look for names in the server's schema
// alone, and aren't audited. Our own ask for that anyway; pg_cron's scheduler is our superuser in a customer's database, and names operators
// without their schema.
var pins = map[string]string{"search_path": "pg_catalog", "pgaudit.log": "none"}

// pinned reports whether they have.
var pinned = func() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(pins)) {
		all = append(all, name+"="+pins[name])
	}
	return "EXISTS (SELECT FROM pg_db_role_setting WHERE setrole = '" + adminRole + "'::regrole AND setdatabase = 0 AND setconfig @> '{" + strings.Join(all, ",") + "}')"
}()

// pinning are the statements that make it so.
func pinning() (statements []string) {
	for _, name := range slices.Sorted(maps.Keys(pins)) {
		statements = append(statements, "ALTER ROLE "+adminRole+" SET "+name+" = '"+pins[name]+"'")
	}
	return statements
}

// pin makes it so in a server that runs, and notes since when: sessions read settings when they begin.
func pin() string {
	return strings.Join(pinning(), "; ") + "; ALTER ROLE " + adminRole + " SET steward.pinned = '" + time.Now().UTC().Format(time.RFC3339Nano) + "'"
}

// schedulerPinned refuses while pg_cron's scheduler began before our superuser was pinned: who made the database's search path could have our rights.
func (e extensions) schedulerPinned(ctx context.Context) error {
	row, err := askOne(ctx, e.n, "SELECT "+pinned+` AND NOT EXISTS (SELECT FROM pg_stat_activity a, pg_db_role_setting s, unnest(s.setconfig) AS given
		WHERE a.backend_type = 'pg_cron launcher' AND s.setrole = '`+adminRole+`'::regrole AND s.setdatabase = 0 AND given LIKE 'steward.pinned=%' AND a.backend_start < split_part(given, '=', 2)::timestamptz)`)
	switch {
	case err != nil:
		return fmt.Errorf("look at the scheduler: %w", err)
	case row[0] == "t":
		return nil
	}
	return fault.NewPrecondition("The servers have to start anew before pg_cron can be created: POST …/restart")
}

var _ engine.Extensible = Driver{}
