package mysql

import (
	"steward/internal/catalog"
	"steward/internal/engine"
	"steward/internal/parameter"
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

// ownConnections are left for us when the customer has used up all of theirs.
const ownConnections = 16

// Connections implements engine.Driver.
func (d *Driver) Connections(n engine.Node) int { return int(tune(n.Plan).connections) }

func tune(p catalog.Plan) tuning {
	memory, disk := int64(p.MemoryMB), int64(p.DiskMB)
	t := tuning{
		poolMB:      parameter.BufferPoolMB(memory),
		connections: parameter.MySQLConnections(memory),
		tables:      clamp(memory, 1000, 8000),
		tempTableMB: parameter.TempTableMB(memory),
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
