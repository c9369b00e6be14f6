package backup

import (
	"slices"
	"testing"
	"time"
)

func TestExpired(t *testing.T) {
	now := at("2026-02-01 00:00")
	var all []Backup
	for i := range 10 {
		all = append(all, Backup{ID: ID(i + 1), Type: Auto, State: Complete, Created: now.AddDate(0, 0, -i)})
	}
	all = append(all,
		Backup{ID: 20, Type: Snapshot, State: Complete, Created: now.AddDate(-1, 0, 0)},
		Backup{ID: 21, Type: Auto, State: Failed, Created: now.Add(-25 * time.Hour)},
		Backup{ID: 22, Type: Auto, State: Failed, Created: now.Add(-time.Hour)},
		Backup{ID: 23, Type: Auto, State: Running, Created: now.AddDate(0, 0, -9)})
	ids := func(list []Backup) (ids []ID) {
		for _, b := range list {
			ids = append(ids, b.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if got := ids(Expired(all, Autos, now)); !slices.Equal(got, []ID{8, 9, 10, 21}) {
		t.Errorf("dropped: %v", got)
	}
	if got := ids(Expired(all[:1], 0, now)); got != nil {
		t.Errorf("the last one is dropped: %v", got)
	}
}
