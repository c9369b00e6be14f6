package mysql

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"steward/internal/engine"
	"steward/internal/parameter"
)

//go:embed sql/mysql.sql
var mySQLAccounts string

// initFile is read at the end of the initialisation. The folder must be empty
// then, but for names that begin with a dot.
const initFile = ".steward-init.sql"

// mySQL is the flavour of Oracle's MySQL.
type mySQL struct{}

func (mySQL) dialect() *dialect { return &mySQLDialect }

var mySQLDialect = dialect{
	server:   "mysqld",
	accounts: mySQLAccounts,
	root:     mySQLRoot,
	// Without it, dbadmin could manage the account as any other.
	guarded:   ", SYSTEM_USER",
	reloadTLS: "ALTER INSTANCE RELOAD TLS",

	source: "rpl_semi_sync_source", replica: "rpl_semi_sync_replica",
	plugins: []setting{
		{"plugin_load_add", "semisync_source.so", apart},
		{"plugin_load_add", "semisync_replica.so", apart},
		{"plugin_load_add", "mysql_clone.so", apart},
	},
	asyncFlush: true,
	status:     "SHOW REPLICA STATUS",
	startAll:   "START REPLICA", startApplier: "START REPLICA SQL_THREAD",
	stopAll: "STOP REPLICA", stopReceiver: "STOP REPLICA IO_THREAD", reset: "RESET REPLICA ALL",
	forked: []string{"1236", "13114", "13117"},

	applies:     "REPLICATION_APPLIER",
	afterFormat: []string{"SET SESSION gtid_next = 'AUTOMATIC'"},

	replay: replayStatements{
		change: "CHANGE REPLICATION SOURCE TO source_host = 'nowhere', source_auto_position = 0, " +
			"relay_log_file = {file}, relay_log_pos = 4 FOR CHANNEL {channel}",
		start: "START REPLICA SQL_THREAD FOR CHANNEL {channel}",
		stop:  "STOP REPLICA FOR CHANNEL {channel}",
		reset: "RESET REPLICA ALL FOR CHANNEL {channel}",
	},
	recovery: []setting{
		{"relay_log_recovery", false, apart},
	},
}

// mySQLRoot fences dbadmin in: partial revokes take the system schemas out of
// global privileges, and pass the restriction on to whomever it grants them.
// PROCESS isn't among these, since it shows our own statements: see seesAll.
var mySQLRoot = []string{
	"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, SHOW DATABASES, " +
		"CREATE TEMPORARY TABLES, LOCK TABLES, EXECUTE, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, " +
		"CREATE USER, EVENT, TRIGGER, CREATE ROLE, DROP ROLE, REPLICATION CLIENT ON *.* TO 'dbadmin'@'%' WITH GRANT OPTION",
	"GRANT ROLE_ADMIN ON *.* TO 'dbadmin'@'%' WITH GRANT OPTION",
	"REVOKE ALL ON mysql.* FROM 'dbadmin'@'%'",
	"REVOKE " + strings.Join(threadRights, ", ") + " ON performance_schema.* FROM 'dbadmin'@'%'",
	"REVOKE INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, CREATE TEMPORARY TABLES, LOCK TABLES, " +
		"CREATE VIEW, CREATE ROUTINE, ALTER ROUTINE, EVENT, TRIGGER ON sys.* FROM 'dbadmin'@'%'",
}

func (mySQL) settings(n engine.Node, size tuning) []setting {
	return []setting{
		{"mysqlx", false, apart},
		{"partial_revokes", true, live},
		{"persisted_globals_load", false, fixed},
		{"log_timestamps", "UTC", live},
		{"log_error_verbosity", 2, live},
		{"gtid_mode", true, fixed},
		{"enforce_gtid_consistency", true, fixed},
		{"log_replica_updates", true, fixed},
		{"relay_log_recovery", true, fixed},
		{"skip_replica_start", true, fixed},
		{"auto_generate_certs", false, fixed},
		// Logins without TLS want a key to send the password under.
		{"caching_sha2_password_auto_generate_rsa_keys", !n.SSLConnection, fixed},
		{"innodb_redo_log_capacity", size.redoMB * mb, live},
		// The server's own 64 MB, touched as a whole at each start, are more than small plans were reckoned with.
		{"innodb_log_buffer_size", parameter.LogBufferMB * mb, live},
		{"innodb_buffer_pool_chunk_size", poolChunk, fixed},
		{"temptable_max_ram", 2 * size.tempTableMB * mb, live},
		{"temptable_max_mmap", 0, live},
	}
}

// poolChunk divides every pool, whatever number of instances the server chooses.
const poolChunk = parameter.BufferPoolStepMB * mb / 8

// initialise lets the server run our SQL at the end of its initialisation.
func (mySQL) initialise(ctx context.Context, inst engine.Installation, dir, accounts string, run engine.Runner) error {
	file := filepath.Join(dir, initFile)
	// Readable by the runner's user, who isn't us; the folder is closed to others.
	if err := os.WriteFile(file, []byte(accounts+"DROP USER 'root'@'localhost';\n"), 0o644); err != nil {
		return fmt.Errorf("write initial SQL: %w", err)
	}
	args := append([]string{
		"--initialize-insecure", "--datadir=" + dir, "--init-file=" + file, "--partial-revokes=ON",
		"--innodb-redo-log-capacity=16M", "--innodb-doublewrite-pages=16", "--innodb-use-native-aio=OFF",
		"--auto-generate-certs=OFF", "--character-set-server=utf8mb4",
	}, append(templateSizes, located(inst)...)...)
	return runServer(ctx, inst, "mysqld", dir, run, nil, args...)
}
