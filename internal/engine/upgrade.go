package engine

import (
	"context"
	"strings"
)

// MajorUpgrader is the part of a Driver that moves data to a newer release series. What it does to a data folder it
// does to a copy: nothing of the customer's own data is touched.
type MajorUpgrader interface {
	// UpgradeMissing is why data of one installation can't be moved to another, for customers; "" when it can.
	UpgradeMissing(from, to Installation) string
	// Obstacles are what of the customer's would keep the running server's data from being moved to another
	// installation, a sentence each, for customers; none when nothing is known of.
	Obstacles(ctx context.Context, n Node, to Installation) ([]string, error)
	// TracksChanges reports whether a file, by its path below a data folder, is known to be unchanged once its size and its time
	// of change are: it is written by system calls alone, and not all the time.
	TracksChanges(name string) bool
	// PrepareUpgrade makes what it needs beforehand of an empty folder, while the old server runs.
	PrepareUpgrade(ctx context.Context, to Installation, dir string, run Runner) error
	// Upgrade makes the data at u.Old, which was stopped cleanly, that of another series, at u.New. What it leaves at
	// u.Old may share files with u.New: it is to be thrown away. An ImmovableError tells what of the customer's keeps it from that.
	Upgrade(ctx context.Context, u Upgrade, run Runner) error
	// AdoptSeries makes of a server that was started on upgraded data for the first time one of its series: what we have in it, and what
	// customers may. Called before anybody is let in; repeatable.
	AdoptSeries(ctx context.Context, n Node) error
	// FinishUpgrade makes statistics and all else that can be made while customers use the upgraded server. It leaves out what a
	// customer's own functions keep from ending, and returns a sentence for the customer about that; "" when all was done. Repeatable.
	FinishUpgrade(ctx context.Context, n Node) (note string, err error)
}

// Upgrade is what moves between data folders.
type Upgrade struct {
	From, To Installation
	// Old is stopped data, New a folder that PrepareUpgrade was given.
	Old, New string
	// Run is a folder with a short path for sockets, Work one to work in; both are the server's user's alone.
	Run, Work string
	// Before and After are the node with the old and with the new installation, for what they load.
	Before, After Node
}

// ImmovableError is returned by an upgrade that finds what of the customer's keeps data from being of another series.
type ImmovableError struct {
	// Reasons are a sentence each, for customers.
	Reasons []string
}

func (e *ImmovableError) Error() string { return strings.Join(e.Reasons, " ") }
