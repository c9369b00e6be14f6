package postgresql

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"steward/internal/fault"
	"steward/internal/logical"
)

const (
	// firstICU is the version since which a database can have a collation of ICU's, firstBuiltin since which it can have
	// one of the server's own.
	firstICU     = 15
	firstBuiltin = 17
	// lastEncoding is the number of the last encoding that a server can have, as opposed to clients: KOI8U.
	lastEncoding = 34
)

// shownCollation is SQL for a database's collation, as a request names it.
func (s inside) shownCollation() (string, error) {
	major, err := majorOf(s.n.Installation)
	switch {
	case err != nil:
		return "", err
	case major < firstICU:
		return "d.datcollate", nil
	case major < firstBuiltin:
		return "CASE d.datlocprovider WHEN 'i' THEN d.daticulocale || '-x-icu' ELSE d.datcollate END", nil
	}
	return "CASE d.datlocprovider WHEN 'i' THEN d.datlocale || '-x-icu' WHEN 'b' THEN d.datlocale ELSE d.datcollate END", nil
}

// CreateDatabase implements engine.Logical.
func (s inside) CreateDatabase(ctx context.Context, d logical.Database) error {
	if d.Owner == "" {
		d.Owner = customerRole
	}
	options, err := s.checkedDatabase(ctx, d)
	if err != nil {
		return err
	}
	create := "CREATE DATABASE " + quoteName(d.Name) + " OWNER " + quoteName(d.Owner) + options
	switch _, err = s.run(ctx, "", create); codeOf(err) {
	case "":
	case codeDuplicateDatabase, codeUnique:
		return logical.Taken("name")
	case "22023", codeNoObject: // the server knows the encoding and the collation, and that they don't go together
		return fault.NewInvalid("collation", "The server refuses: %s", said(err))
	default:
		return toldOf("create the database", err)
	}
	if err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	// Everybody may connect to a new database. Whoever is granted something in it may, without that.
	if _, err := s.run(ctx, "", "REVOKE ALL ON DATABASE "+quoteName(d.Name)+" FROM PUBLIC"); err != nil {
		return toldOf("close the new database", err)
	}
	if options == "" {
		return nil
	}
	return s.guardDatabase(ctx, d.Name)
}

// guardDatabase makes in a database that was copied from the server's own template what ours has.
func (s inside) guardDatabase(ctx context.Context, database string) error {
	major, err := majorOf(s.n.Installation)
	if err != nil {
		return err
	}
	var files []string
	if major < 16 {
		files = append(files, "procedures")
	}
	if major < 15 {
		files = append(files, "public-"+strconv.Itoa(major))
	}
	for _, f := range files {
		content, err := guardFile(f)
		if err != nil {
			return err
		}
		if _, err := s.run(ctx, database, content); err != nil {
			return toldOf("set up the new database", err)
		}
	}
	return nil
}

// guardFile is the SQL of one of the files that templates are made with.
func guardFile(file string) (string, error) {
	content, err := statements.ReadFile("sql/" + file + ".sql")
	if err != nil {
		return "", fmt.Errorf("set up the new database: %w", err)
	}
	return string(content), nil
}

// checkedDatabase are the options of CREATE DATABASE beyond the owner, or all that the server would have against it.
func (s inside) checkedDatabase(ctx context.Context, d logical.Database) (string, error) {
	rows, err := s.run(ctx, "", fmt.Sprintf(`SELECT EXISTS (SELECT FROM pg_database WHERE datname = %s),
		EXISTS (SELECT FROM pg_roles r WHERE r.rolname = %s AND (r.rolname = '%s' OR %s)), pg_char_to_encoding(%s) BETWEEN 0 AND %d`,
		quoteText(d.Name), quoteText(d.Owner), customerRole, customersUsers, quoteText(d.Encoding), lastEncoding))
	if err != nil {
		return "", fmt.Errorf("look what the server has: %w", err)
	}
	var faults fault.Faults
	if rows[0][0] == "t" {
		faults = append(faults, logical.Taken("name"))
	}
	if rows[0][1] != "t" {
		faults.Add("owner", "There is no user %s", fault.Quote([]string{d.Owner}))
	}
	if d.Encoding != "" && rows[0][2] != "t" {
		faults.Add("encoding", "The server has no encoding %s", fault.Quote([]string{d.Encoding}))
	}
	options, bad, err := s.locale(ctx, d)
	if err != nil {
		return "", err
	}
	faults = append(faults, bad...)
	return options, faults.Err()
}

// locale are the options that a database with an encoding or a collation of its own is made with.
func (s inside) locale(ctx context.Context, d logical.Database) (options string, faults fault.Faults, err error) {
	major, err := majorOf(s.n.Installation)
	if err != nil {
		return "", nil, err
	}
	utf8 := d.Encoding == "" || strings.EqualFold(strings.ReplaceAll(d.Encoding, "-", ""), "utf8")
	if utf8 && d.Collation == "" {
		return "", nil, nil
	}
	encoding, classes := "UTF8", "C.UTF-8"
	if !utf8 {
		encoding, classes = d.Encoding, "C"
	}
	libc := ""
	if major >= firstICU {
		libc = " LOCALE_PROVIDER libc"
	}
	of := func(provider, collate, classes string) string {
		return " TEMPLATE template0 ENCODING " + quoteText(encoding) + provider + " LC_COLLATE " + quoteText(collate) + " LC_CTYPE " + quoteText(classes)
	}
	if d.Collation == "" || d.Collation == "C" {
		return of(libc, "C", classes), nil, nil
	}
	found, err := s.collation(ctx, major, d.Collation)
	switch {
	case err != nil:
		return "", nil, err
	case found == nil:
		faults.Add("collation", "The server has no collation %s", fault.Quote([]string{d.Collation}))
	case found.provider == "c":
		options = of(libc, found.collate, found.classes)
	case found.provider == "i" && major < firstICU:
		faults.Add("collation", "PostgreSQL %d can't sort a whole database by ICU; %d and later can", major, firstICU)
	case found.provider == "i":
		options = of(" LOCALE_PROVIDER icu ICU_LOCALE "+quoteText(found.locale), "C", classes)
	case found.provider == "b":
		options = of(" LOCALE_PROVIDER builtin BUILTIN_LOCALE "+quoteText(found.locale), "C", classes)
	}
	return options, faults, nil
}

// collation is one that the server has.
type collation struct{ provider, collate, classes, locale string }

func (s inside) collation(ctx context.Context, major int, named string) (*collation, error) {
	locale := "collcollate"
	switch {
	case major >= firstBuiltin:
		locale = "colllocale"
	case major >= firstICU:
		locale = "colliculocale"
	}
	rows, err := s.run(ctx, "", fmt.Sprintf(`SELECT collprovider, coalesce(collcollate, ''), coalesce(collctype, ''), coalesce(%[1]s, '') FROM pg_collation
		WHERE collnamespace = 'pg_catalog'::regnamespace AND collprovider IN ('c', 'i', 'b') AND (collname = %[2]s OR collprovider = 'b' AND %[1]s = %[2]s)
		ORDER BY collprovider LIMIT 1`, locale, quoteText(named)))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &collation{rows[0][0], rows[0][1], rows[0][2], rows[0][3]}, nil
}
