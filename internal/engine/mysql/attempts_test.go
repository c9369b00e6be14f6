package mysql_test

import (
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	driver "github.com/go-sql-driver/mysql"

	"steward/internal/engine"
	"steward/internal/engine/enginetest"
)

func onMariaDB(i engine.Installation) bool { return i.Flavour == engine.FlavourMariaDB }

func onMySQL(i engine.Installation) bool { return i.Flavour == engine.FlavourMySQL }

// attempts are what dbadmin tries: first the work it is there for, then what it
// must not get away with.
func attempts() []enginetest.Attempt {
	return slices.Concat(ordinaryWork(), commonAttempts(), mariaDBAttempts(), mySQLAttempts())
}

func ordinaryWork() []enginetest.Attempt {
	all := map[string][]string{
		"databases": {"CREATE DATABASE shop", "CREATE DATABASE `my-shop_2`", "USE shop", "CREATE TABLE t (v int)", "DROP TABLE t", "ALTER DATABASE shop CHARACTER SET utf8mb4"},
		"tables": {
			"CREATE TABLE a (id int PRIMARY KEY AUTO_INCREMENT, v varchar(50), doc json, KEY (v), FULLTEXT (v))",
			"INSERT INTO a (v, doc) VALUES ('one', '{\"a\": 1}'), ('two', '{}')", "UPDATE a SET v = 'three' WHERE id = 2",
			"CREATE TABLE b (id int PRIMARY KEY, a int, FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE)",
			"ALTER TABLE a ADD COLUMN w int DEFAULT 3", "CREATE INDEX a_w ON a (w)", "OPTIMIZE TABLE a", "ANALYZE TABLE a",
			"RENAME TABLE b TO c", "TRUNCATE TABLE c", "DROP TABLE c", "LOCK TABLES a WRITE", "UNLOCK TABLES", "DELETE FROM a WHERE id = 1",
			"CREATE TEMPORARY TABLE temp AS SELECT * FROM a", "CREATE TEMPORARY TABLE temp2 (v int) ENGINE = MEMORY",
		},
		"views":              {"CREATE TABLE v_base (v int)", "CREATE VIEW v AS SELECT v + 1 AS w FROM v_base", "SELECT * FROM v", "SHOW CREATE VIEW v", "DROP VIEW v"},
		"routines":           {"CREATE PROCEDURE p() SELECT 1", "CALL p()", "CREATE FUNCTION f(x int) RETURNS int RETURN x + 1", "SELECT f(1)", "SHOW CREATE PROCEDURE p", "DROP PROCEDURE p"},
		"triggers":           {"CREATE TABLE tr (v int)", "CREATE TRIGGER tr_t BEFORE INSERT ON tr FOR EACH ROW SET NEW.v = NEW.v + 1", "INSERT INTO tr VALUES (1)"},
		"events":             {"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM defaultdb.tr", "ALTER EVENT e DISABLE", "DROP EVENT e"},
		"transactions":       {"CREATE TABLE tx (v int)", "START TRANSACTION", "INSERT INTO tx VALUES (1)", "SAVEPOINT s", "ROLLBACK TO s", "COMMIT", "XA START 'x'", "INSERT INTO tx VALUES (2)", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"},
		"looking around":     {"SHOW PROCESSLIST", "SHOW GLOBAL STATUS", "SHOW VARIABLES", "SHOW GRANTS", "SHOW DATABASES", "SELECT * FROM information_schema.TABLES", "SELECT * FROM sys.version", "SELECT sys.format_bytes(12345)", "EXPLAIN SELECT 1"},
		"session settings":   {"SET SESSION sql_mode = 'ANSI_QUOTES'", "SET SESSION time_zone = '+02:00'", "SET NAMES utf8mb4", "SET SESSION max_sort_length = 2048", "SET SESSION wait_timeout = 600", "SET SESSION foreign_key_checks = 0", "SET SESSION unique_checks = 0"},
		"prepared statement": {"PREPARE s FROM 'SELECT ?'", "SET @a = 1", "EXECUTE s USING @a"},
	}
	var table []enginetest.Attempt
	for _, name := range slices.Sorted(maps.Keys(all)) {
		table = append(table, enginetest.Attempt{Name: "may: " + name, SQL: all[name], Allowed: true})
	}
	return append(
		table,
		enginetest.Attempt{
			Name: "may: users through procedures", Allowed: true, Only: onMariaDB, After: bobWorks,
			SQL: []string{
				"CREATE DATABASE bob_db", "CREATE DATABASE bobXdb", "CALL steward.create_user('bob', 'bob-first-1')", "CALL steward.set_password('bob', 'bob-Password-2')",
				"CALL steward.grant_database('bob_db', 'bob')", "CALL steward.grant_database('bobXdb', 'bob')", "CALL steward.revoke_database('bobXdb', 'bob')",
				"CALL steward.create_user('gone', 'gone-password')", "CALL steward.drop_user('gone')",
				"SHOW CREATE DATABASE steward",
			},
		},
		enginetest.Attempt{
			Name: "may: users and roles", Allowed: true, Only: onMySQL, After: bobWorks,
			SQL: []string{
				"CREATE DATABASE bob_db", "CREATE DATABASE bobXdb", "CREATE USER bob IDENTIFIED BY 'bob-first-1'", "ALTER USER bob IDENTIFIED BY 'bob-Password-2'",
				"GRANT ALL ON bob_db.* TO bob", "GRANT ALL ON bobXdb.* TO bob", "REVOKE ALL ON bobXdb.* FROM bob", "CREATE USER gone", "DROP USER gone",
				"CREATE ROLE reader", "GRANT SELECT ON defaultdb.* TO reader", "GRANT reader TO bob", "SET DEFAULT ROLE ALL TO bob",
				"GRANT SELECT ON *.* TO bob", "REVOKE SELECT ON *.* FROM bob",
			},
		},
	)
}

// bobWorks logs in as the user that was made: his own database is his, other
// things are nobody's business of his.
func bobWorks(t *testing.T, s *enginetest.Server, _ error) {
	bob := s.DB(t, enginetest.Login{User: "bob", Password: "bob-Password-2", Database: "bob_db", CA: s.CA})
	for _, q := range []string{"CREATE TABLE mine (v int)", "INSERT INTO mine VALUES (1)", "CREATE VIEW mine_too AS SELECT * FROM mine", "DROP TABLE mine"} {
		if _, err := bob.ExecContext(t.Context(), q); err != nil {
			t.Errorf("bob, %s: %v", q, err)
		}
	}
	refused(t, bob, "bob",
		"CREATE TABLE bobXdb.t (v int)", "CREATE DATABASE bobs", "SELECT * FROM mysql.user", "SELECT * FROM mysql.global_priv", "UPDATE mysql.user SET user = 'x'",
		"CREATE USER alice", "CALL steward.create_user('alice', 'alice-password')", "CALL steward.set_password('dbadmin', 'alice-password')",
		"GRANT ALL ON *.* TO bob", "SET GLOBAL read_only = ON", "SELECT * FROM steward.installed")
}

func refused(t *testing.T, db *sql.DB, who string, statements ...string) {
	t.Helper()
	for _, q := range statements {
		if _, err := db.ExecContext(t.Context(), q); err == nil {
			t.Errorf("%s gets away with %s", who, q)
		}
	}
}

// commonAttempts are one statement each, tried on both flavours.
func commonAttempts() []enginetest.Attempt {
	table := each("", nil,
		// The system tables.
		"SELECT * FROM mysql.user", "SELECT user, authentication_string FROM mysql.user", "SELECT * FROM mysql.db", "SELECT * FROM mysql.tables_priv",
		"UPDATE mysql.user SET account_locked = 'N'", "INSERT INTO mysql.db (Host, Db, User) VALUES ('%', '%', 'dbadmin')", "DELETE FROM mysql.db",
		"TRUNCATE TABLE mysql.db", "ALTER TABLE mysql.db ADD x int", "RENAME TABLE mysql.db TO mysql.db_gone", "RENAME TABLE mysql.db TO defaultdb.db",
		"DROP TABLE mysql.db", "CREATE TABLE mysql.mine (v int)", "CREATE TABLE hashes AS SELECT * FROM mysql.user", "CREATE TABLE likeness LIKE mysql.db",
		"CREATE INDEX x ON mysql.db (Db)", "LOCK TABLES mysql.db WRITE", "HANDLER mysql.db OPEN", "INSERT INTO mysql.func VALUES ('f', 0, 'x.so', 'function')",
		"INSERT INTO mysql.plugin VALUES ('x', 'x.so')", "INSERT INTO mysql.servers (Server_name) VALUES ('x')", "UPDATE mysql.event SET definer = 'steward@localhost'",
		"CREATE PROCEDURE mysql.p() SELECT 1", "CREATE FUNCTION mysql.f() RETURNS int RETURN 1", "CREATE EVENT mysql.e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
		"CREATE VIEW mysql.v AS SELECT 1", "CREATE TRIGGER mysql.t BEFORE INSERT ON mysql.db FOR EACH ROW SET @x = 1", "DROP DATABASE mysql",
		"ALTER DATABASE mysql CHARACTER SET latin1", "ANALYZE TABLE mysql.db", "REPAIR TABLE mysql.db", "CHECKSUM TABLE mysql.user",
		"SELECT * FROM (SELECT * FROM mysql.user) u", "CREATE VIEW peek AS SELECT * FROM mysql.user", "CALL sys.execute_prepared_stmt('SELECT * FROM mysql.user')",
		// The other internal schemas.
		"DROP DATABASE sys", "DROP DATABASE performance_schema", "DROP DATABASE information_schema", "CREATE TABLE sys.mine (v int)", "UPDATE sys.sys_config SET value = 1",
		"CREATE OR REPLACE VIEW sys.version AS SELECT 1", "DROP VIEW sys.version", "DROP FUNCTION sys.format_bytes", "CREATE TRIGGER sys.t BEFORE INSERT ON sys.sys_config FOR EACH ROW SET @x = 1",
		"CREATE TABLE performance_schema.mine (v int)", "CREATE PROCEDURE sys.p() SELECT 1",
		// Our account.
		"ALTER USER 'steward'@'localhost' IDENTIFIED BY 'stolen-password'", "SET PASSWORD FOR 'steward'@'localhost' = 'stolen-password'",
		"RENAME USER 'steward'@'localhost' TO 'mine'@'%'", "DROP USER 'steward'@'localhost'", "ALTER USER 'steward'@'localhost' ACCOUNT LOCK",
		"REVOKE ALL PRIVILEGES, GRANT OPTION FROM 'steward'@'localhost'", "GRANT ALL ON *.* TO 'steward'@'localhost'", "REVOKE SELECT ON *.* FROM 'steward'@'localhost'",
		"SHOW GRANTS FOR 'steward'@'localhost'", "SHOW CREATE USER 'steward'@'localhost'",
		"CREATE OR REPLACE USER 'steward'@'localhost' IDENTIFIED BY 'stolen-password'",
		// More power for ourselves.
		"GRANT SUPER ON *.* TO dbadmin", "GRANT FILE ON *.* TO dbadmin", "GRANT ALL ON *.* TO dbadmin", "GRANT ALL ON mysql.* TO dbadmin", "GRANT SELECT ON mysql.user TO dbadmin",
		"GRANT RELOAD ON *.* TO dbadmin", "GRANT SHUTDOWN ON *.* TO dbadmin", "GRANT REPLICATION SLAVE ON *.* TO dbadmin", "GRANT CREATE TABLESPACE ON *.* TO dbadmin",
		"GRANT PROXY ON 'steward'@'localhost' TO dbadmin", "GRANT PROXY ON ''@'' TO dbadmin WITH GRANT OPTION", "GRANT 'steward'@'localhost' TO dbadmin", "SET ROLE 'steward'@'localhost'",
		// Code and plugins.
		"INSTALL PLUGIN blackhole SONAME 'ha_blackhole.so'", "INSTALL PLUGIN clone SONAME 'mysql_clone.so'", "INSTALL COMPONENT 'file://component_validate_password'",
		"UNINSTALL PLUGIN innodb", "CREATE FUNCTION sys_exec RETURNS int SONAME 'lib_mysqludf_sys.so'", "CREATE AGGREGATE FUNCTION f2 RETURNS int SONAME 'x.so'",
		"CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST '127.0.0.1', PORT 1)", "CREATE TABLE fed (v int) ENGINE = FEDERATED CONNECTION = 'mysql://127.0.0.1:1/x/y'",
		"CREATE TABLE con (v int) ENGINE = CONNECT TABLE_TYPE = DOS FILE_NAME = '/etc/passwd'",
		// Files.
		"SELECT 1 INTO OUTFILE '{{tmp}}/out'", "SELECT 1 INTO DUMPFILE '{{tmp}}/dump'", "SELECT 1 INTO OUTFILE '/tmp/out'", "LOAD DATA INFILE '/etc/passwd' INTO TABLE v_base",
		"LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE v_base", "LOAD XML INFILE '/etc/passwd' INTO TABLE v_base", "CREATE TABLESPACE ts ADD DATAFILE '{{tmp}}/ts.ibd'",
		"ALTER DATABASE `#mysql50#../../escaped` UPGRADE DATA DIRECTORY NAME",
		// The server.
		"SHUTDOWN", "RESTART", "FLUSH TABLES WITH READ LOCK", "FLUSH LOGS", "FLUSH BINARY LOGS", "FLUSH PRIVILEGES", "FLUSH GLOBAL STATUS", "FLUSH HOSTS",
		"LOCK INSTANCE FOR BACKUP", "BACKUP STAGE START", "ALTER INSTANCE RELOAD TLS", "ALTER INSTANCE ROTATE INNODB MASTER KEY", "CREATE UNDO TABLESPACE u ADD DATAFILE 'u.ibu'",
		"ALTER INSTANCE DISABLE INNODB REDO_LOG",
		// Replication and its log.
		"RESET MASTER", "RESET BINARY LOGS AND GTIDS", "PURGE BINARY LOGS BEFORE NOW()", "SHOW BINLOG EVENTS", "BINLOG ''",
		// What would show statements of ours.
		"SHOW ENGINE INNODB STATUS", "SELECT * FROM information_schema.INNODB_TRX", "SELECT * FROM mysql.general_log", "SELECT * FROM mysql.slow_log", "SELECT * FROM mysql.slave_master_info",
		"CHANGE MASTER TO MASTER_HOST = '127.0.0.1'", "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1'", "START REPLICA", "STOP REPLICA", "STOP SLAVE", "RESET REPLICA ALL", "RESET SLAVE ALL",
		"CLONE LOCAL DATA DIRECTORY = '{{tmp}}/clone'", "CLONE INSTANCE FROM 'x'@'127.0.0.1':1 IDENTIFIED BY 'x'",
		"SET SESSION sql_log_bin = 0", "SET SESSION binlog_format = 'STATEMENT'", "SET SESSION gtid_next = 'AUTOMATIC'", "SET SESSION gtid_domain_id = 7", "SET SESSION server_id = 7",
		"SET SESSION sql_log_off = 1",
	)
	return slices.Concat(table, definers(), globals(), []enginetest.Attempt{
		{Name: "LOAD_FILE", SQL: []string{"SELECT LOAD_FILE('/etc/passwd')"}, After: loadsNothing},
		{Name: "a database's name that leads outside", SQL: []string{"CREATE DATABASE `#mysql50#../../escaped`", "CREATE DATABASE `../../escaped`"}, After: escapesNowhere},
		{Name: "KILL of our session", SQL: []string{"SELECT 1"}, After: killsNothing},
		{
			Name: "DATA DIRECTORY outside", After: leavesNothingInTmp,
			SQL: []string{
				"CREATE TABLE d1 (v int) DATA DIRECTORY = '{{tmp}}'", "CREATE TABLE d2 (v int) ENGINE = MyISAM DATA DIRECTORY = '{{tmp}}' INDEX DIRECTORY = '{{tmp}}'",
				"CREATE TABLE d3 (v int) ENGINE = Aria DATA DIRECTORY = '{{tmp}}'", "CREATE TABLE d4 (v int) PARTITION BY HASH (v) (PARTITION p DATA DIRECTORY = '{{tmp}}')",
				"CREATE TABLE steward_outside (v int) DATA DIRECTORY = '/tmp'",
			},
		},
	})
}

// definers try to have something run as our account.
func definers() []enginetest.Attempt {
	var all []string
	for _, account := range []string{"'steward'@'localhost'", "'root'@'localhost'", "'mysql.sys'@'localhost'", "'mariadb.sys'@'localhost'"} {
		all = append(all,
			"CREATE DEFINER = "+account+" PROCEDURE stolen() SELECT 1", "CREATE DEFINER = "+account+" FUNCTION stolen() RETURNS int RETURN 1",
			"CREATE DEFINER = "+account+" EVENT stolen ON SCHEDULE EVERY 1 DAY DO SELECT 1", "CREATE DEFINER = "+account+" VIEW stolen AS SELECT 1",
			"CREATE DEFINER = "+account+" TRIGGER stolen BEFORE INSERT ON v_base FOR EACH ROW SET @x = 1")
	}
	return each("", nil, all...)
}

// globals try to set what is the server's.
func globals() []enginetest.Attempt {
	var all []string
	for _, set := range []string{
		"read_only = OFF", "super_read_only = ON", "require_secure_transport = OFF", "local_infile = ON", "general_log = ON", "general_log_file = '/tmp/x.log'", "slow_query_log = ON",
		"slow_query_log_file = '/tmp/x.log'", "log_output = 'TABLE'", "init_connect = 'SELECT 1'", "max_connections = 1", "event_scheduler = OFF", "sync_binlog = 0",
		"innodb_flush_log_at_trx_commit = 0", "innodb_buffer_pool_size = 1", "log_bin_trust_function_creators = OFF", "sql_mode = ''", "time_zone = '+01:00'", "wait_timeout = 1",
		"secure_file_priv = ''", "plugin_dir = '/tmp'", "partial_revokes = OFF", "default_authentication_plugin = 'x'", "old_passwords = 1", "debug = 'd'",
		"wsrep_notify_cmd = 'id'", "wsrep_provider = '/tmp/x.so'", "ft_stopword_file = '/etc/passwd'", "offline_mode = ON", "mandatory_roles = 'x'", "binlog_expire_logs_seconds = 1",
		"innodb_encrypt_tables = OFF", "performance_schema = ON", "max_user_connections = 1", "keyring_file_data = '/tmp/x'",
	} {
		all = append(all, "SET GLOBAL "+set)
	}
	return each("", nil, append(all, "SET PERSIST read_only = OFF", "SET PERSIST_ONLY port = 1", "SET @@GLOBAL.gtid_purged = ''", "SET GLOBAL gtid_slave_pos = ''")...)
}

// mariaDBAttempts are mostly on the procedures that stand in for CREATE USER.
func mariaDBAttempts() []enginetest.Attempt {
	table := each("", onMariaDB,
		"SELECT * FROM mysql.global_priv", "UPDATE mysql.global_priv SET Priv = '{\"access\":18446744073709551615}' WHERE User = 'dbadmin'", "REPLACE INTO mysql.global_priv VALUES ('%', 'x', '{}')",
		"SELECT * FROM mysql.proc", "UPDATE mysql.proc SET body = 'SELECT 1'", "DELETE FROM mysql.proxies_priv", "SELECT * FROM mysql.roles_mapping",
		"CREATE USER alice", "CREATE ROLE r", "ALTER USER dbadmin WITH MAX_USER_CONNECTIONS 0", "ALTER USER dbadmin REQUIRE NONE", "ALTER USER CURRENT_USER() REQUIRE NONE", "RENAME USER dbadmin TO boss",
		"DROP USER bob", "GRANT SELECT ON defaultdb.* TO bob", "GRANT ALL ON `%`.* TO bob", "GRANT ALL ON `mysq_`.* TO bob", "GRANT SELECT ON defaultdb.* TO 'new' IDENTIFIED BY 'password-new'",
		"GRANT USAGE ON *.* TO 'steward'@'localhost' IDENTIFIED BY 'stolen-password'", "SET DEFAULT ROLE x", "INSTALL SONAME 'ha_blackhole'", "UNINSTALL SONAME 'ha_blackhole'",
		"FLUSH SSL", "FLUSH USER_STATISTICS", "SET STATEMENT sql_log_bin = 0 FOR SELECT 1", "SET SESSION debug_dbug = 'd'",
		"SET SESSION gtid_seq_no = 100", "SET SESSION enforce_storage_engine = NULL", "SHOW SLAVE STATUS", "CREATE TABLE s3 (v int) ENGINE = S3", "CREATE TABLE sp (v int) ENGINE = SPIDER",
		"CREATE TABLE sx (v int) ENGINE = SPHINX CONNECTION = 'sphinx://127.0.0.1:1/x'",
		// The schema of the guards.
		"DROP DATABASE steward", "CREATE TABLE steward.mine (v int)", "SELECT * FROM steward.installed", "UPDATE steward.installed SET version = 'x'", "DROP TABLE steward.installed",
		"CREATE PROCEDURE steward.p() SELECT 1", "CREATE OR REPLACE PROCEDURE steward.create_user(n text, p text) SELECT 1", "DROP PROCEDURE steward.create_user", "ALTER PROCEDURE steward.create_user SQL SECURITY INVOKER",
		"CREATE VIEW steward.v AS SELECT 1", "CREATE TRIGGER steward.t BEFORE INSERT ON steward.installed FOR EACH ROW SET @x = 1", "CREATE EVENT steward.e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
		"ALTER DATABASE steward CHARACTER SET latin1", "LOCK TABLES steward.installed WRITE",
	)
	var calls []string
	for _, name := range []string{
		"dbadmin", "DBADMIN", "dbadmin ", "steward", "Steward", "steward2", "root", "mariadb.sys", "mysql", "PUBLIC", "", "%", "a b", "x'@'%", "x\\'", "x`", `x"`, "bob\\n", "ſteward", "ｒoot", strings.Repeat("a", 40),
	} {
		quoted := "'" + strings.ReplaceAll(name, "'", "''") + "'"
		calls = append(calls, "CALL steward.create_user("+quoted+", 'long-enough-1')", "CALL steward.set_password("+quoted+", 'long-enough-1')",
			"CALL steward.drop_user("+quoted+")", "CALL steward.grant_database('defaultdb', "+quoted+")", "CALL steward.revoke_database('defaultdb', "+quoted+")")
	}
	for _, db := range []string{
		"mysql", "MySQL", "sys", "steward", "information_schema", "performance_schema", "%", "mysq_", "m%", "_____", "`%`", "defaultdb`.* TO bob; -- ", "defaultdb`.`kept", "", "nowhere", "defaultdb ", "defaultdb\\n",
	} {
		quoted := "'" + db + "'"
		calls = append(calls, "CALL steward.grant_database("+quoted+", 'bob')", "CALL steward.revoke_database("+quoted+", 'bob')")
	}
	calls = append(calls,
		"CALL steward.create_user(NULL, 'long-enough-1')", "CALL steward.create_user('carol', NULL)", "CALL steward.create_user('carol', 'short')", "CALL steward.create_user('bob', 'already-there')",
		"CALL steward.set_password('nobody', 'long-enough-1')", "CALL steward.drop_user('nobody')", "CALL steward.grant_database('defaultdb', 'nobody')", "CALL steward.grant_database(NULL, NULL)")
	return append(append(table, each("", onMariaDB, calls...)...), enginetest.Attempt{
		Name: "quotes in a password, under odd settings of the session", Only: onMariaDB, Allowed: true, After: nobodyIsAdmin,
		SQL: []string{
			`CALL steward.create_user('eve1', 'x'' WITH GRANT OPTION; -- ')`, `CALL steward.create_user('eve2', 'x\\'' REQUIRE NONE')`, "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'",
			`CALL steward.create_user('eve3', 'x\'' OR ''1')`, "SET SESSION sql_mode = 'PIPES_AS_CONCAT'", "SET SESSION character_set_client = gbk, collation_connection = gbk_chinese_ci",
			"CALL steward.create_user('eve4', 0xbf27206f7220313d31)", "SET SESSION character_set_client = latin1", "CALL steward.create_user('eve5', 'x-y-z-1-2-3')",
		},
	})
}

// mySQLAttempts try the ways round partial revokes.
func mySQLAttempts() []enginetest.Attempt {
	table := each("", onMySQL,
		"SELECT * FROM mysql.password_history", "SELECT * FROM mysql.default_roles", "INSERT INTO mysql.role_edges VALUES ('localhost', 'steward', '%', 'dbadmin', 'Y')",
		"INSERT INTO mysql.global_grants VALUES ('dbadmin', '%', 'SYSTEM_USER', 'N')", "CREATE USER IF NOT EXISTS 'steward'@'localhost' IDENTIFIED BY 'stolen-password', 'x' IDENTIFIED BY RANDOM PASSWORD PASSWORD HISTORY -1",
		"GRANT SYSTEM_USER ON *.* TO dbadmin", "GRANT ROLE_ADMIN, SYSTEM_VARIABLES_ADMIN ON *.* TO dbadmin", "GRANT SET_ANY_DEFINER ON *.* TO dbadmin", "GRANT CONNECTION_ADMIN ON *.* TO dbadmin",
		"GRANT BACKUP_ADMIN ON *.* TO dbadmin", "GRANT BINLOG_ADMIN ON *.* TO dbadmin", "GRANT XA_RECOVER_ADMIN ON *.* TO dbadmin", "GRANT SELECT ON `mysql`.* TO bob", "GRANT SELECT ON mysql.user TO bob",
		"GRANT 'mysql.session'@'localhost' TO dbadmin", "GRANT 'mysql.infoschema'@'localhost' TO dbadmin", "GRANT 'mysql.sys'@'localhost' TO dbadmin", "SET DEFAULT ROLE 'steward'@'localhost' TO dbadmin",
		"ALTER USER 'mysql.session'@'localhost' IDENTIFIED BY 'stolen-password' ACCOUNT UNLOCK", "ALTER USER 'mysql.infoschema'@'localhost' ACCOUNT UNLOCK", "DROP USER 'mysql.sys'@'localhost'",
		"RENAME USER 'mysql.session'@'localhost' TO 'mine'@'%'", "REVOKE SYSTEM_USER ON *.* FROM 'steward'@'localhost'", "REVOKE 'reader' FROM 'steward'@'localhost'", "GRANT reader TO 'steward'@'localhost'",
		"GRANT PROXY ON 'mysql.session'@'localhost' TO dbadmin", "UNINSTALL COMPONENT 'file://component_reference_cache'", "CREATE RESOURCE GROUP rg TYPE = USER", "SET RESOURCE GROUP SYS_default",
		"IMPORT TABLE FROM '{{tmp}}/x.sdi'", "SET SESSION gtid_next = '3E11FA47-71CA-11E1-9E33-C80AA9429562:1'", "SET SESSION pseudo_replica_mode = 1", "SET SESSION session_track_gtids = 'x'",
		"CREATE SPATIAL REFERENCE SYSTEM 990000 NAME 'x' DEFINITION 'x'", "SHOW REPLICAS", "DROP TABLESPACE mysql", "ALTER TABLESPACE mysql ENCRYPTION = 'N'", "ALTER TABLESPACE innodb_system RENAME TO x",
		"FLUSH OPTIMIZER_COSTS", "FLUSH ENGINE LOGS", "SET SESSION resultset_metadata = 'x'",
	)
	return append(
		table,
		enginetest.Attempt{
			Name: "privileges handed on keep their restriction", Only: onMySQL, After: nobodyIsAdmin,
			SQL: []string{
				"CREATE USER eve1 IDENTIFIED BY 'eve-password-1'", "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP ON *.* TO eve1 WITH GRANT OPTION", "GRANT ALL ON `%`.* TO eve1", "GRANT ALL ON `mysq_`.* TO eve1",
				"GRANT ALL ON `mysql%`.* TO eve1", "CREATE USER eve2 IDENTIFIED BY 'eve-password-1'", "CREATE ROLE whole", "GRANT SELECT, UPDATE, CREATE USER, ROLE_ADMIN ON *.* TO whole", "GRANT whole TO eve2", "GRANT whole TO dbadmin",
				"SET DEFAULT ROLE ALL TO eve2", "SET ROLE ALL", "UPDATE mysql.user SET user = 'x' WHERE user = 'steward'",
			},
		},
		enginetest.Attempt{
			Name: "a role's power over the system tables", Only: onMySQL,
			SQL: []string{"SET ROLE ALL", "SELECT * FROM mysql.user"},
		},
	)
}

// nobodyIsAdmin logs in as the users that attempts made.
func nobodyIsAdmin(t *testing.T, s *enginetest.Server, _ error) {
	admin := asAdmin(t, s)
	var names []string
	rows, err := admin.QueryContext(t.Context(), "SELECT User FROM mysql.user WHERE User LIKE 'eve%' AND Host = '%'")
	if err != nil {
		t.Fatalf("list users: %v", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatalf("list users: %v", err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil || len(names) == 0 {
		t.Fatalf("list users: %v, %v", names, err)
	}
	for _, name := range names {
		// The tests' own means: with a password known, log in as that user.
		if _, err := admin.ExecContext(t.Context(), "ALTER USER '"+name+"'@'%' IDENTIFIED BY 'eve-password-1'"); err != nil {
			t.Fatalf("set password of %s: %v", name, err)
		}
		db := s.DB(t, enginetest.Login{User: name, Password: "eve-password-1", CA: s.CA})
		if err := db.PingContext(t.Context()); err != nil {
			t.Fatalf("login of %s: %v", name, err)
		}
		refused(t, db, name, "SELECT * FROM mysql.user", "SELECT * FROM mysql.global_priv", "UPDATE mysql.user SET User = 'x'", "INSERT INTO mysql.db (Host, Db, User) VALUES ('%', '%', 'x')",
			"CREATE TABLE mysql.mine (v int)", "DROP TABLE mysql.db", "ALTER USER 'steward'@'localhost' IDENTIFIED BY 'stolen-password'", "GRANT SUPER ON *.* TO dbadmin", "SET GLOBAL read_only = OFF", "SHUTDOWN")
		db.Close()
	}
}

func loadsNothing(t *testing.T, s *enginetest.Server, _ error) {
	for _, path := range []string{"/etc/passwd", filepath.Join(s.Node.Conf, "my.cnf"), filepath.Join(s.Node.TLS, engine.TLSKey)} {
		if got := s.Text(t, "SELECT IFNULL(LOAD_FILE('"+path+"'), 'nothing')"); got != "nothing" {
			t.Errorf("LOAD_FILE reads %s", path)
		}
	}
}

func escapesNowhere(t *testing.T, s *enginetest.Server, _ error) {
	for _, up := range []string{"..", "../.."} {
		if _, err := os.Stat(filepath.Join(s.Node.Data, up, "escaped")); err == nil {
			t.Errorf("a folder was made in %s of the data folder", up)
		}
	}
}

// killsNothing lets dbadmin aim at a session of ours.
func killsNothing(t *testing.T, s *enginetest.Server, _ error) {
	admin := asAdmin(t, s)
	var id int64
	if err := admin.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	db := s.DB(t, s.Login())
	refused(t, db, "dbadmin", fmt.Sprintf("KILL %d", id), fmt.Sprintf("KILL QUERY %d", id))
	for _, q := range []string{"KILL USER steward", "KILL USER 'steward'@'localhost'"} {
		// MariaDB says that it has ended none to whom it doesn't show the sessions.
		if result, err := db.ExecContext(t.Context(), q); err == nil {
			if n, err := result.RowsAffected(); err != nil || n != 0 {
				t.Errorf("%s ends %d sessions, %v", q, n, err)
			}
		}
	}
	var still int64
	if err := admin.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&still); err != nil || still != id {
		t.Errorf("our session %d became %d, %v", id, still, err)
	}
}

func leavesNothingInTmp(t *testing.T, s *enginetest.Server, _ error) {
	for _, pattern := range []string{filepath.Join(s.Node.Tmp, "*"), "/tmp/steward_outside*", "/tmp/defaultdb"} {
		left, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range left {
			if info, err := os.Stat(f); err == nil && !strings.HasPrefix(filepath.Base(f), "#") {
				t.Errorf("%s (%d bytes) was made outside of the data folder", f, info.Size())
			}
		}
	}
}

// asAdmin is a connection of our own account's.
func asAdmin(t *testing.T, s *enginetest.Server) *sql.Conn {
	t.Helper()
	cfg := driver.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr = "steward", s.Node.AdminPassword, "unix", filepath.Join(s.Node.Run, "mysql.sock")
	cfg.Logger = &driver.NopLogger{}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	conn, err := db.Conn(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatalf("connect as steward: %v", err)
	}
	t.Cleanup(func() { conn.Close(); db.Close() })
	return conn
}

// each makes an attempt of every statement.
func each(database string, only func(engine.Installation) bool, statements ...string) []enginetest.Attempt {
	var all []enginetest.Attempt
	for _, q := range statements {
		name := q
		if len(name) > 90 {
			name = name[:90]
		}
		all = append(all, enginetest.Attempt{Name: name, Database: database, SQL: []string{q}, Only: only})
	}
	return all
}

func open(n engine.Node, l enginetest.Login) (*sql.DB, error) {
	cfg := driver.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = l.User, l.Password, l.Database
	cfg.Net, cfg.Addr = "tcp", n.Listen.String()
	cfg.Logger = &driver.NopLogger{}
	cfg.AllowAllFiles = true
	if l.CA != nil {
		cfg.TLS = &tls.Config{RootCAs: l.CA, ServerName: n.Listen.Addr().String(), MinVersion: tls.VersionTLS12}
	}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
