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

// available are the extensions that the server has files of, and whether it trusts each, so that it can be made without a superuser's rights.
const available = `SELECT e.name, e.default_version, coalesce(e.installed_version, ''), coalesce(n.nspname, ''), coalesce(e.comment, ''),
	coalesce((SELECT v.trusted OR NOT v.superuser FROM pg_available_extension_versions v WHERE v.name = e.name AND v.version = e.default_version), false)
	FROM pg_available_extensions e LEFT JOIN pg_extension x ON x.extname = e.name LEFT JOIN pg_namespace n ON n.oid = x.extnamespace ORDER BY 1`

// Extensions implements engine.Extensions.
func (e extensions) Extensions(ctx context.Context) ([]logical.Extension, error) {
	rows, err := e.run(ctx, available)
	if err != nil {
		return nil, e.told("list extensions", err)
	}
	libraries, err := askOne(ctx, e.n, "SELECT current_setting('shared_preload_libraries')") // which dbadmin may not
	if err != nil {
		return nil, fmt.Errorf("look at what is loaded: %w", err)
	}
	loaded := strings.Split(libraries[0], ",")
	var all []logical.Extension
	for _, r := range rows {
		x := logical.Extension{Name: r[0], Version: r[1], Installed: r[2], Schema: r[3], Comment: r[4], Missing: missing(r[0], r[5] == "t", loaded)}
		if x.Offered = x.Missing == ""; x.Offered || x.Installed != "" || x.Missing != needsSuperuser {
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
	case fault.IsKind(err, fault.NotFound):
		return fault.NewInvalid("name", "The server doesn't offer %s; GET lists what it does", fault.Quote([]string{named}))
	case err != nil:
		return err
	case x.Installed == "" && x.Missing != "":
		return fault.NewInvalid("name", "%s", x.Missing)
	case x.Installed != "":
		return fault.NewInvalid("name", "The extension is in the database already")
	}
	if v, ok := vetted[named]; ok {
		return e.createVetted(ctx, named, v, schema)
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

// change runs a statement about an extension that is there: its owner is who made it.
func (e extensions) change(ctx context.Context, x logical.Extension, statements ...string) error {
	if _, ok := vetted[x.Name]; ok {
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
	if v, ok := vetted[named]; ok && v.theirs {
		return fault.NewPrecondition("What is in %s is its owner's, who may have changed it: drop it and create it again", named)
	} else if ok {
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
	if v, ok := vetted[named]; ok {
		statements = append(statements, v.dropSchema(x.Schema)...)
	}
	if err := e.change(ctx, x, statements...); codeOf(err) == codeDependent {
		return fault.NewPrecondition("Other objects of the database depend on the extension; drop them first, or say cascade=true to have them dropped, too")
	} else if err != nil {
		return e.told("drop the extension", err)
	}
	return nil
}
