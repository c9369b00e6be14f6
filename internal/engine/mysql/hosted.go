package mysql

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"

	"steward/internal/engine"
)

var _ engine.Placed = (*Driver)(nil)

// superuser is who an operator logs in as, and we until a server is ours.
const superuser = "root"

// remotely has a session go by TCP, with the server's certificate verified.
func remotely(cfg *mysql.Config, n engine.Node) error {
	config, err := verified(n)
	if err != nil {
		return err
	}
	cfg.Net, cfg.Addr, cfg.TLS = "tcp", n.Remote.Address.String(), config
	return nil
}

// sharing is a session that questions share.
type sharing struct{ *session }

// Close implements engine.Session.
func (s *sharing) Close() {
	s.shared = false
	s.close()
}

// Share implements engine.Hosted.
func (d *Driver) Share(ctx context.Context, n engine.Node) (engine.Node, error) {
	s, err := d.adminWith(ctx, n, n.AdminPassword)
	if err != nil {
		return n, err
	}
	s.shared = true
	remote := *n.Remote
	remote.Session, n.Remote = &sharing{s}, &remote
	return n, nil
}

// KeepSessions implements engine.Hosted.
func (d *Driver) KeepSessions(ctx context.Context, n engine.Node, from []netip.Prefix) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return fmt.Errorf("end sessions from elsewhere: %w", err)
	}
	defer s.close()
	rows, err := s.rows(ctx, "SELECT ID, HOST FROM information_schema.PROCESSLIST WHERE HOST LIKE '%:%' AND ID IN ("+s.customers+")")
	if err != nil {
		return fmt.Errorf("end sessions from elsewhere: %w", err)
	}
	for _, r := range rows {
		if let(r[1], from) {
			continue
		}
		if err := s.exec(ctx, "KILL "+r[0]); err != nil && !is(err, errNoSuchThread) {
			return fmt.Errorf("end sessions from elsewhere: %w", err)
		}
	}
	return nil
}

// let reports whether a session's host, an address and a port, is in one of the networks.
func let(host string, from []netip.Prefix) bool {
	at, err := netip.ParseAddr(host[:max(0, strings.LastIndexByte(host, ':'))])
	return err == nil && slices.ContainsFunc(from, func(p netip.Prefix) bool { return p.Contains(at.Unmap()) })
}

// UsedBytes implements engine.Hosted: tables of InnoDB, which are all that are large, and both logs.
func (d *Driver) UsedBytes(ctx context.Context, n engine.Node) (int64, error) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return 0, fmt.Errorf("ask for the data's size: %w", err)
	}
	defer s.close()
	rows, err := s.rows(ctx, "SELECT (SELECT COALESCE(SUM(ALLOCATED_SIZE), 0) FROM information_schema.INNODB_SYS_TABLESPACES) + @@GLOBAL.innodb_log_file_size, @@GLOBAL.log_bin")
	if err != nil {
		return 0, fmt.Errorf("ask for the data's size: %w", err)
	}
	used, err := strconv.ParseInt(rows[0][0], 10, 64)
	if err != nil || rows[0][1] != "1" {
		return used, err
	}
	logs, err := s.rows(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return 0, fmt.Errorf("ask for the logs' size: %w", err)
	}
	for _, l := range logs {
		size, err := strconv.ParseInt(l[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("ask for the logs' size: %w", err)
		}
		used += size
	}
	return used, nil
}

// decided are settings that are whoever's to decide who starts the server: where files are, how they were made, and who it is among its like. Logs that nobody
// would hold in bounds aren't written.
var decided = []string{
	"datadir", "tmpdir", "socket", "pid_file", "server_id", "bind_address", "port", "ssl_ca", "ssl_cert", "ssl_key", "skip_name_resolve",
	"basedir", "lc_messages_dir", "character_sets_dir", "plugin_dir", "secure_file_priv", "slow_query_log_file", "log_bin", "innodb_data_file_path",
	"innodb_undo_tablespaces", "skip_slave_start", "relay_log", "init_rpl_role",
	"rpl_semi_sync_master_enabled", "rpl_semi_sync_slave_enabled", "rpl_semi_sync_master_timeout", "rpl_semi_sync_master_wait_point",
}

// elsewhere are the settings that are ours to decide of a server that something else starts.
func elsewhere(all []setting) []setting {
	return slices.DeleteFunc(all, func(s setting) bool { return slices.Contains(decided, s.name) })
}

// Place implements engine.Placed.
func (d *Driver) Place(n engine.Node) (files map[string][]byte, restart string, err error) {
	n.Remote = cmp.Or(n.Remote, &engine.Remote{})
	all, err := d.Files(n)
	if err != nil {
		return nil, "", err
	}
	files = map[string][]byte{}
	for _, f := range all {
		if path.Dir(f.Path) == n.Conf {
			files[path.Base(f.Path)] = f.Content
		}
	}
	settings, _ := settingsOf(n)
	sum := sha256.New()
	for _, s := range settings {
		if s.when != live && s.name != "read_only" && s.name != "max_binlog_cache_size" {
			fmt.Fprintf(sum, "%q=%q\n", s.name, s.text())
		}
	}
	return files, hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// ours is the account that we come with from elsewhere. With it a server is one of ours: it is made last, by one statement.
const ours = "'" + adminUser + "'@'%'"

// errTaken is returned of a server that has our account, with another password than ours.
var errTaken = errors.New("the server has an account of steward's, with another password")

// Admit implements engine.Placed. What it does is logged: replicas that begin with nothing receive it.
func (d *Driver) Admit(ctx context.Context, n engine.Node, password string) error {
	s, err := d.adminWith(ctx, n, password, func(cfg *mysql.Config) { cfg.User = superuser })
	if err != nil {
		return fmt.Errorf("give the server our account: %w", err)
	}
	defer s.close()
	if err := s.admit(ctx, n); err != nil {
		return fmt.Errorf("give the server our account: %w", err)
	}
	return nil
}

func (s *session) admit(ctx context.Context, n engine.Node) error {
	there, err := s.rows(ctx, "SELECT 1 FROM mysql.user WHERE User = '"+adminUser+"' AND Host = '%'")
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return errTaken
	}
	f := flavourOf(n.Installation.Flavour)
	verifier, err := f.verifier(n.AdminPassword)
	if err != nil {
		return err
	}
	root, err := f.verifier(n.RootPassword)
	if err != nil {
		return err
	}
	var reserved strings.Builder
	for name := range operators {
		reserved.WriteString(quote(name) + ", ")
	}
	// What was begun before is begun anew.
	all := []string{"DROP DATABASE IF EXISTS steward", "DROP USER IF EXISTS 'steward'@'localhost', 'dbadmin'@'%'"}
	all = append(all, statementsIn(strings.NewReplacer("{{verifier}}", verifier, "{{reserved}}", reserved.String()).Replace(f.dialect().accounts))...)
	all = append(all, f.dialect().root...)
	all = append(all,
		"ALTER USER '"+rootUser+"'@'%' IDENTIFIED "+root+" ACCOUNT UNLOCK",
		"GRANT ALL PRIVILEGES ON *.* TO "+ours+" IDENTIFIED "+verifier+" REQUIRE SSL WITH GRANT OPTION")
	return s.exec(ctx, all...)
}

// TakeOver implements engine.Placed. Our own password comes last: until then the one before opens the server.
func (d *Driver) TakeOver(ctx context.Context, n engine.Node, password string) error {
	opens := n
	s, err := d.adminWith(ctx, n, n.AdminPassword)
	if errors.Is(err, engine.ErrAuthentication) && n.TemplatePassword != "" {
		opens.AdminPassword = n.TemplatePassword
		s, err = d.adminWith(ctx, n, n.TemplatePassword)
	}
	if err != nil {
		return fmt.Errorf("take the server over: %w", err)
	}
	defer s.close()
	if err := d.SetRootPassword(ctx, opens); err != nil {
		return fmt.Errorf("take the server over: %w", err)
	}
	f := flavourOf(n.Installation.Flavour)
	for _, account := range []struct{ name, password string }{
		{"'" + superuser + "'@'localhost'", password},
		{"'" + superuser + "'@'%'", password},
		{"'" + adminUser + "'@'localhost'", n.AdminPassword},
		{ours, n.AdminPassword},
	} {
		if err := setPassword(ctx, s, f, account.name, account.password, ""); err != nil {
			return fmt.Errorf("take the server over: %w", err)
		}
	}
	return nil
}

// statementsIn splits a script, in which lines may say what ends a statement.
func statementsIn(script string) []string {
	var all []string
	end, one := ";", strings.Builder{}
	for line := range strings.Lines(script) {
		text := strings.TrimSpace(line)
		if delimiter, ok := strings.CutPrefix(text, "DELIMITER "); ok {
			end = delimiter
			continue
		}
		if text == "" || strings.HasPrefix(text, "-- ") {
			continue
		}
		body, complete := strings.CutSuffix(strings.TrimRight(line, "\n "), end)
		one.WriteString(body + "\n")
		if complete {
			all = append(all, one.String())
			one.Reset()
		}
	}
	return all
}
