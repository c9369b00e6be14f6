package parameter

import (
	"fmt"
	"slices"
	"strings"
)

// StatementStatistics is a parameter that is no setting of the server's: whether statements are counted.
const StatementStatistics = "statement_statistics"

// onlyMySQL are parameters that MariaDB hasn't.
var onlyMySQL = []release{{flavour: MySQL}}

// mysql are those of both flavours; the bounds are the narrower of the two servers'.
func mysql() []Parameter {
	const gigabyte = 1 << 30
	return []Parameter{
		{
			// A log-in that isn't finished takes up a connection for so long.
			Name: "mysql.connect_timeout", Type: Integer, Minimum: 2, Maximum: 60, Example: 10,
			Description: "Seconds that a log-in may take.",
		},
		{
			Name: "mysql.default_time_zone", Type: Text, Pattern: `^(SYSTEM|[+-](0[0-9]|1[0-2]):[0-5][0-9]|\+13:00)$`, MaxLength: 6, Example: "+03:00", setting: "time_zone",
			Description: "Time zone of sessions that don't set their own, as an offset from UTC, or SYSTEM for the server's.",
			check: func(zone string, _ Server) string {
				if zone == "-00:00" {
					return "Must be +00:00 for UTC"
				}
				return ""
			},
		},
		{
			Name: "mysql.group_concat_max_len", Type: Integer, Minimum: 4, Maximum: 1 << 26, Example: 1024,
			Description: "Bytes that GROUP_CONCAT() returns at most.",
		},
		{
			Name: "mysql.information_schema_stats_expiry", Type: Integer, Minimum: 0, Maximum: 31536000, Example: 86400, in: onlyMySQL,
			Description: "Seconds after which figures of tables in information_schema are found out anew.",
		},
		{
			Name: "mysql.innodb_change_buffer_max_size", Type: Integer, Minimum: 0, Maximum: 50, Example: 25, in: []release{{MariaDB, 0, 10}, {flavour: MySQL}},
			Description: "Percent of the buffer pool that changes of indexes may wait in.",
		},
		{
			Name: "mysql.innodb_flush_neighbors", Type: Integer, Minimum: 0, Maximum: 2, Example: 0,
			Description: "Write the changed neighbours of a page with it: 0 no, 1 those next to it, 2 all of its extent.",
		},
		{
			// 0 is taken by some releases of MariaDB 10.11 and becomes 1 in others.
			Name: "mysql.innodb_ft_min_token_size", Type: Integer, Minimum: 1, Maximum: 16, Example: 3, Restart: true,
			Description: "Characters of the shortest words that full-text indexes hold. Indexes that are there have to be made anew.",
		},
		{
			Name: "mysql.innodb_lock_wait_timeout", Type: Integer, Minimum: 1, Maximum: 3600, Example: 50,
			Description: "Seconds that a transaction waits for a lock on a row.",
		},
		{
			Name: "mysql.innodb_log_buffer_size", Type: Integer, Minimum: 1 << 20, Maximum: gigabyte, Step: 4096, Example: 16777216, Restart: true,
			Description: "Bytes in which changes wait to be written to the redo log.",
			most:        func(s Server) int64 { return int64(s.MemoryMB) * mebibyte / 8 },
		},
		{
			Name: "mysql.innodb_online_alter_log_max_size", Type: Integer, Minimum: 65536, Maximum: 1 << 36, Example: 134217728,
			Description: "Bytes that changes made during an online ALTER TABLE may take; a quarter of the disk at most.",
			most:        func(s Server) int64 { return int64(s.DiskMB) * mebibyte / 4 },
		},
		{
			Name: "mysql.innodb_read_io_threads", Type: Integer, Minimum: 1, Maximum: 64, Example: 4, Restart: true,
			Description: "Threads that read ahead.",
		},
		{
			Name: "mysql.innodb_rollback_on_timeout", Type: Boolean, Example: false, Restart: true,
			Description: "Roll the whole transaction back when it waited too long for a lock, not its last statement only.",
		},
		{
			// With more a server refuses to start whose redo log is small.
			Name: "mysql.innodb_thread_concurrency", Type: Integer, Minimum: 0, Maximum: 128, Example: 0, in: onlyMySQL,
			Description: "Threads that work inside InnoDB at once; 0 for any number.",
		},
		{
			Name: "mysql.innodb_write_io_threads", Type: Integer, Minimum: 2, Maximum: 64, Example: 4, Restart: true,
			Description: "Threads that write pages.",
		},
		{
			Name: "mysql.interactive_timeout", Type: Integer, Minimum: 30, Maximum: 604800, Example: 28800,
			Description: "Seconds after which an idle connection of an interactive client is closed.",
		},
		{
			Name: "mysql.internal_tmp_mem_storage_engine", Type: Text, Enum: []string{"TempTable", "MEMORY"}, Example: "TempTable", in: onlyMySQL,
			Description: "What holds temporary tables of queries in memory.",
		},
		{
			Name: "mysql.long_query_time", Type: Number, Minimum: 0, Maximum: 3600, Example: 0.5,
			Description: "Seconds that a statement takes before it is logged where slow_query_log is true, to the microsecond; 10 unless chosen. Sessions can set their own.",
		},
		{
			Name: "mysql.max_allowed_packet", Type: Integer, Minimum: 102400, Maximum: gigabyte, Step: 1024, Example: 67108864,
			Description: "Bytes of the largest statement or row.",
			most:        func(s Server) int64 { return max(64, int64(s.MemoryMB)/8) * mebibyte },
		},
		{
			Name: "mysql.max_heap_table_size", Type: Integer, Minimum: 1 << 20, Maximum: gigabyte, Step: 1024, Example: 16777216,
			Description: "Bytes of the largest table in memory.",
		},
		{
			Name: "mysql.net_buffer_length", Type: Integer, Minimum: 1024, Maximum: 1 << 20, Step: 1024, Example: 16384,
			Description: "Bytes that a connection's buffers begin with.",
		},
		{
			// Replicas and backups are readers, too.
			Name: "mysql.net_read_timeout", Type: Integer, Minimum: 10, Maximum: 3600, Example: 30,
			Description: "Seconds that the server waits for more of what a client sends.",
		},
		{
			Name: "mysql.net_write_timeout", Type: Integer, Minimum: 10, Maximum: 3600, Example: 60,
			Description: "Seconds that the server waits for a client to take what it is sent.",
		},
		{
			Name: "mysql.slow_query_log", Type: Boolean, Example: true, logs: true,
			Description: "Log statements that take longer than long_query_time; GET …/queries/slow shows them without their values. " +
				"The server's file has statements as they were sent, so an encrypted database has none.",
		},
		{
			Name: "mysql.sort_buffer_size", Type: Integer, Minimum: 32768, Maximum: gigabyte, Example: 262144,
			Description: "Bytes that a sort may use before it goes to the disk. A tenth of the sessions doing so at once must fit into the type's memory.",
		},
		{
			Name: "mysql.sql_mode", Type: Text, Pattern: `^([A-Z_]+(,[A-Z_]+)*)?$`, MaxLength: 1024, Example: "ANSI,TRADITIONAL", check: checkModes,
			Description: "Modes of SQL, with commas between, for sessions that don't set their own; empty for none.",
		},
		{
			Name: "mysql.sql_require_primary_key", Type: Boolean, Example: true, in: onlyMySQL,
			Description: "Refuse tables without a primary key.",
		},
		{
			Name: "mysql.tmp_table_size", Type: Integer, Minimum: 1 << 20, Maximum: gigabyte, Step: 16384, Example: 16777216,
			Description: "Bytes of the largest temporary table of a query in memory. A tenth of the sessions having one at once must fit into the type's memory.",
		},
		{
			Name: "mysql.wait_timeout", Type: Integer, Minimum: 1, Maximum: 2147483, Example: 28800,
			Description: "Seconds after which an idle connection is closed.",
		},
		{
			Name: StatementStatistics, Type: Boolean, Example: true, Restart: true,
			Description: "Count what statements cost, for GET …/queries/statistics. It takes some memory, and some microseconds of processor time for each statement. " +
				"Unless chosen, true with MySQL and false with MariaDB, whose small statements take a fifth more of the processor for it.",
		},
		{
			Name: "binlog_retention_period", Type: Integer, Minimum: 600, Maximum: 86400, Example: 900,
			Description: "Seconds for which binary logs are kept, as long as there is room for them in a tenth of the disk: a replica that was away for no longer needs no copy of the data. 900 unless chosen.",
		},
	}
}

// modes of sql_mode that both flavours have.
var modes = strings.Fields(`
	ALLOW_INVALID_DATES ANSI ANSI_QUOTES ERROR_FOR_DIVISION_BY_ZERO HIGH_NOT_PRECEDENCE IGNORE_SPACE NO_AUTO_VALUE_ON_ZERO
	NO_BACKSLASH_ESCAPES NO_DIR_IN_CREATE NO_ENGINE_SUBSTITUTION NO_UNSIGNED_SUBTRACTION NO_ZERO_DATE NO_ZERO_IN_DATE
	ONLY_FULL_GROUP_BY PAD_CHAR_TO_FULL_LENGTH PIPES_AS_CONCAT REAL_AS_FLOAT STRICT_ALL_TABLES STRICT_TRANS_TABLES TRADITIONAL
`)

// modesOf are those that one flavour alone has. MariaDB's modes of other makes of
// servers, which change the language itself, aren't among them.
var modesOf = map[Flavour][]string{
	MariaDB: {"EMPTY_STRING_IS_NULL", "NO_AUTO_CREATE_USER", "SIMULTANEOUS_ASSIGNMENT", "TIME_ROUND_FRACTIONAL"},
	MySQL:   {"TIME_TRUNCATE_FRACTIONAL"},
}

func checkModes(text string, s Server) string {
	if text == "" {
		return ""
	}
	offered := slices.Sorted(slices.Values(append(slices.Clone(modes), modesOf[s.Flavour()]...)))
	for mode := range strings.SplitSeq(text, ",") {
		if !slices.Contains(offered, mode) {
			return fmt.Sprintf("%s doesn't take %s; it takes %s", s.named(), mode, strings.Join(offered, ", "))
		}
	}
	return ""
}
