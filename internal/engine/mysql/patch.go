package mysql

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"steward/internal/engine"
)

// AfterPatch implements engine.Driver. MySQL upgrades itself when it starts.
// For MariaDB it does in SQL what mariadb-upgrade does between versions of one
// series: that program starts others by paths that a relocated build hasn't.
func (d *Driver) AfterPatch(ctx context.Context, n engine.Node) error {
	scripts := flavourOf(n.Installation.Flavour).dialect().upgrade
	if len(scripts) == 0 {
		return nil
	}
	s, err := d.adminWith(ctx, n, n.AdminPassword, func(cfg *mysql.Config) { cfg.MultiStatements = true })
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.upgrade(ctx, n.Installation, scripts); err != nil {
		return fmt.Errorf("upgrade system tables to %s: %w", n.Installation.Version, err)
	}
	return nil
}

// upgrade is done when steward.installed holds the server's version.
func (s *session) upgrade(ctx context.Context, inst engine.Installation, scripts []string) error {
	done, err := s.text(ctx, "SELECT count(*) FROM steward.installed WHERE version = VERSION()")
	if err != nil || done != "0" {
		return err
	}
	if err := s.unlogged(ctx); err != nil {
		return err
	}
	text, err := readScripts(inst, scripts)
	if err != nil {
		return err
	}
	if err := s.exec(ctx, "USE mysql"); err != nil {
		return err
	}
	if err := s.exec(ctx, splitScript(text)...); err != nil {
		return err
	}
	if err := s.checkTables(ctx); err != nil {
		return err
	}
	return s.exec(ctx, "UPDATE steward.installed SET version = VERSION()")
}

// checkTables rebuilds the tables whose files the new version asks to be
// rebuilt; the check itself reads only what their definition says.
func (s *session) checkTables(ctx context.Context) error {
	return s.checkEach(ctx, func(table string, findings [][]string) error {
		for _, f := range findings {
			if strings.Contains(f[3], "upgrade required") || strings.Contains(f[3], "rebuild") {
				return s.exec(ctx, "ALTER TABLE "+table+" FORCE")
			}
		}
		return nil
	})
}

// brokenTables are those that the server can't use, a sentence each, for customers.
func (s *session) brokenTables(ctx context.Context) (found []string, err error) {
	err = s.checkEach(ctx, func(table string, findings [][]string) error {
		for _, f := range findings {
			if !strings.EqualFold(f[2], "error") || strings.Contains(f[3], "Lock wait timeout") || strings.Contains(f[3], "Table '"+f[0]+"' doesn't exist") {
				continue
			}
			found = append(found, fmt.Sprintf("The server can't use the table %s: %s. Drop it, or mend it.", table, strings.TrimSuffix(f[3], ".")))
			return nil
		}
		return nil
	})
	return found, err
}

// checkEach calls a function with what a check of each table finds that reads only what its definition says: rows of
// table, operation, kind and text.
func (s *session) checkEach(ctx context.Context, found func(table string, findings [][]string) error) error {
	tables, err := s.rows(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES "+
		"WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema')")
	if err != nil {
		return err
	}
	for _, t := range tables {
		name := identifier(t[0]) + "." + identifier(t[1])
		findings, err := s.rows(ctx, "CHECK TABLE "+name+" FOR UPGRADE")
		if err == nil {
			err = found(name, findings)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// identifier quotes a name that a customer may have chosen.
func identifier(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// splitScript cuts a script into statements the way the server's bootstrap
// does: one ends with a line that ends with the delimiter.
func splitScript(script []byte) []string {
	var all []string
	var statement strings.Builder
	delimiter := ";"
	lines := bufio.NewScanner(bytes.NewReader(script))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), " \t\r")
		if statement.Len() == 0 && (line == "" || strings.HasPrefix(line, "--") || strings.HasPrefix(line, "#")) {
			continue
		}
		if words := strings.Fields(line); statement.Len() == 0 && len(words) == 2 && strings.EqualFold(words[0], "delimiter") {
			delimiter = words[1]
			continue
		}
		body, end := strings.CutSuffix(line, delimiter)
		statement.WriteString(body + "\n")
		if end {
			all = append(all, strings.TrimSpace(statement.String()))
			statement.Reset()
		}
	}
	return all
}
