package parameter

import (
	"fmt"

	"steward/internal/fault"
)

// The sizes that follow from a plan's memory. Engines render them, and what is
// chosen is judged beside them, so they stand here.

// PostgreSQLConnections are all connections of a PostgreSQL server. They grow slower
// than memory: beyond a few hundred sessions a pool serves customers better.
func PostgreSQLConnections(memoryMB int) int {
	switch {
	case memoryMB < 1024:
		return 50
	case memoryMB < 2048:
		return 100
	case memoryMB < 4096:
		return 150
	case memoryMB < 8192:
		return 200
	case memoryMB < 16384:
		return 300
	}
	return 500
}

// OwnConnections are those of PostgreSQLConnections that are ours alone.
const OwnConnections = 4

// PostgreSQLSlots are the connections of a PostgreSQL server that customers have.
func PostgreSQLSlots(memoryMB int) int { return PostgreSQLConnections(memoryMB) - OwnConnections }

// SharedBuffersMB is PostgreSQL's cache: a quarter, since the kernel caches with the rest.
func SharedBuffersMB(memoryMB int) int { return max(16, memoryMB/4) }

// WorkMemMB is what a step of a query may use: it may do so several times over, and
// a third of the sessions doing so at once is what the plan bears.
func WorkMemMB(memoryMB int) int {
	return max(4, min(memoryMB*3/4/(3*PostgreSQLConnections(memoryMB)), 64))
}

// MaintenanceMB is what a vacuum or the making of an index may use.
func MaintenanceMB(memoryMB int) int { return max(16, min(memoryMB/16, 2048)) }

// MySQLConnections are those of customers on a server of MySQL's family.
func MySQLConnections(memoryMB int64) int64 { return max(50, min(memoryMB/10, 4000)) }

// TempTableMB bounds a temporary table in memory of a server of MySQL's family.
func TempTableMB(memoryMB int64) int64 { return max(8, min(memoryMB/64, 128)) }

// LogBufferMB is what changes wait in to be written to the redo log, unless the customer chose otherwise.
const LogBufferMB = 16

// BufferPoolStepMB divides every buffer pool: MySQL rounds up to chunks, and a rounded
// value would never equal the wanted one.
const BufferPoolStepMB = 128

// bufferPoolShares of a plan's memory go to the buffer pool. Small servers need much for
// the server itself: MySQL takes about 240 MB before anything is cached.
var bufferPoolShares = []struct{ fromMB, percent int64 }{
	{0, 25}, {1536, 37}, {3072, 50}, {6144, 60}, {24576, 70},
}

// BufferPoolMB is InnoDB's cache.
func BufferPoolMB(memoryMB int64) int64 {
	percent := int64(0)
	for _, s := range bufferPoolShares {
		if memoryMB >= s.fromMB {
			percent = s.percent
		}
	}
	return max(BufferPoolStepMB, memoryMB*percent/100/BufferPoolStepMB*BufferPoolStepMB)
}

// A tenth of a plan's memory is left for the server itself and what nobody reckons with.
const usablePercent = 90

const mebibyte = 1 << 20

// Fits names the values that are too much for the plan, each by itself or, of its
// memory, all together.
func (c Config) Fits(s Server) fault.Faults {
	if s.MemoryMB == 0 || len(c) == 0 {
		return nil
	}
	need := c.postgresqlNeed
	if s.Family != string(PostgreSQL) {
		need = c.mysqlNeed
	}
	usable := s.MemoryMB * usablePercent / 100
	var faults fault.Faults
	for _, chosen := range c.Values(s) {
		if n, ok := chosen.Value.(int64); ok && n > chosen.Most(s) {
			faults.Add(field(chosen.Name), "Must be at most %d with the type %s", chosen.Most(s), s.Type)
		}
	}
	used, parts := need(s)
	if used <= usable || len(faults) > 0 {
		return faults
	}
	for _, p := range parts {
		if _, chosen := c[p.name]; !chosen {
			continue
		}
		most := (usable - (used - p.units*p.each)) / p.each * p.scale
		if most < p.least {
			faults.Add(field(p.name), "Needs more memory than the type %s has: %d MB of %d MB with all that is chosen", s.Type, used, usable)
			continue
		}
		faults.Add(field(p.name), "Must be at most %d with the type %s: %s", most, s.Type, p.why)
	}
	return faults
}

// part is what a parameter adds to a server's memory: so many units of each MB. A
// unit is scale of the parameter's own, of which least can be chosen.
type part struct {
	name         string
	units, each  int
	scale, least int
	why          string
}

// postgresqlNeed is the cache, work_mem for a third of the sessions at once, and what
// the automatic vacuums use.
func (c Config) postgresqlNeed(s Server) (usedMB int, parts []part) {
	sessions := max(1, PostgreSQLConnections(s.MemoryMB)/3)
	shared, work, workers := SharedBuffersMB(s.MemoryMB), c.number("work_mem", WorkMemMB(s.MemoryMB)), c.number("pg.autovacuum_max_workers", 3)
	if percent, ok := c.float("shared_buffers_percentage"); ok {
		shared = int(float64(s.MemoryMB) * percent / 100)
	}
	vacuum := MaintenanceMB(s.MemoryMB)
	why := fmt.Sprintf("shared_buffers (%d MB), work_mem for %d sessions at once (%d MB) and %d autovacuum workers (%d MB) must fit into %d MB",
		shared, sessions, work*sessions, workers, workers*vacuum, s.MemoryMB*usablePercent/100)
	percent := max(1, s.MemoryMB/100)
	return shared + work*sessions + workers*vacuum, []part{
		{"shared_buffers_percentage", (shared + percent - 1) / percent, percent, 1, sharedBuffersLeast, why},
		{"work_mem", work, sessions, 1, 1, why},
		{"pg.autovacuum_max_workers", workers, vacuum, 1, 1, why},
	}
}

// mysqlNeed is the server itself, the buffer pool, the log buffer, and a sort and a
// temporary table of a tenth of the sessions at once.
func (c Config) mysqlNeed(s Server) (usedMB int, parts []part) {
	memory := int64(s.MemoryMB)
	sessions := int(max(1, MySQLConnections(memory)/10))
	pool, temp := int(BufferPoolMB(memory)), int(TempTableMB(memory))
	logs := c.megabytes("mysql.innodb_log_buffer_size", LogBufferMB)
	sort := c.megabytes("mysql.sort_buffer_size", 2)
	tables, heap := c.megabytes("mysql.tmp_table_size", temp), c.megabytes("mysql.max_heap_table_size", temp)
	table := max(tables, heap)
	why := fmt.Sprintf("the buffer pool (%d MB), innodb_log_buffer_size (%d MB), and a sort (%d MB) and a temporary table (%d MB) for %d sessions at once must fit into %d MB beside the server's own %d MB",
		pool, logs, sort, table, sessions, s.MemoryMB*usablePercent/100, serverOwnMB(s))
	parts = []part{
		{"mysql.innodb_log_buffer_size", logs, 1, mebibyte, mebibyte, why},
		{"mysql.sort_buffer_size", sort, sessions, mebibyte, mebibyte, why},
	}
	// The larger of the two is what counts.
	if tables >= heap {
		parts = append(parts, part{"mysql.tmp_table_size", tables, sessions, mebibyte, mebibyte, why})
	}
	if heap >= tables {
		parts = append(parts, part{"mysql.max_heap_table_size", heap, sessions, mebibyte, mebibyte, why})
	}
	return serverOwnMB(s) + pool + logs + sessions*(sort+table), parts
}

// serverOwnMB is what a server of MySQL's family takes before anything is cached.
func serverOwnMB(s Server) int {
	if s.Flavour() == MariaDB {
		return min(100, s.MemoryMB/8)
	}
	return min(240, s.MemoryMB/4)
}

func (c Config) number(name string, other int) int {
	if n, ok := c[name].(int64); ok {
		return int(n)
	}
	return other
}

func (c Config) float(name string) (float64, bool) {
	switch v := c[name].(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// megabytes of a value in bytes, rounded up.
func (c Config) megabytes(name string, other int) int {
	if n, ok := c[name].(int64); ok {
		return int((n + mebibyte - 1) / mebibyte)
	}
	return other
}

// LowersPostgreSQL reports whether a plan of so much memory and as many processors has less of something of which a replica must
// not have less than its primary: connections, and worker processes.
func LowersPostgreSQL(memoryMB, cpus, oldMemoryMB, oldCPUs int) bool {
	return PostgreSQLConnections(memoryMB) < PostgreSQLConnections(oldMemoryMB) || WorkerProcesses(cpus) < WorkerProcesses(oldCPUs)
}
