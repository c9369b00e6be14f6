package mysql

import (
	"steward/internal/catalog"
	"steward/internal/engine"
)

// tuning is what follows from a plan's memory and disk.
type tuning struct {
	// poolMB is InnoDB's cache.
	poolMB int64
	// redoMB bounds the redo log, and so the time a crash recovery takes.
	redoMB int64
	// connections are the customer's.
	connections int64
	tables      int64
	// tempTableMB bounds one temporary table in memory, tempDiskMB what
	// temporary tables may take from the disk.
	tempTableMB int64
	tempDiskMB  int64
	// tempTableDiskMB bounds one temporary table on the disk, where the server can.
	tempTableDiskMB int64
	// binlogMB is the size of one binary log, binlogTotalMB of all where the
	// server can bound that.
	binlogMB      int64
	binlogTotalMB int64
}

// Shares of a plan's memory that go to the buffer pool. Small servers need much
// for the server itself: MySQL takes about 240 MB before anything is cached.
var poolShares = []struct {
	fromMB  int64
	percent int64
}{
	{0, 25}, {1536, 37}, {3072, 50}, {6144, 60}, {24576, 70},
}

// poolStepMB divides every pool: MySQL rounds up to chunks, and a rounded value
// would never equal the wanted one.
const poolStepMB = 128

// ownConnections are left for us when the customer has used up all of theirs.
const ownConnections = 16

// Connections is part of engine.Driver.
func (d *Driver) Connections(n engine.Node) int { return int(tune(n.Plan).connections) }

func tune(p catalog.Plan) tuning {
	memory, disk := int64(p.MemoryMB), int64(p.DiskMB)
	percent := int64(0)
	for _, s := range poolShares {
		if memory >= s.fromMB {
			percent = s.percent
		}
	}
	t := tuning{
		poolMB:      max(poolStepMB, memory*percent/100/poolStepMB*poolStepMB),
		connections: clamp(memory/10, 50, 4000),
		tables:      clamp(memory, 1000, 8000),
		tempTableMB: clamp(memory/64, 8, 128),
		tempDiskMB:  clamp(disk/4, 256, 65536),

		tempTableDiskMB: clamp(disk/16, 64, 16384),
		binlogMB:        clamp(disk/256, 16, 256),
	}
	t.redoMB = clamp(t.poolMB/4, 48, min(2048, disk/16))
	t.binlogTotalMB = max(t.binlogMB*4, disk/10)
	return t
}

// clamp holds v between low and high; low wins.
func clamp(v, low, high int64) int64 { return max(low, min(v, high)) }
