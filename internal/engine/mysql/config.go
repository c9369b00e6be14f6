package mysql

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"steward/internal/engine"
)

// setting is a line of the configuration file.
type setting struct {
	name  string
	value any // bool, int, int64, number or string
	when  when
}

// number is one that no int64 holds.
type number string

// when a change of a setting takes effect.
type when int

const (
	// fixed settings need a restart.
	fixed when = iota
	// live ones can be set in the running server.
	live
	// bounded ones can be set as well, up to what the server provided for when
	// it started; beyond that it needs a restart.
	bounded
	// apart are neither compared nor set by Reload: they never change in a
	// process's life, have no variable, or have a method of their own.
	apart
)

const mb = int64(1) << 20

// text is the value as the server shows it.
func (s setting) text() string {
	switch v := s.value.(type) {
	case bool:
		if v {
			return "ON"
		}
		return "OFF"
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case number:
		return string(v)
	case string:
		return v
	}
	panic(fmt.Sprintf("setting %s: %T", s.name, s.value))
}

// literal is the value in SQL.
func (s setting) literal() string {
	if v, ok := s.value.(string); ok {
		return quote(v)
	}
	return s.text()
}

// quote makes a string literal that every sql_mode reads alike; what we quote
// holds no backslashes.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// Files implements engine.Driver.
func (d *Driver) Files(n engine.Node) ([]engine.File, error) {
	settings, files := settingsOf(n)
	var b strings.Builder
	b.WriteString("# Written by steward. Changes are lost.\n[mysqld]\n")
	for _, s := range settings {
		text := s.text()
		if strings.ContainsAny(text, "\n\r\"\\") {
			return nil, fmt.Errorf("setting %s can't hold %q", s.name, text)
		}
		if _, ok := s.value.(string); ok {
			text = `"` + text + `"`
		}
		fmt.Fprintf(&b, "%s = %s\n", optionOf(s.name), text)
	}
	return append(files,
		engine.File{Path: configFile(n), Content: []byte(b.String())},
		// The folder is what matters: see secure_file_priv.
		engine.File{Path: filepath.Join(exchangeFolder(n), ".steward"), Content: []byte{}},
	), nil
}

// exchangeFolder is the only one that LOAD DATA and SELECT INTO OUTFILE could
// reach, if anybody held the privilege: nothing is in it.
func exchangeFolder(n engine.Node) string { return filepath.Join(n.Conf, "exchange") }

// settingsOf are all settings of a node, and the files these name.
func settingsOf(n engine.Node) ([]setting, []engine.File) {
	f, size := flavourOf(n.Installation.Flavour), tune(n.Plan)
	all := common(n, size)
	all = append(all, locations(n.Installation)...)
	all = append(all, f.settings(n, size)...)
	all = append(all, replicating(n, size)...)
	all = withChosen(all, n)
	counting, files := countingSettings(n)
	all = append(all, counting...)
	if n.Encrypted {
		var more []setting
		var keys []engine.File
		more, keys = f.encryption(n)
		all, files = append(all, more...), append(files, keys...)
	}
	if n.Recovery != nil {
		all = append(recovering(n, all), f.dialect().recovery...)
	}
	if n.Remote != nil {
		all = elsewhere(all)
	}
	return all, files
}

// common are the settings of both flavours.
func common(n engine.Node, size tuning) []setting {
	return []setting{
		{"datadir", n.Data, apart},
		{"tmpdir", n.Tmp, apart},
		{"socket", socketFile(n), apart},
		{"pid_file", filepath.Join(n.Run, "mysql.pid"), apart},
		{"server_id", serverID(n), fixed},
		{"bind_address", n.Listen.Addr().String(), fixed},
		{"port", int(n.Listen.Port()), fixed},
		// Names aren't looked up, so 'steward'@'localhost' is the socket's alone.
		{"skip_name_resolve", true, fixed},

		{"ssl_ca", filepath.Join(n.TLS, engine.TLSCA), fixed},
		{"ssl_cert", filepath.Join(n.TLS, engine.TLSCert), fixed},
		{"ssl_key", filepath.Join(n.TLS, engine.TLSKey), fixed},
		{"tls_version", "TLSv1.2,TLSv1.3", fixed},
		{"require_secure_transport", n.SSLConnection, live},

		{"secure_file_priv", exchangeFolder(n), apart},
		{"local_infile", false, live},
		{"general_log", false, live},
		// The file comes first: the server must not open one of its own choice.
		{"slow_query_log_file", slowFile(n), live},
		{"log_output", "FILE", live},
		{"slow_query_log", false, live},
		// Triggers and functions without SUPER; rows are what is logged, so what
		// they do can't differ on a replica.
		{"log_bin_trust_function_creators", true, live},
		{"event_scheduler", !isReplica(n), live},

		{"character_set_server", "utf8mb4", live},
		{"time_zone", "SYSTEM", live},
		{"max_allowed_packet", 64 * mb, live},
		// All clients come from the gateway's address: one that sends rubbish
		// must not lock the others out.
		{"max_connect_errors", int64(4294967295), live},
		{"max_connections", size.connections + ownConnections, live},
		{"max_user_connections", size.connections, live},
		// So long may a log-in take, whose connection is one of them already.
		{"connect_timeout", 10, live},
		{"table_open_cache", size.tables, live},
		{"table_definition_cache", max(400, size.tables/2), live},
		// As much as the platform's limit lets it have, so that a bigger plan needs no restart.
		{"open_files_limit", 65535, apart},
		{"thread_cache_size", 16, live},
		{"key_buffer_size", 8 * mb, live},
		{"tmp_table_size", size.tempTableMB * mb, live},
		{"max_heap_table_size", size.tempTableMB * mb, live},

		// An acknowledged commit is on the disk, in both logs.
		durably("innodb_flush_log_at_trx_commit", n, 2),
		durably("sync_binlog", n, 0),
		{"log_bin", "binlog", apart},
		{"max_binlog_size", size.binlogMB * mb, live},
		transactionBound(n, size),
		// What events warn of goes to the server's log: so many a time.
		{"max_error_count", warningsKept, live},
		{"maximum_max_error_count", warningsKept, apart},
		// Kept long they would fill the disk; where they are archived, that sees to it.
		{"binlog_expire_logs_seconds", expiry(n), live},
		{"read_only", n.ReadOnly || isReplica(n), apart},

		{"innodb_data_file_path", systemTablespace, apart},
		// A bound that isn't worth a restart: it changes with the next one.
		{"innodb_temp_data_file_path", fmt.Sprintf("ibtmp1:12M:autoextend:max:%dM", size.tempDiskMB), apart},
		{"innodb_buffer_pool_size", size.poolMB * mb, bounded},
		// Kernel queues for asynchronous I/O are few (fs.aio-max-nr) and shared
		// by all of a host's servers: many small servers would starve each other.
		{"innodb_use_native_aio", false, fixed},
	}
}

// warningsKept is how many warnings of a statement or an event are kept.
const warningsKept = 64

// transactionBound is how much a transaction may log, which lies in temporary files
// until it commits. A replica must take what its source took.
func transactionBound(n engine.Node, size tuning) setting {
	const name, unbounded = "max_binlog_cache_size", "18446744073709547520"
	switch {
	case n.Recovery != nil || isReplica(n):
		return setting{name, number(unbounded), apart}
	case clustered(n):
		return setting{name, size.tempDiskMB * mb, apart}
	}
	return setting{name, size.tempDiskMB * mb, live}
}

// expiry is after how many seconds the server lets old binary logs go by itself.
func expiry(n engine.Node) int {
	if n.ArchiveDir != "" {
		return forgetAfter
	}
	return int(keep(n).Seconds())
}

// locations are what a relocated installation has to be told.
func locations(inst engine.Installation) []setting {
	if len(inst.Loader) == 0 {
		return nil
	}
	all := []setting{{"basedir", inst.Home, apart}}
	if inst.Share != "" {
		all = append(all,
			setting{"lc_messages_dir", inst.Share, apart},
			setting{"character_sets_dir", filepath.Join(inst.Share, "charsets"), apart})
	}
	if inst.PluginDir != "" {
		all = append(all, setting{"plugin_dir", inst.PluginDir, apart})
	}
	return all
}

// serverID tells the nodes of a cluster apart; it is never 0.
func serverID(n engine.Node) int64 {
	return int64(uint32(n.Cluster)<<2 | uint32(n.Ordinal+1))
}
