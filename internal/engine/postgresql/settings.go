package postgresql

import (
	"path/filepath"
	"strconv"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/parameter"
)

// setting is one line of postgresql.conf. since and until limit it to major
// versions, both inclusive; 0 is no limit.
type setting struct {
	name, value  string
	since, until int
}

// concerns reports whether a major version has the setting.
func (s setting) concerns(major int) bool {
	return major >= s.since && (s.until == 0 || major <= s.until)
}

// settings is the whole configuration of a node. What isn't named here keeps
// the server's default.
func settings(n engine.Node) []setting {
	all := withChosen(append(nodeSettings(n), replicationSettings(n)...), n)
	all = append(all, librarySettings(n)...)
	all = append(all, archiveSettings(n)...)
	return append(all, recoverySettings(n)...)
}

// nodeSettings are those of every node, whether it is alone or not.
func nodeSettings(n engine.Node) []setting {
	mem, disk, cpus := n.Plan.MemoryMB, n.Plan.DiskMB, max(1, n.Plan.VCPUs)
	connections := parameter.PostgreSQLConnections(mem)
	return []setting{
		// Memory.
		{name: "shared_buffers", value: megabytes(parameter.SharedBuffersMB(mem))},
		{name: "effective_cache_size", value: megabytes(max(32, mem*3/4))},
		{name: "max_connections", value: strconv.Itoa(connections)},
		{name: "work_mem", value: megabytes(parameter.WorkMemMB(mem))},
		{name: "maintenance_work_mem", value: megabytes(parameter.MaintenanceMB(mem))},
		// Shared memory made while running lives in the data folder, so that a
		// server that is killed and removed leaves none behind in /dev/shm. What
		// parallel queries and statistics need first comes out of memory all the same.
		{name: "dynamic_shared_memory_type", value: "mmap"},
		{name: "min_dynamic_shared_memory", value: megabytes(within(8, mem/64, 256)), since: 14},
		{name: "max_worker_processes", value: strconv.Itoa(parameter.WorkerProcesses(cpus))},
		{name: "max_parallel_workers", value: strconv.Itoa(cpus)},
		{name: "max_parallel_workers_per_gather", value: strconv.Itoa(within(0, cpus/2, 4))},
		{name: "max_parallel_maintenance_workers", value: strconv.Itoa(within(0, cpus/2, 4))},
		// Compiling queries doubles the memory of short sessions for little gain.
		{name: "jit", value: "off"},

		// Disk. WAL, temporary files and slots stay well inside the plan.
		{name: "max_wal_size", value: megabytes(within(256, disk/20, 16384))},
		{name: "min_wal_size", value: megabytes(within(32, disk/200, 1024))},
		{name: "max_slot_wal_keep_size", value: megabytes(max(256, disk/10))},
		{name: "temp_file_limit", value: megabytes(parameter.TempFilesMB(disk))},
		{name: "checkpoint_timeout", value: "15min"},
		{name: "checkpoint_completion_target", value: "0.9"},
		{name: "random_page_cost", value: "1.1"},
		{name: "effective_io_concurrency", value: "200"},
		// One call instead of an fsync per file after a crash: 0.15 s, not 0.4.
		{name: "recovery_init_sync_method", value: "syncfs", since: 14},

		// Durability.
		{name: "synchronous_commit", value: string(commit(n))},
		{name: "wal_level", value: "replica"},
		{name: "max_wal_senders", value: "10"},
		{name: "max_replication_slots", value: "10"},
		{name: "wal_retrieve_retry_interval", value: "100ms"},
		// Nothing here subscribes: no launcher, and no worker for a customer to
		// send to other addresses.
		{name: "max_logical_replication_workers", value: "0"},
		// The disk guard. A session may lift it for itself, to delete and to vacuum.
		{name: "default_transaction_read_only", value: onOff(n.ReadOnly)},

		// Who logs in, and how.
		{name: "listen_addresses", value: n.Listen.Addr().String()},
		{name: "port", value: strconv.Itoa(int(n.Listen.Port()))},
		{name: "unix_socket_directories", value: n.Run},
		{name: "unix_socket_permissions", value: "0700"},
		{name: "hba_file", value: filepath.Join(n.Conf, accessConf)},
		{name: "ident_file", value: filepath.Join(n.Conf, identConf)},
		{name: "password_encryption", value: "scram-sha-256"},
		// Who doesn't log in takes up a connection for so long.
		{name: "authentication_timeout", value: "10s"},
		{name: "superuser_reserved_connections", value: strconv.Itoa(reservedConnections)},
		{name: "ssl", value: "on"},
		{name: "ssl_cert_file", value: filepath.Join(n.TLS, engine.TLSCert)},
		{name: "ssl_key_file", value: filepath.Join(n.TLS, engine.TLSKey)},
		{name: "ssl_min_protocol_version", value: "TLSv1.2"},
		{name: "ssl_ciphers", value: "ECDHE+AESGCM:ECDHE+CHACHA20"},
		{name: "tcp_keepalives_idle", value: "60"},
		{name: "tcp_keepalives_interval", value: "10"},
		{name: "tcp_keepalives_count", value: "6"},
		{name: "allow_alter_system", value: "off", since: 17},
		// What a role creates it can use, as on servers whose users are made by
		// steward.create_user.
		{name: "createrole_self_grant", value: "set, inherit", since: 16},

		// Log: to standard error, which the platform rotates. Statements,
		// parameters and contexts stay out of it in every way there is, since a
		// failing ALTER ROLE … PASSWORD would be among them. What is left of an
		// error is its message.
		{name: "logging_collector", value: "off"},
		{name: "log_destination", value: "stderr"},
		{name: "log_line_prefix", value: "%m [%p] %q%u@%d "},
		{name: "log_timezone", value: "UTC"},
		{name: "log_statement", value: "none"},
		{name: "log_duration", value: "off"},
		{name: "log_min_duration_statement", value: "-1"},
		{name: "log_min_duration_sample", value: "-1"},
		{name: "log_transaction_sample_rate", value: "0"},
		{name: "log_min_error_statement", value: "panic"},
		{name: "log_error_verbosity", value: "terse"},
		{name: "log_parameter_max_length", value: "0"},
		{name: "log_parameter_max_length_on_error", value: "0"},
		{name: "log_checkpoints", value: "off"},
		{name: "log_temp_files", value: "-1"},
		{name: "log_lock_waits", value: "off"},

		{name: "cluster_name", value: "steward-" + strconv.FormatInt(int64(n.Cluster), 10)},
		{name: "timezone", value: "UTC"},
		{name: "lc_messages", value: "C"},
	}
}

// reservedConnections are ours alone. A meter keeps a further one: whoever comes with the
// customers' last would be refused otherwise.
const (
	reservedConnections = parameter.OwnConnections - meterConnections
	meterConnections    = 1
)

// Connections implements engine.Driver.
func (Driver) Connections(n engine.Node) int {
	return parameter.PostgreSQLSlots(n.Plan.MemoryMB)
}

// commit is the durability asked for; the zero value is the API's default.
func commit(n engine.Node) cluster.Commit {
	if n.Commit == "" {
		return cluster.CommitLocal
	}
	return n.Commit
}

func within(least, v, most int) int { return max(least, min(v, most)) }

func megabytes(n int) string { return strconv.Itoa(n) + "MB" }

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
