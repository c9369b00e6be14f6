package converge

import (
	"testing"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
)

// TestAutomaticBackupsLeaveRoom: one account's don't keep another's from beginning,
// and snapshots that somebody asked for keep nobody's.
func TestAutomaticBackupsLeaveRoom(t *testing.T) {
	t.Parallel()
	const greedy, modest = account.ID(1), account.ID(2)
	all := map[cluster.ID][]backup.Backup{}
	add := func(kind backup.Type, n int) {
		for range n {
			id := cluster.ID(len(all) + 1)
			all[id] = []backup.Backup{{Account: greedy, Cluster: id, Type: kind, State: backup.Running}}
		}
	}
	add(backup.Snapshot, 2*backupsAtOnce)
	if going := goingOn(all); !going.room(modest) || !going.room(greedy) {
		t.Error("snapshots keep automatic backups from beginning")
	}
	add(backup.Auto, backupsAtOnce-1)
	if going := goingOn(all); !going.room(modest) || going.room(greedy) {
		t.Error("the last place isn't kept for who has none")
	}
	add(backup.Auto, 1)
	if goingOn(all).room(modest) {
		t.Error("more begin than may")
	}
}
