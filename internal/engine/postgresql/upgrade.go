package postgresql

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"steward/internal/engine"
)

// upgradePrograms are those that pg_upgrade starts, of the series that the data is moved from and to.
var (
	upgradeFrom = []string{"postgres", "pg_controldata", "pg_ctl", "pg_resetwal"}
	upgradeTo   = append([]string{"pg_upgrade", "initdb", "pg_dump", "pg_dumpall", "pg_restore", "psql", "vacuumdb"}, upgradeFrom...)
)

// UpgradeMissing implements engine.MajorUpgrader.
func (Driver) UpgradeMissing(from, to engine.Installation) string {
	for inst, programs := range map[*engine.Installation][]string{&from: upgradeFrom, &to: upgradeTo} {
		for _, name := range programs {
			if _, err := os.Stat(filepath.Join(programsOf(*inst), name)); err != nil {
				return fmt.Sprintf("The build of PostgreSQL %s on this server lacks the programs that move data between series.", inst.Series)
			}
		}
	}
	return ""
}

// programsOf is the folder with an installation's programs.
func programsOf(inst engine.Installation) string { return filepath.Dir(inst.Bin["postgres"]) }

// TracksChanges implements engine.MajorUpgrader: tables and indexes are written to by system calls.
func (Driver) TracksChanges(name string) bool { return strings.HasPrefix(name, "base/") }

// PrepareUpgrade implements engine.MajorUpgrader: an empty cluster with the same page checksums, the same size of WAL files
// and the same superuser. The databases, with their locales, come with the data.
func (Driver) PrepareUpgrade(ctx context.Context, to engine.Installation, dir string, run engine.Runner) error {
	major, err := majorOf(to)
	if err != nil {
		return err
	}
	if err := initialise(ctx, to, major, dir, run); err != nil {
		return err
	}
	return remove(dir, serverConf, accessConf, identConf)
}

// Upgrade implements engine.MajorUpgrader. pg_upgrade moves what the catalog says by a dump of it, and links the files of
// tables and indexes.
func (Driver) Upgrade(ctx context.Context, u engine.Upgrade, run engine.Runner) error {
	for dir, n := range map[string]engine.Node{u.Old: u.Before, u.New: u.After} {
		if err := engine.WriteFiles(dir, upgradeFiles(n)); err != nil {
			return fmt.Errorf("upgrade: %w", err)
		}
	}
	if err := remove(u.Old, "postmaster.pid", "postmaster.opts"); err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	if _, err := readPristine(u.Old); err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	argv := []string{
		filepath.Join(programsOf(u.To), "pg_upgrade"), "-b", programsOf(u.From), "-B", programsOf(u.To), "-d", u.Old, "-D", u.New,
		"-s", u.Run, "-U", adminRole, "--link", "--no-sync",
	}
	// What a customer gave a database, such as a role or a limit of time, holds in sessions of these programs, too.
	env := append(environment(), "PGOPTIONS=-c role=none -c default_transaction_read_only=off -c statement_timeout=0 -c lock_timeout=0 "+
		"-c idle_in_transaction_session_timeout=0 -c local_preload_libraries= -c row_security=on")
	out, err := run(ctx, u.Work, engine.Process{Argv: argv, Env: env}, nil)
	if err != nil {
		return fmt.Errorf("pg_upgrade from %s to %s: %w: %s%s", u.From.ID(), u.To.ID(), err, tail(out), upgradeWords(u.New))
	}
	if err := os.RemoveAll(filepath.Join(u.New, upgradeOutput)); err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	return remove(u.New, serverConf, accessConf, "postmaster.opts")
}

// upgradeFiles let our own account in by a socket that nobody else can reach, without a password: the new cluster doesn't have the
// old one's yet. What nobody loads in the old one, pg_upgrade mustn't miss in the new one.
func upgradeFiles(n engine.Node) map[string][]byte {
	var content strings.Builder
	content.WriteString("# Written by steward for an upgrade.\nautovacuum = off\ndynamic_shared_memory_type = mmap\nlc_messages = 'C'\njit = off\nsearch_path = 'pg_catalog'\n")
	if n.Installation.Loads(statementsLibrary) { // no workers of others' connect meanwhile
		content.WriteString("shared_preload_libraries = '" + statementsLibrary + "'\n")
	}
	return map[string][]byte{
		serverConf: []byte(content.String()),
		accessConf: []byte("local all " + adminRole + " trust\nlocal all all reject\nhost all all all reject\n"),
	}
}

// upgradeOutput is where pg_upgrade keeps its logs.
const upgradeOutput = "pg_upgrade_output.d"

// upgradeWords are the errors among what pg_upgrade and its programs wrote, for operators.
func upgradeWords(dir string) string {
	var words []string
	walk := func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) == ".custom" || filepath.Ext(path) == ".sql" {
			return err
		}
		content, err := os.ReadFile(path)
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, "ERROR:") || strings.Contains(line, "FATAL:") || strings.Contains(line, ": error:") {
				words = append(words, tail([]byte(line)))
			}
		}
		return err
	}
	if err := filepath.WalkDir(filepath.Join(dir, upgradeOutput), walk); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if len(words) == 0 {
		return ""
	}
	const most = 5
	return "; " + strings.Join(words[:min(most, len(words))], "; ")
}

// Obstacles implements engine.MajorUpgrader.
func (d Driver) Obstacles(ctx context.Context, n engine.Node, to engine.Installation) ([]string, error) {
	rows, err := ask(ctx, n, "SELECT datname, datallowconn, datconnlimit = -2 FROM pg_database WHERE datname <> 'template0' ORDER BY 1")
	if err != nil {
		return nil, fmt.Errorf("list databases: %w", err)
	}
	offered, err := controlFiles(to)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, row := range rows {
		switch name := row[0]; {
		case row[2] == "t":
			found = append(found, fmt.Sprintf("The database %q was being dropped when the server ended: drop it.", name))
		case row[1] != "t":
			found = append(found, fmt.Sprintf("The database %q lets nobody connect: ALTER DATABASE … ALLOW_CONNECTIONS true, or drop it.", name))
		default:
			more, err := obstaclesIn(ctx, n, name, offered, to)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
	}
	return found, nil
}

// obstacleTypes are of columns whose values pg_upgrade can't move: they name what gets another number.
const obstacleTypes = "'regcollation', 'regconfig', 'regdictionary', 'regnamespace', 'regoper', 'regoperator', 'regproc', 'regprocedure'"

// obstaclesIn are those in a database.
func obstaclesIn(ctx context.Context, n engine.Node, database string, offered map[string]string, to engine.Installation) ([]string, error) {
	parameters := ownParameters()
	conn, err := asAdminIn(ctx, n, database, parameters)
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", database, err)
	}
	defer closeSoon(ctx, conn)
	var found []string
	rows, err := query(ctx, conn, "SELECT extname FROM pg_extension ORDER BY 1")
	if err != nil {
		return nil, fmt.Errorf("list extensions: %w", err)
	}
	for _, row := range rows {
		if row[0] == "pg_cron" {
			found = append(found, fmt.Sprintf("The database %q has the extension pg_cron, whose jobs can't be moved to another series: drop it, and create it again afterwards.", database))
		}
		if offered[row[0]] == "" {
			found = append(found, fmt.Sprintf("The database %q has the extension %q, which PostgreSQL %s on this server doesn't have: drop it, or ask the operator to install it.", database, row[0], to.Series))
		}
	}
	types := obstacleTypes
	if major, err := majorOf(n.Installation); err == nil && major < 16 {
		types += ", 'aclitem'"
	}
	rows, err = query(ctx, conn, fmt.Sprintf(`SELECT format('%%I.%%I', s.nspname, c.relname), a.attname, t.typname
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace s ON s.oid = c.relnamespace JOIN pg_type t ON t.oid = a.atttypid
			LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
		WHERE NOT a.attisdropped AND c.relkind IN ('r', 'm', 'i') AND s.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
			AND coalesce(e.typnamespace, t.typnamespace) = 'pg_catalog'::regnamespace AND coalesce(e.typname, t.typname) IN (%s) ORDER BY 1, 2 LIMIT 20`, types))
	if err != nil {
		return nil, fmt.Errorf("look at columns: %w", err)
	}
	for _, row := range rows {
		found = append(found, fmt.Sprintf("The column %q of %s in the database %q is a %s, which can't be moved to another series: change its type to text, or drop it.", row[1], row[0], database, row[2]))
	}
	return found, nil
}

// controlFiles are those of the extensions that an installation has, by name.
func controlFiles(inst engine.Installation) (map[string]string, error) {
	var all []string
	for _, share := range sharesOf(inst) {
		found, err := filepath.Glob(filepath.Join(share, "extension", "*.control"))
		if err != nil {
			return nil, fmt.Errorf("look for extensions of %s: %w", inst.ID(), err)
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no extension of %s was found", inst.ID())
	}
	byName := map[string]string{}
	for _, path := range all {
		byName[strings.TrimSuffix(filepath.Base(path), ".control")] = path
	}
	return byName, nil
}

// sharesOf are the folders where an installation's extensions may lie.
func sharesOf(inst engine.Installation) []string {
	prefix := filepath.Dir(programsOf(inst))
	all := []string{inst.Share, filepath.Join(prefix, "share"), filepath.Join(prefix, "share/postgresql"), filepath.Join("/usr/share/postgresql", inst.Series)}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}
