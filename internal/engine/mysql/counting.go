package mysql

import (
	"context"
	"fmt"
	"path/filepath"

	"steward/internal/engine"
	"steward/internal/parameter"
)

// countsFromMB is the memory of the smallest plan whose server counts statements: that takes some 15 MB of MariaDB and 20 MB of MySQL
// for a hundred connections, and as much again for each 250 more.
const countsFromMB = 1024

// counts reports whether the node's server counts statements, by performance_schema.
func counts(n engine.Node) bool {
	return n.Plan.MemoryMB >= countsFromMB && n.Recovery == nil && wantsCounting(n)
}

// wantsCounting reports whether statements are to be counted: what is chosen, or else with MySQL. MariaDB takes a fifth more of the
// processor for a small statement then, more than an owner should pay who hasn't asked for it.
func wantsCounting(n engine.Node) bool {
	if chosen, ok := n.Config[parameter.StatementStatistics].(bool); ok {
		return chosen
	}
	return n.Installation.Flavour != engine.FlavourMariaDB
}

// countingSettings have performance_schema do that and nothing else: no waits, no histories, no texts with values. It begins with
// a start: a server that is there already goes on without until its next one.
func countingSettings(n engine.Node) ([]setting, []engine.File) {
	if !counts(n) {
		// Worth 240 MB of a MySQL server, as it comes.
		return []setting{{"performance_schema", false, apart}}, nil
	}
	all := []setting{
		{"performance_schema", true, apart},
		{"init_file", uncountedFile(n), apart},
		{"performance_schema_instrument", "%=OFF", apart},
		{"performance_schema_instrument", "statement/sql/%=ON", apart},
		{"performance_schema_instrument", "statement/com/%=ON", apart},
		{"performance_schema_instrument", "statement/abstract/%=ON", apart}, // which each begins as
		{"performance_schema_consumer_events_statements_current", false, apart},
		{"performance_schema_consumer_events_statements_history", false, apart},
		{"performance_schema_digests_size", statementsCounted, apart},
		// Of a statement nothing is kept but its digest.
		{"loose_performance_schema_max_sql_text_length", 0, apart},
		{"performance_schema_max_statement_stack", 1, apart},
		{"performance_schema_setup_actors_size", 10, apart},
		{"performance_schema_setup_objects_size", 10, apart},
	}
	for _, size := range uncounted {
		all = append(all, setting{"loose_performance_schema_" + size, 0, apart})
	}
	return all, []engine.File{{Path: uncountedFile(n), Content: []byte(uncountOurs)}}
}

// statementsCounted is how many statements are told apart.
const statementsCounted = 1000

// uncounted are the sizes of what nobody asks performance_schema for.
var uncounted = []string{
	"max_mutex_instances", "max_rwlock_instances", "max_cond_instances", "max_file_instances", "max_file_handles", "max_socket_instances",
	"max_table_instances", "max_table_handles", "max_table_lock_stat", "max_index_stat", "max_metadata_locks", "max_prepared_statements_instances",
	"max_program_instances", "max_memory_classes", "max_stage_classes", "max_mutex_classes", "max_rwlock_classes", "max_cond_classes", "max_file_classes",
	"max_socket_classes", "events_waits_history_size", "events_waits_history_long_size", "events_stages_history_size", "events_stages_history_long_size",
	"events_statements_history_size", "events_statements_history_long_size", "events_transactions_history_size", "events_transactions_history_long_size",
	"session_connect_attrs_size", "accounts_size", "hosts_size", "users_size", "error_size",
}

// uncountedFile is SQL that the server runs at its start, before anybody connects.
func uncountedFile(n engine.Node) string { return filepath.Join(n.Conf, "start.sql") }

// uncountOurs keeps our accounts' sessions, and what is done by this, out of what is counted. The server wants a statement a line.
const uncountOurs = "SET SESSION sql_log_bin = 0;\n" +
	"INSERT INTO performance_schema.setup_actors (HOST, USER, ROLE, ENABLED, HISTORY) VALUES ('%', '" + adminUser + "', '%', 'NO', 'NO'), ('%', '" + replicaUser + "', '%', 'NO', 'NO');\n" +
	"TRUNCATE TABLE performance_schema.events_statements_summary_by_digest;\n"

// threadRights are all that an account can have in performance_schema, where all sessions' statements are, ours among them. dbadmin had
// them once, and MySQL's could hand them on.
var threadRights = []string{"SELECT", "INSERT", "UPDATE", "DELETE", "DROP", "LOCK TABLES"}

// readsThreads are accounts of others that hold rights everywhere and haven't lost them there, each with which.
const readsThreads = `SELECT User, Host, CONCAT_WS(', ', IF(Select_priv = 'Y', 'SELECT', NULL), IF(Insert_priv = 'Y', 'INSERT', NULL), IF(Update_priv = 'Y', 'UPDATE', NULL),
		IF(Delete_priv = 'Y', 'DELETE', NULL), IF(Drop_priv = 'Y', 'DROP', NULL), IF(Lock_tables_priv = 'Y', 'LOCK TABLES', NULL)) AS Rights
	FROM mysql.user WHERE NOT (Host = 'localhost' AND (User = '` + adminUser + `' OR User LIKE 'mysql.%')) HAVING Rights <> ''`

// withholdThreads takes from customers' accounts what they would see of our sessions. What has been taken already can be taken
// again.
func (s *session) withholdThreads(ctx context.Context, f engine.Flavour) error {
	if f == engine.FlavourMariaDB {
		return s.exec(ctx, mariaDBThreads...)
	}
	accounts, err := s.rows(ctx, readsThreads)
	if err != nil {
		return err
	}
	for _, a := range accounts {
		account := identifier(a[0]) + "@" + identifier(a[1])
		if err := s.exec(ctx, "REVOKE "+a[2]+" ON performance_schema.* FROM "+account); err != nil {
			return fmt.Errorf("fence %s in: %w", account, err)
		}
	}
	return nil
}

// mariaDBThreads leave dbadmin a grant on the schema that is good for nothing: without any the one on all names would hold there.
var mariaDBThreads = []string{
	"GRANT SELECT, SHOW VIEW ON `performance\\_schema`.* TO 'dbadmin'@'%'",
	"REVOKE SELECT ON `performance\\_schema`.* FROM 'dbadmin'@'%'",
}
