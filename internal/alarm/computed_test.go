package alarm

import (
	"testing"
	"time"

	"steward/internal/alert"
	"steward/internal/cluster"
	"steward/internal/store"
)

// TestBackupsAreAskedForWhereThereAreAny: in a region without backups nobody is told that there is none.
func TestBackupsAreAskedForWhereThereAreAny(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	j := New(Options{Backups: true, Without: func(region string, _ cluster.Engine) bool { return region == "kube" }})
	for region, want := range map[string]bool{"local": true, "kube": false} {
		d := &database{AlertSubject: store.AlertSubject{Proven: now.Add(-time.Hour)}}
		d.Region = region
		if age, computed := j.computed(d, now)[alert.BackupAge]; computed != want || computed && age != 3600 {
			t.Errorf("%s: %v, %v", region, age, computed)
		}
	}
}
