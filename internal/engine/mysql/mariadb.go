package mysql

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"steward/internal/engine"
)

//go:embed sql/mariadb.sql
var mariaDBAccounts string

// mariaDBAlone leaves no account that a server comes with and nobody needs.
const mariaDBAlone = "DROP USER IF EXISTS 'root'@'localhost', 'root'@'127.0.0.1', 'root'@'::1';\nDELETE FROM mysql.proxies_priv;\n" +
	"DELETE FROM mysql.global_priv WHERE User = 'root';\nFLUSH PRIVILEGES;\n"

// mariaDBScripts make the system tables; mariadb-install-db runs the same. Some
// begin with mysql_ or mariadb_, by series.
var mariaDBScripts = []string{
	"_system_tables.sql", "_performance_tables.sql", "_system_tables_data.sql",
	"fill_help_tables.sql", "maria_add_gis_sp_bootstrap.sql", "_sys_schema.sql",
}

// mariaDBUpgrade are those of the scripts that can be run again.
var mariaDBUpgrade = []string{"_system_tables.sql", "_performance_tables.sql", "maria_add_gis_sp_bootstrap.sql", "_sys_schema.sql"}

// mariaDB is the flavour of MariaDB.
type mariaDB struct{}

func (mariaDB) dialect() *dialect { return &mariaDBDialect }

var mariaDBDialect = dialect{
	server:    "mariadbd",
	scripts:   mariaDBScripts,
	accounts:  mariaDBAccounts,
	root:      mariaDBRoot,
	reloadTLS: "FLUSH LOCAL SSL",
	upgrade:   mariaDBUpgrade,

	source: "rpl_semi_sync_master", replica: "rpl_semi_sync_slave",
	status:   "SHOW ALL SLAVES STATUS",
	startAll: "START SLAVE", startApplier: "START SLAVE SQL_THREAD",
	stopAll: "STOP SLAVE", stopReceiver: "STOP SLAVE IO_THREAD", reset: "RESET SLAVE ALL",
	// A server that was started with one node only has none of these.
	tuned:  []string{fmt.Sprintf("SET GLOBAL slave_parallel_threads = %d", appliers), "SET GLOBAL slave_parallel_mode = 'optimistic'"},
	forked: []string{"1236", "1950"},

	applies: "BINLOG REPLAY, BINLOG ADMIN",
	// What is written would be in the log of the target a second time, as text.
	afterFormat: []string{"SET SESSION binlog_annotate_row_events = OFF"},

	replay: replayStatements{
		change: "CHANGE MASTER {channel} TO master_host = 'nowhere', master_use_gtid = no, relay_log_file = {file}, relay_log_pos = 4",
		start:  "START SLAVE {channel} SQL_THREAD",
		stop:   "STOP SLAVE {channel}",
		reset:  "RESET SLAVE {channel} ALL",
	},
}

// mariaDBRoot fences dbadmin in. MariaDB has no partial revokes: what fences is
// that a grant on a schema's exact name is used instead of one on a pattern.
// Never give the pattern WITH GRANT OPTION: dbadmin could grant it to somebody
// without the exact rows, who would then own the system tables. PROCESS isn't
// among them, since it shows our own statements: see seesAll.
var mariaDBRoot = append([]string{
	"GRANT SHOW DATABASES ON *.* TO 'dbadmin'@'%'",
	"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, CREATE TEMPORARY TABLES, " +
		"LOCK TABLES, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, EXECUTE, EVENT, TRIGGER, DELETE HISTORY " +
		"ON `%`.* TO 'dbadmin'@'%'",
	"GRANT SHOW VIEW ON `mysql`.* TO 'dbadmin'@'%'",
	"GRANT SELECT, EXECUTE, SHOW VIEW ON `sys`.* TO 'dbadmin'@'%'",
	mariaDBThreads[0], mariaDBThreads[1],
	"GRANT EXECUTE ON `steward`.* TO 'dbadmin'@'%'",
}, withoutCreate()...)

const mariaDBUndoFiles = 2

func (mariaDB) settings(n engine.Node, size tuning) []setting {
	return []setting{
		// DATA DIRECTORY in CREATE TABLE would reach any folder of our uid.
		{"symbolic_links", false, apart},
		{"feedback", false, apart},
		{"binlog_format", "ROW", live},
		{"log_slave_updates", true, fixed},
		{"gtid_strict_mode", true, live},
		{"skip_slave_start", true, apart},
		{"innodb_log_file_size", size.redoMB * mb, live},
		// Undo in files of its own can be given back; in ibdata1 it never is.
		{"innodb_undo_tablespaces", mariaDBUndoFiles, fixed},
		{"innodb_undo_log_truncate", true, live},
		{"aria_pagecache_buffer_size", 16 * mb, fixed},
		{"tmp_disk_table_size", size.tempTableDiskMB * mb, live},
		// Sessions may set it for themselves, but no higher.
		{"maximum_tmp_disk_table_size", size.tempTableDiskMB * mb, apart},
		// 2 logs each connection that is refused or ends without a word.
		{"log_warnings", 1, live},
		// What follows came with 11.4 and 11.5. Without the first, logs would be
		// kept until a replica connects.
		{"loose_slave_connections_needed_for_purge", 0, apart},
		{"loose_max_binlog_total_size", size.binlogTotalMB * mb, apart},
		{"loose_max_tmp_total_space_usage", size.tempDiskMB * mb, apart},
		// Each node logs what was sent to it.
		{"log_slow_slave_statements", false, live},
		{"query_cache_type", false, live},
		{"query_cache_size", 0, live},
	}
}

// initialise pipes the server's own scripts and ours into its bootstrap
// mode: twice as fast as mariadb-install-db, and it does the same.
func (mariaDB) initialise(ctx context.Context, inst engine.Installation, dir, accounts string, run engine.Runner) error {
	scripts, err := readScripts(inst, mariaDBScripts)
	if err != nil {
		return err
	}
	input := "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n" + string(scripts) + "\n" + accounts + mariaDBAlone
	args := append([]string{
		"--bootstrap", "--datadir=" + dir, "--tmpdir=" + dir, "--innodb-log-file-size=8M",
		"--innodb-undo-tablespaces=" + strconv.Itoa(mariaDBUndoFiles),
		"--innodb-use-native-aio=OFF", "--character-set-server=utf8mb4", "--log-warnings=0", "--feedback=OFF",
	}, append(templateSizes, located(inst)...)...)
	return runServer(ctx, inst, "mariadbd", dir, run, []byte(input), args...)
}
