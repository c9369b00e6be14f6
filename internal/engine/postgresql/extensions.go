package postgresql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
	"steward/internal/fault"
	"steward/internal/logical"
)

var _ engine.Extensible = Driver{}

// Extensions implements engine.Extensible.
func (Driver) Extensions(n engine.Node, database string) engine.Extensions {
	return extensions{n, database}
}

// extensions are those of a database. It is dbadmin who logs in, not us: what a customer planted may run while an extension is
// made, with the rights of who makes it. Only for those that demand a superuser it is us, see vetted.
type extensions struct {
	n        engine.Node
	database string
}

// vetted are extensions that the server leaves to superusers, and that give nobody more rights than they have. We make each in a schema of
// its own, in which nobody but us can put anything that its script might take for the server's, and have its functions run with the
// rights of who calls them: they are ours.
var vetted = []string{"postgis"}

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

// asUs runs statements as our superuser, in one transaction.
func (e extensions) asUs(ctx context.Context, statements ...string) error {
	_, err := inside{e.n}.run(ctx, e.database, statements...)
	return err
}

// run runs a statement and returns its rows.
func (e extensions) run(ctx context.Context, statement string) ([][]string, error) {
	config, err := verified(e.n)
	if err != nil {
		return nil, err
	}
	conn, err := connect(ctx, login{
		host: door(e.n).Addr().String(), port: door(e.n).Port(), user: customerRole, password: e.n.RootPassword, database: e.database, tls: config,
		parameters: map[string]string{"search_path": "pg_catalog", "application_name": "steward extensions", "statement_timeout": "20s", "lock_timeout": "10s", "client_encoding": "UTF8", "client_min_messages": "error"},
	})
	if err != nil {
		return nil, err
	}
	defer closeSoon(ctx, conn)
	return query(ctx, conn, statement)
}

// told is an error as a customer is told it: what the server refuses dbadmin is for its owner to put right.
func (e extensions) told(what string, err error) error {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok, errors.Is(err, engine.ErrStarting), errors.Is(err, engine.ErrAuthentication):
		return fmt.Errorf("%s: %w", what, err)
	case refused.Code == codeNoDatabase:
		return logical.NoDatabase("database", e.database)
	case refused.Code == codeReadOnly:
		return toldOf(what, err)
	}
	return fault.NewPrecondition("The database refuses: %s", said(err))
}

// available are the extensions that the server has files of. One is offered when the server trusts it, so that it can be made
// without a superuser's rights, or when it is vetted.
var available = `SELECT e.name, e.default_version, coalesce(e.installed_version, ''), coalesce(n.nspname, ''), coalesce(e.comment, ''),
	coalesce((SELECT v.trusted OR NOT v.superuser FROM pg_available_extension_versions v WHERE v.name = e.name AND v.version = e.default_version), false)
		OR e.name IN ('` + strings.Join(vetted, "', '") + `')
	FROM pg_available_extensions e LEFT JOIN pg_extension x ON x.extname = e.name LEFT JOIN pg_namespace n ON n.oid = x.extnamespace ORDER BY 1`

// Extensions implements engine.Extensions.
func (e extensions) Extensions(ctx context.Context) ([]logical.Extension, error) {
	rows, err := e.run(ctx, available)
	if err != nil {
		return nil, e.told("list extensions", err)
	}
	var all []logical.Extension
	for _, r := range rows {
		x := logical.Extension{Name: r[0], Version: r[1], Installed: r[2], Schema: r[3], Comment: r[4], Offered: r[5] == "t"}
		if x.Offered || x.Installed != "" {
			all = append(all, x)
		}
	}
	return all, nil
}

// find is an extension that is offered, or in the database.
func (e extensions) find(ctx context.Context, named string) (logical.Extension, error) {
	all, err := e.Extensions(ctx)
	if err != nil {
		return logical.Extension{}, err
	}
	i := slices.IndexFunc(all, func(x logical.Extension) bool { return x.Name == named })
	if i < 0 {
		return logical.Extension{}, fault.NewNotFound()
	}
	return all[i], nil
}

// CreateExtension implements engine.Extensions.
func (e extensions) CreateExtension(ctx context.Context, named, schema string) error {
	x, err := e.find(ctx, named)
	switch {
	case fault.IsKind(err, fault.NotFound), err == nil && !x.Offered:
		return fault.NewInvalid("name", "The server doesn't offer %s; GET lists what it does", fault.Quote([]string{named}))
	case err != nil:
		return err
	case x.Installed != "":
		return fault.NewInvalid("name", "The extension is in the database already")
	}
	if slices.Contains(vetted, named) {
		return e.createVetted(ctx, named, cmp.Or(schema, named))
	}
	schema = cmp.Or(schema, "public")
	_, err = e.run(ctx, "CREATE EXTENSION "+quoteName(named)+" SCHEMA "+quoteName(schema)+" CASCADE")
	switch codeOf(err) {
	case "":
		if err != nil {
			return e.told("create the extension", err)
		}
		return nil
	case codeDuplicateObject:
		return fault.NewInvalid("name", "The extension is in the database already")
	case "3F000":
		return fault.NewInvalid("schema", "There is no schema %s", fault.Quote([]string{schema}))
	}
	return e.told("create the extension", err)
}

// createVetted makes an extension and a schema for it.
func (e extensions) createVetted(ctx context.Context, named, schema string) error {
	err := e.asUs(ctx, "CREATE SCHEMA "+quoteName(schema), "CREATE EXTENSION "+quoteName(named)+" SCHEMA "+quoteName(schema), fmt.Sprintf(asInvoker, literal(named)),
		"GRANT USAGE ON SCHEMA "+quoteName(schema)+" TO PUBLIC")
	switch codeOf(err) {
	case "42P06":
		return fault.NewInvalid("schema", "The schema %s is there already, and %s needs one of its own: choose another", fault.Quote([]string{schema}), named)
	case "42939":
		return fault.NewInvalid("schema", "The server refuses: %s", said(err))
	case codeDuplicateObject:
		return fault.NewInvalid("name", "The extension is in the database already")
	}
	if err != nil {
		return e.told("create the extension", err)
	}
	return nil
}

// change runs a statement about an extension that is there: its owner is who made it.
func (e extensions) change(ctx context.Context, x logical.Extension, statements ...string) error {
	if slices.Contains(vetted, x.Name) {
		return e.asUs(ctx, statements...)
	}
	_, err := e.run(ctx, strings.Join(statements, ";\n"))
	return err
}

// UpdateExtension implements engine.Extensions.
func (e extensions) UpdateExtension(ctx context.Context, named, version string) error {
	x, err := e.find(ctx, named)
	if err != nil {
		return err
	}
	if x.Installed == "" {
		return fault.NewNotFound()
	}
	statement := "ALTER EXTENSION " + quoteName(named) + " UPDATE"
	if version != "" {
		statement += " TO " + quoteText(version)
	}
	statements := []string{statement}
	if slices.Contains(vetted, named) {
		statements = append(statements, fmt.Sprintf(asInvoker, literal(named)))
	}
	if err := e.change(ctx, x, statements...); codeOf(err) == "22023" {
		return fault.NewInvalid("version", "The server refuses: %s", said(err))
	} else if err != nil {
		return e.told("update the extension", err)
	}
	return nil
}

// DropExtension implements engine.Extensions.
func (e extensions) DropExtension(ctx context.Context, named string, cascade bool) error {
	x, err := e.find(ctx, named)
	if err != nil {
		return err
	}
	if x.Installed == "" {
		return fault.NewNotFound()
	}
	statements := []string{"DROP EXTENSION " + quoteName(named)}
	if cascade {
		statements[0] += " CASCADE"
	}
	if slices.Contains(vetted, named) { // its schema goes with it, in which there is nothing else
		statements = append(statements, "DROP SCHEMA "+quoteName(x.Schema))
	}
	if err := e.change(ctx, x, statements...); codeOf(err) == codeDependent {
		return fault.NewPrecondition("Other objects of the database depend on the extension; drop them first, or say cascade=true to have them dropped, too")
	} else if err != nil {
		return e.told("drop the extension", err)
	}
	return nil
}
