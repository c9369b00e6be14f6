package converge_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"steward/internal/archive/archivetest"
	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/converge"
	"steward/internal/operation"
	"steward/internal/platform/memplatform"
)

// write has a database hand files over.
func (v *backupBench) write(c cluster.Cluster, names ...string) {
	v.world.Edit(c.ID, func(c *memplatform.Cluster) {
		c.Unarchived = map[string]string{}
		for _, name := range names {
			c.Unarchived[name] = "written"
		}
	})
}

func (v *backupBench) waiting(c cluster.Cluster) int {
	real, _ := v.world.Cluster(c.ID)
	return len(real.Unarchived)
}

// archived are the names of what is in the archive.
func (v *backupBench) archived(c cluster.Cluster) []string {
	v.t.Helper()
	all, err := v.archive.ListSegments(v.t.Context(), c.ID)
	if err != nil {
		return nil // a fault that was asked for
	}
	var names []string
	for _, w := range all {
		names = append(names, w.Name)
	}
	slices.Sort(names)
	return names
}

// TestWhatServersWriteIsArchived from the first backup on, and for as long as
// there is a backup that it follows.
func TestWhatServersWriteIsArchived(t *testing.T) {
	t.Parallel()
	for _, spec := range []cluster.Spec{{Engine: cluster.PostgreSQL, Series: "15", Size: 1}, {Engine: cluster.MySQL, Series: "10.11", Size: 1}} {
		t.Run(string(spec.Engine), func(t *testing.T) {
			t.Parallel()
			archivesWrites(t, spec)
		})
	}
}

func archivesWrites(t *testing.T, spec cluster.Spec) {
	v := newBackupBench(t, converge.BackupOptions{Keep: 1})
	c := v.activeLike(spec)
	v.write(c, "1")
	await.True(v.t, "what nobody can use is dropped", func() bool { return v.waiting(c) == 0 })
	if got := v.archived(c); len(got) > 0 {
		t.Errorf("archived without a key: %v", got)
	}
	v.midnight(c)
	v.write(c, "2", "3", memplatform.Permanent+"1")
	await.True(v.t, "archived", func() bool { return v.waiting(c) == 0 })
	if got := v.archived(c); !slices.Equal(got, []string{"2", "3", memplatform.Permanent + "1"}) {
		t.Errorf("archived: %v", got)
	}
	v.pass(3 * time.Hour)
	v.write(c, "4")
	await.True(v.t, "archived", func() bool { return v.waiting(c) == 0 })
	v.midnight(c) // and the backup before goes
	v.write(c, "5")
	await.True(v.t, "pruned", func() bool { return fmt.Sprint(v.archived(c)) == "[5 permanent.1]" })
}

// TestAnArchiveThatIsAway: files wait, and what had to be dropped is told of once.
func TestAnArchiveThatIsAway(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.active()
	v.midnight(c)
	v.archive.Inject(archivetest.Fault{Call: "PutSegment"})
	v.write(c, "1")
	v.world.Edit(c.ID, func(c *memplatform.Cluster) { c.Overflowed = true })
	await.True(v.t, "told of", func() bool {
		events := v.events(c.ID)
		return len(events) > 0 && events[len(events)-1].Action == operation.ArchiveGap
	})
	v.quiet()
	if v.waiting(c) != 1 {
		t.Error("it waits no more")
	}
	v.archive.Clear()
	await.True(v.t, "archived", func() bool { return v.waiting(c) == 0 && len(v.archived(c)) == 1 })
	told := 0
	for _, e := range v.events(c.ID) {
		if e.Action == operation.ArchiveGap && e.Message == converge.ArchiveGapReason {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told of %d times", told)
	}
}
