package parameter

import (
	"slices"
	"strings"
)

// The bounds are PostgreSQL's own or narrower; where a parameter's effect on what
// steward does is the reason, the description or a comment says so.

// sharedBuffersLeast is the smallest share of the memory, in percent.
const sharedBuffersLeast = 20

var onOff = []string{"off", "on"}

func postgresql() []Parameter {
	return slices.SortedFunc(slices.Values(append(ownPostgreSQL(), libraryParameters()...)), func(a, b Parameter) int { return strings.Compare(a.Name, b.Name) })
}

// ownPostgreSQL are the parameters of the server itself.
func ownPostgreSQL() []Parameter {
	const day = 24 * 60 * 60 * 1000 // milliseconds
	return []Parameter{
		{
			Name: "pg.autovacuum_analyze_scale_factor", Type: Number, Minimum: 0, Maximum: 1, Example: 0.1,
			Description: "Fraction of a table's rows that is added to autovacuum_analyze_threshold when deciding whether to analyze it.",
		},
		{
			Name: "pg.autovacuum_analyze_threshold", Type: Integer, Minimum: 0, Maximum: 2147483647, Example: 50,
			Description: "Rows of a table that must have changed before it is analyzed.",
		},
		{
			// 18 has slots for 16, which need a restart to be more.
			Name: "pg.autovacuum_max_workers", Type: Integer, Minimum: 1, Maximum: 16, Example: 3, Restart: true,
			Description: "How many tables are vacuumed at the same time at most.",
		},
		{
			Name: "pg.autovacuum_naptime", Type: Integer, Minimum: 1, Maximum: 86400, Example: 60, unit: "s",
			Description: "Seconds between two looks at a database for tables to vacuum.",
		},
		{
			Name: "pg.autovacuum_vacuum_cost_delay", Type: Integer, Minimum: -1, Maximum: 100, Example: 2, unit: "ms",
			Description: "Milliseconds that an automatic vacuum rests when it has used up its cost limit; -1 for vacuum_cost_delay.",
		},
		{
			Name: "pg.autovacuum_vacuum_cost_limit", Type: Integer, Minimum: -1, Maximum: 10000, Example: -1,
			Description: "Cost after which an automatic vacuum rests; -1 for vacuum_cost_limit.",
		},
		{
			Name: "pg.autovacuum_vacuum_scale_factor", Type: Number, Minimum: 0, Maximum: 1, Example: 0.2,
			Description: "Fraction of a table's rows that is added to autovacuum_vacuum_threshold when deciding whether to vacuum it.",
		},
		{
			Name: "pg.autovacuum_vacuum_threshold", Type: Integer, Minimum: 0, Maximum: 2147483647, Example: 50,
			Description: "Rows of a table that must have been changed or deleted before it is vacuumed.",
		},
		{
			Name: "pg.bgwriter_delay", Type: Integer, Minimum: 10, Maximum: 10000, Example: 200, unit: "ms",
			Description: "Milliseconds between two rounds of the background writer.",
		},
		{
			// The server counts blocks of 8 kB.
			Name: "pg.bgwriter_flush_after", Type: Integer, Minimum: 0, Maximum: 2048, Step: 8, Example: 512, unit: "kB",
			Description: "Kilobytes that the background writer writes before it asks the system to put them on the disk; 0 leaves that to the system.",
		},
		{
			Name: "pg.bgwriter_lru_maxpages", Type: Integer, Minimum: 0, Maximum: 1073741823, Example: 100,
			Description: "Pages that the background writer writes in a round at most; 0 switches it off.",
		},
		{
			Name: "pg.bgwriter_lru_multiplier", Type: Number, Minimum: 0, Maximum: 10, Example: 2.0,
			Description: "How many times the pages that were needed lately the background writer makes ready.",
		},
		{
			Name: "pg.deadlock_timeout", Type: Integer, Minimum: 500, Maximum: 1800000, Example: 1000, unit: "ms",
			Description: "Milliseconds that a session waits for a lock before it looks for a deadlock.",
		},
		{
			Name: "pg.idle_in_transaction_session_timeout", Type: Integer, Minimum: 0, Maximum: 7 * day, Example: 60000, unit: "ms",
			Description: "Milliseconds after which a session is ended that does nothing within a transaction; 0 never ends it.",
		},
		{
			Name: "pg.jit", Type: Boolean, Example: true,
			Description: "Compile long queries. It is off unless chosen, since it doubles the memory of short sessions.",
		},
		{
			Name: "pg.log_min_duration_statement", Type: Integer, Minimum: -1, Maximum: day, Example: 500, unit: "ms", logs: true,
			Description: "Milliseconds that a statement takes before it is logged, and shown without its values by GET …/queries/slow; 0 logs all, -1, the default, none. " +
				"The server's file has statements as they were sent.",
		},
		{
			Name: "pg.max_files_per_process", Type: Integer, Minimum: 1000, Maximum: 4096, Example: 1000, Restart: true,
			Description: "Files that a session keeps open at most.",
		},
		{
			Name: "pg.max_locks_per_transaction", Type: Integer, Minimum: 64, Maximum: 6400, Example: 64, Restart: true, replicated: true,
			Description: "Locks on tables, for each session, that there is room for. Raise it when the server is out of shared memory for locks. " +
				"Lowering it restarts the primary of three nodes without a switchover.",
			most: func(s Server) int64 { // about 270 bytes a lock, an eighth of the memory at most
				return int64(s.MemoryMB) * mebibyte / 8 / 270 / int64(PostgreSQLConnections(s.MemoryMB)+40)
			},
		},
		{
			Name: "pg.max_parallel_workers", Type: Integer, Minimum: 0, Maximum: 96, Example: 2, most: workerProcesses,
			Description: "Workers of all parallel queries together; 0 for none.",
		},
		{
			Name: "pg.max_parallel_workers_per_gather", Type: Integer, Minimum: 0, Maximum: 96, Example: 2, most: workerProcesses,
			Description: "Workers of one parallel query; 0 for none.",
		},
		{
			Name: "pg.max_pred_locks_per_transaction", Type: Integer, Minimum: 64, Maximum: 5120, Example: 64, Restart: true,
			Description: "Locks of serializable transactions, for each session, that there is room for.",
			most: func(s Server) int64 {
				return int64(s.MemoryMB) * mebibyte / 8 / 270 / int64(PostgreSQLConnections(s.MemoryMB)+40)
			},
		},
		{
			Name: "pg.max_standby_archive_delay", Type: Integer, Minimum: 1, Maximum: maxStandbyDelay, Example: 30000, unit: "ms",
			Description: "As max_standby_streaming_delay, for what a replica reads from the archive.",
		},
		{
			Name: "pg.max_standby_streaming_delay", Type: Integer, Minimum: 1, Maximum: maxStandbyDelay, Example: 30000, unit: "ms",
			Description: "Milliseconds for which a query on a replica may hold up what it reads; for so long a takeover by that replica may be held up, too. It has an effect on three nodes.",
		},
		{
			Name: "pg.temp_file_limit", Type: Integer, Minimum: 1024, Maximum: 2147483647, Example: 1048576, unit: "kB",
			Description: "Kilobytes of temporary files that a session may use; no more than the type gives.",
			most:        func(s Server) int64 { return int64(TempFilesMB(s.DiskMB)) << 10 },
		},
		{
			Name: "pg.timezone", Type: Text, Enum: timezones, Example: "Europe/Berlin",
			Description: "Time zone in which sessions read and write times unless they set their own.",
		},
		{
			Name: "pg.track_activity_query_size", Type: Integer, Minimum: 1024, Maximum: 10240, Example: 1024, Restart: true,
			Description: "Bytes of a session's query that pg_stat_activity shows.",
		},
		{
			Name: "pg.track_commit_timestamp", Type: Text, Enum: onOff, Example: "off", Restart: true,
			Description: "Record when each transaction was committed.",
		},
		{
			Name: "pg.track_functions", Type: Text, Enum: []string{"all", "pl", "none"}, Example: "none",
			Description: "Count calls of functions and the time they take: all, those in procedural languages, or none.",
		},
		{
			Name: "pg.track_io_timing", Type: Text, Enum: onOff, Example: "off",
			Description: "Measure the time that reads and writes take.",
		},
		{
			Name: "pg.wal_writer_delay", Type: Integer, Minimum: 10, Maximum: 200, Example: 200, unit: "ms",
			Description: "Milliseconds between two rounds of the WAL writer. With replication_commit_type off, three times that may be lost.",
		},
		{
			Name: "shared_buffers_percentage", Type: Number, Minimum: sharedBuffersLeast, Maximum: 60, Example: 25.5, Restart: true, setting: "shared_buffers",
			Description: "Percent of the type's memory that the server's own cache takes; 25 unless chosen.",
		},
		{
			Name: "work_mem", Type: Integer, Minimum: 1, Maximum: 1024, Example: 4, unit: "MB",
			Description: "Megabytes that a sort or a hash table of a query may use before it goes to the disk. A third of the sessions doing so at once must fit into the type's memory.",
		},
	}
}

// maxStandbyDelay is five minutes, in milliseconds: see max_standby_streaming_delay.
const maxStandbyDelay = 5 * 60 * 1000

// TempFilesMB is what temporary files of a PostgreSQL session may take of the plan's disk.
func TempFilesMB(diskMB int) int { return max(512, diskMB/10) }

// WorkerProcesses are PostgreSQL's background workers.
func WorkerProcesses(cpus int) int { return 8 + max(1, cpus) }

func workerProcesses(s Server) int64 { return int64(WorkerProcesses(s.VCPUs)) }
