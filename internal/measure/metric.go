package measure

import (
	"math"

	"steward/internal/cluster"
)

// Metric is a metric's number in the history. The numbers are a stored format: new
// metrics go to the end, and no number is used again.
type Metric uint8

// The metrics.
const (
	Up Metric = iota + 1
	Primary
	CPUUsage
	MemoryUsage
	MemoryUsed
	AvailableMemory
	DiskUsage
	DiskUsed
	AvailableDisk
	ReadOps
	WriteOps
	ReadBytes
	WriteBytes
	NetworkIn
	NetworkOut
	Connections
	ConnectionsActive
	ConnectionsIdle
	ConnectionsInTransaction
	ConnectionsMax
	Commits
	Rollbacks
	Queries
	Selects
	Inserts
	Updates
	Deletes
	RowsReturned
	RowsRead
	RowsInserted
	RowsUpdated
	RowsDeleted
	CacheHitRatio
	TemporaryFiles
	TemporaryBytes
	LocksWaiting
	Deadlocks
	LongestTransaction
	LongestQuery
	ReplicationLagBytes
	ReplicationLag
	LogBytes
	ArchiveLag
	ArchiveWaiting
	Checkpoints
	TransactionIDAge
	DatabaseSize
	ConnectionUsage
	Restarts
	CertificateLeft
	ConfirmingReplicas
	end
)

// Count is one more than the highest number of a metric.
const Count = int(end)

// Unit is what a metric is measured in, in the words of the cloud's API.
type Unit string

// The units. A gigabyte has 2^30 bytes.
const (
	Number         Unit = "count"
	Percent        Unit = "percent"
	Bytes          Unit = "byte"
	Gigabytes      Unit = "GB"
	Seconds        Unit = "second"
	BytesPerSecond Unit = "bytes_per_second"
	PerSecond      Unit = "ops_per_second"
	IOPS           Unit = "iops"
)

// Across is how the values of a cluster's nodes become one of the cluster.
type Across string

// Of what each node has of its own the whole is the sum; a share of a node's means is best
// told as the mean; of what goes wrong the worst counts.
const (
	Sum  Across = "sum"
	Mean Across = "avg"
	Max  Across = "max"
)

// Definition is what there is to know of a metric.
type Definition struct {
	Metric Metric
	Name   string
	// Label is for people, Doc says what exactly is measured.
	Label, Doc string
	Unit       Unit
	// Counter reports whether the server counts it: what is kept is the rate per second.
	Counter bool
	Across  Across
	// Engine has it; "" for all.
	Engine cluster.Engine
}

// Of reports whether databases of an engine have the metric.
func (d Definition) Of(engine cluster.Engine) bool { return d.Engine == "" || d.Engine == engine }

// Definitions are all metrics, in the order of their numbers.
func Definitions() []Definition { return definitions }

// Find is the metric of a name.
func Find(name string) (Definition, bool) {
	for _, d := range definitions {
		if d.Name == name {
			return d, true
		}
	}
	return Definition{}, false
}

// Definition is what there is to know of the metric.
func (m Metric) Definition() Definition { return definitions[m-1] }

var definitions = []Definition{
	gauge(Up, "up", "Server answers", "1 while the server answers, 0 while it should and doesn't.", Number, Sum),
	gauge(Primary, "primary", "Is the primary", "1 on the node that takes writes, 0 on others.", Number, Sum),
	gauge(CPUUsage, "cpu_usage", "CPU usage", "Processor time in use, of the plan's processors.", Percent, Mean),
	gauge(MemoryUsage, "memory_usage", "Memory usage", "Memory in use, of the plan's, without what the kernel only keeps of files.", Percent, Mean),
	gauge(MemoryUsed, "memory_used", "Memory used", "Memory in use, without what the kernel only keeps of files.", Bytes, Sum),
	gauge(AvailableMemory, "available_memory", "Available memory", "The plan's memory that isn't in use.", Gigabytes, Sum),
	gauge(DiskUsage, "disk_usage", "Disk usage", "Disk in use, of the plan's.", Percent, Max),
	gauge(DiskUsed, "disk_used", "Disk used", "Disk in use by all of a node's files.", Bytes, Sum),
	gauge(AvailableDisk, "available_disk", "Available disk", "The plan's disk that isn't in use.", Gigabytes, Sum),
	counter(ReadOps, "read_iops", "Disk reads", "Read operations of the server's processes.", IOPS),
	counter(WriteOps, "write_iops", "Disk writes", "Write operations of the server's processes.", IOPS),
	counter(ReadBytes, "read_bytes", "Bytes read", "What the server's processes had read from storage.", BytesPerSecond),
	counter(WriteBytes, "write_bytes", "Bytes written", "What the server's processes had written to storage.", BytesPerSecond),
	counter(NetworkIn, "network_in", "Network in", "What the server received by its network; only where servers have networks of their own.", BytesPerSecond),
	counter(NetworkOut, "network_out", "Network out", "What the server sent by its network; only where servers have networks of their own.", BytesPerSecond),
	gauge(Connections, "connections", "Connections", "Sessions of customers.", Number, Sum),
	gauge(ConnectionsActive, "connections_active", "Active connections", "Sessions that carry out a statement.", Number, Sum),
	gauge(ConnectionsIdle, "connections_idle", "Idle connections", "Sessions that have nothing to do and nothing open.", Number, Sum),
	gauge(ConnectionsInTransaction, "connections_in_transaction", "Connections idle in transaction", "Sessions that have a transaction open and nothing to do.", Number, Sum),
	gauge(ConnectionsMax, "connections_max", "Most connections", "Sessions that customers may have at once.", Number, Sum),
	counter(Commits, "transactions_committed", "Commits", "Transactions that were committed. On MySQL and MariaDB, COMMIT statements.", PerSecond),
	counter(Rollbacks, "transactions_rolled_back", "Rollbacks", "Transactions that were rolled back. On MySQL and MariaDB, ROLLBACK statements.", PerSecond),
	counter(Queries, "queries", "Queries", "Statements that clients sent, and some a second by which steward looks after the server.", PerSecond).only(cluster.MySQL),
	counter(Selects, "selects", "SELECTs", "SELECT statements.", PerSecond).only(cluster.MySQL),
	counter(Inserts, "inserts", "INSERTs", "INSERT and REPLACE statements.", PerSecond).only(cluster.MySQL),
	counter(Updates, "updates", "UPDATEs", "UPDATE statements.", PerSecond).only(cluster.MySQL),
	counter(Deletes, "deletes", "DELETEs", "DELETE statements.", PerSecond).only(cluster.MySQL),
	counter(RowsReturned, "rows_returned", "Rows returned", "Live rows that scans of tables and indexes came across.", PerSecond).only(cluster.PostgreSQL),
	counter(RowsRead, "rows_read", "Rows read", "Rows that were read.", PerSecond),
	counter(RowsInserted, "rows_inserted", "Rows inserted", "Rows that were inserted.", PerSecond),
	counter(RowsUpdated, "rows_updated", "Rows updated", "Rows that were updated.", PerSecond),
	counter(RowsDeleted, "rows_deleted", "Rows deleted", "Rows that were deleted.", PerSecond),
	gauge(CacheHitRatio, "cache_hit_ratio", "Cache hits", "Pages found in the server's cache, of those that were looked for; nothing while none are.", Percent, Mean),
	counter(TemporaryFiles, "temporary_files", "Temporary files", "Temporary files that statements made. On MySQL and MariaDB, temporary tables on the disk.", PerSecond),
	counter(TemporaryBytes, "temporary_bytes", "Temporary bytes", "What statements wrote to temporary files.", BytesPerSecond).only(cluster.PostgreSQL),
	gauge(LocksWaiting, "locks_waiting", "Waiting for locks", "Sessions that wait for a lock.", Number, Sum),
	counter(Deadlocks, "deadlocks", "Deadlocks", "Deadlocks that were found.", PerSecond),
	gauge(LongestTransaction, "longest_transaction", "Longest transaction", "Age of the oldest transaction of a customer.", Seconds, Max),
	gauge(LongestQuery, "longest_query", "Longest query", "For how long the oldest statement of a customer's has been running.", Seconds, Max),
	gauge(ReplicationLagBytes, "replication_lag_bytes", "Replication lag in bytes", "What of the primary's log a replica hasn't applied.", Bytes, Max),
	gauge(ReplicationLag, "replication_lag", "Replication lag", "How long ago what a replica applied last was written, while there is more to apply.", Seconds, Max),
	counter(LogBytes, "log_bytes", "Log written", "WAL, or binary log, that was written, or received by a replica.", BytesPerSecond),
	gauge(ArchiveLag, "archive_lag", "Archive lag", "Age of the oldest finished segment that waits to be archived. On MySQL and MariaDB, how long ago all was archived that was finished, 0 within a minute.", Seconds, Max),
	gauge(ArchiveWaiting, "archive_waiting", "Waiting for the archive", "Finished segments that wait to be archived.", Number, Max).only(cluster.PostgreSQL),
	counter(Checkpoints, "checkpoints", "Checkpoints", "Checkpoints, also those that were asked for.", PerSecond).only(cluster.PostgreSQL),
	gauge(TransactionIDAge, "transaction_id_age", "Transaction id age", "How far the oldest transaction id is on its way to the wraparound, at which the server takes no more writes.", Percent, Max).only(cluster.PostgreSQL),
	gauge(DatabaseSize, "database_size", "Database size", "Size of all logical databases.", Bytes, Max).only(cluster.PostgreSQL),
	gauge(ConnectionUsage, "connection_usage", "Connection usage", "Sessions of customers, of those that they may have at once.", Percent, Max),
	gauge(Restarts, "restarts", "Restarts", "1 when the server was started again since the reading before because it had ended by itself, otherwise 0.", Number, Sum),
	gauge(CertificateLeft, "certificate_left", "Certificate's time", "How long the server's certificate is valid still.", Seconds, Max),
	gauge(ConfirmingReplicas, "replication_confirming", "Confirming replicas", "Replicas that confirm commits, on a primary that waits for one of them.", Number, Max),
}

func gauge(m Metric, name, label, doc string, unit Unit, across Across) Definition {
	return Definition{Metric: m, Name: name, Label: label, Doc: doc, Unit: unit, Across: across}
}

func counter(m Metric, name, label, doc string, unit Unit) Definition {
	d := gauge(m, name, label, doc, unit, Sum)
	d.Counter = true
	return d
}

func (d Definition) only(engine cluster.Engine) Definition {
	d.Engine = engine
	return d
}

// Values are those of all metrics, by number; NaN for what isn't known.
type Values [Count]float64

// Unknown are values of which none is known.
func Unknown() Values {
	var v Values
	for i := range v {
		v[i] = math.NaN()
	}
	return v
}

// Known reports whether any is.
func (v *Values) Known() bool {
	for _, one := range v {
		if !math.IsNaN(one) {
			return true
		}
	}
	return false
}
