package postgresql

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"steward/internal/engine"
	"steward/internal/scram"
)

//go:embed sql/*.sql
var statements embed.FS

// walSegmentMB keeps clones small, yet doesn't cost a busy server much.
const walSegmentMB = "4"

// Template runs initdb, then the guards in single-user mode, so that no server
// ever listens with half of them in place.
func (Driver) Template(ctx context.Context, inst engine.Installation, dir, templatePassword string, run engine.Runner) error {
	major, err := majorOf(inst)
	if err != nil {
		return err
	}
	if err := initialise(ctx, inst, major, dir, run); err != nil {
		return err
	}
	steps, err := templateSteps(major, templatePassword)
	if err != nil {
		return err
	}
	for _, s := range steps {
		if err := single(ctx, inst, dir, s.database, s.sql, run); err != nil {
			return err
		}
	}
	// The node's own files take their place; these would let nobody in anyway.
	for _, name := range []string{serverConf, accessConf, identConf} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove initdb's configuration: %w", err)
		}
	}
	return nil
}

// initialise runs initdb. Text sorts by bytes, which no library update can
// change under an index, and characters are classed as in C.UTF-8.
func initialise(ctx context.Context, inst engine.Installation, major int, dir string, run engine.Runner) error {
	args := []string{
		"-D", dir, "-U", adminRole, "-A", "reject", "-E", "UTF8", "-N", "-k",
		"--wal-segsize=" + walSegmentMB, "--locale=C", "--lc-ctype=C.UTF-8", "-T", "simple",
	}
	if major >= 14 {
		args = append(args, "--no-instructions")
	}
	if major >= 17 {
		args = append(args, "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
	}
	out, err := run(ctx, dir, engine.Process{Argv: inst.Program("initdb", args...), Env: environment()}, nil)
	if err != nil {
		return fmt.Errorf("initdb of %s: %w: %s", inst.ID(), err, tail(out))
	}
	return nil
}

type step struct {
	database string
	sql      string
}

func templateSteps(major int, templatePassword string) ([]step, error) {
	secret, err := scram.Verifier(templatePassword, scram.OwnRounds)
	if err != nil {
		return nil, fmt.Errorf("template password: %w", err)
	}
	guards, err := guardsOf(major)
	if err != nil {
		return nil, err
	}
	// dbadmin has no password yet, so nobody can log in as it.
	first := fmt.Sprintf("ALTER ROLE %s PASSWORD '%s';\n\n%s;\n\nCREATE ROLE %s LOGIN %s;\n\n", adminRole, secret, strings.Join(pinning(), ";\n\n"), customerRole, rightsOf(major)) + guards
	second := strings.Join(createFirstDatabase(major), ";\n\n") + ";\n\n"
	return []step{{"template1", first}, {adminDatabase, second}}, nil
}

// rightsOf are those of dbadmin. Before 16 whoever may make users may become any.
func rightsOf(major int) string {
	if major < 16 {
		return "CREATEDB"
	}
	return "CREATEDB CREATEROLE"
}

// guardsOf is what is run in the database that others are made of, with an empty line after each statement.
func guardsOf(major int) (string, error) {
	files := []string{"guards"}
	if major < 16 {
		files = append(files, "procedures")
	}
	switch major {
	case 13:
		files = append(files, "public-13")
	case 14:
		files = append(files, "public-14")
	}
	var all strings.Builder
	for _, name := range files {
		content, err := statements.ReadFile("sql/" + name + ".sql")
		if err != nil {
			return "", fmt.Errorf("guards: %w", err)
		}
		all.WriteString(string(content) + "\n\n")
	}
	return all.String(), nil
}

// createFirstDatabase are the statements that make defaultdb. Before 16 users are
// let into it by steward.grant_database.
func createFirstDatabase(major int) []string {
	statements := []string{fmt.Sprintf("CREATE DATABASE %s OWNER %s", firstDatabase, customerRole)}
	if major < 16 {
		statements = append(statements, fmt.Sprintf("REVOKE ALL ON DATABASE %s FROM PUBLIC", firstDatabase))
	}
	return statements
}

// single runs SQL without a server. Statements end with ";" and an empty line.
func single(ctx context.Context, inst engine.Installation, dir, database, sql string, run engine.Runner) error {
	argv := inst.Program("postgres", "--single", "-j", "-D", dir,
		"-c", "exit_on_error=on", "-c", "search_path=pg_catalog", "-c", "fsync=off",
		"-c", "log_min_error_statement=panic", "-c", "log_error_verbosity=terse", database)
	out, err := run(ctx, dir, engine.Process{Argv: argv, Env: environment()}, []byte(sql))
	if err != nil {
		return fmt.Errorf("set up the template of %s: %w: %s", inst.ID(), err, tail(out))
	}
	return nil
}

// tail is the end of a program's output, on one line.
func tail(out []byte) string {
	const most = 800
	text := strings.Join(strings.Fields(string(out)), " ")
	return text[max(0, len(text)-most):]
}
