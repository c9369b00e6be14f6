package parameter

// refusals says why what clients know can't be chosen, by name. The
// documentation lists them.
func refusals(family string) map[string]string {
	if family == string(PostgreSQL) {
		return refusedPostgreSQL
	}
	return refusedMySQL
}

// Refused are the parameters that clients know and that aren't offered, with why.
func Refused(family string) map[string]string { return refusals(family) }

const (
	notLoaded    = "the extension isn't loaded"
	noStatements = "customers' statements stay out of logs"
	ownStreams   = "steward's own replication and backups rely on it"
	noSlots      = "there are no replication slots and no subscriptions here"
)

var refusedPostgreSQL = map[string]string{
	"pg_stat_monitor_enable":                      notLoaded,
	"pg.pg_stat_monitor.pgsm_enable_query_plan":   notLoaded,
	"pg.pg_stat_monitor.pgsm_max_buckets":         notLoaded,
	"pg.pg_stat_statements.track":                 notLoaded,
	"pg.pg_partman_bgw.role":                      "its worker is dbadmin, who may do all that an owner may",
	"pglookout.max_failover_replication_time_lag": "the replica that has most of the data takes over, at once",
	"pg.default_toast_compression":                "not every build of the server has lz4; a column is given it by ALTER TABLE … SET COMPRESSION",
	"pg.log_autovacuum_min_duration":              "logs are the operator's",
	"pg.log_error_verbosity":                      noStatements,
	"pg.log_line_prefix":                          "logs are the operator's",
	"pg.log_temp_files":                           noStatements,
	"pg.max_connections":                          "it follows from the type's memory",
	"pg.max_logical_replication_workers":          noSlots,
	"pg.max_prepared_transactions":                "prepared transactions would outlive a failover",
	"pg.max_replication_slots":                    noSlots,
	"pg.max_slot_wal_keep_size":                   noSlots,
	"pg.max_stack_depth":                          "it depends on the host's limits",
	"pg.max_wal_senders":                          ownStreams,
	"pg.max_worker_processes":                     "it follows from the type's processors",
	"pg.password_encryption":                      "passwords are kept as SCRAM-SHA-256",
	"pg.wal_sender_timeout":                       ownStreams,
	"pg.synchronous_commit":                       "it is replication_commit_type",
	"synchronous_replication":                     "it is replication_commit_type",
	"pg.autovacuum_freeze_max_age":                "the server would stop when transaction ids run out",
}

var refusedMySQL = map[string]string{
	"mysql.innodb_ft_server_stopword_table": "the server would stop finding words when the table is dropped; sessions set innodb_ft_user_stopword_table",
	"mysql.log_output":                      noStatements,
	"mysql.max_connections":                 "it follows from the type's memory",
	"mysql.innodb_buffer_pool_size":         "it follows from the type's memory",
}
