package backup

import (
	"slices"
	"testing"
	"time"
)

func TestForkFrom(t *testing.T) {
	now := at("2026-02-01 00:00")
	all := []Backup{
		{ID: 1, State: Complete, Created: now.Add(-3 * time.Hour)},
		{ID: 2, State: Complete, Created: now.Add(-2*time.Hour + 300*time.Millisecond)},
		{ID: 3, State: Complete, Created: now.Add(-time.Hour), Problem: "it doesn't start"},
		{ID: 4, State: Failed, Created: now},
		{ID: 5, State: Running, Created: now},
	}
	for _, c := range []struct {
		name string
		at   *time.Time
		want []ID
	}{
		{"the newest first", nil, []ID{2, 1}},
		{"to the second", new(now.Add(-2 * time.Hour)), []ID{2}},
		{"a damaged one", new(now.Add(-time.Hour)), nil},
		{"between two", new(now.Add(-2*time.Hour - time.Second)), nil},
	} {
		var got []ID
		for _, b := range ForkFrom(all, c.at) {
			got = append(got, b.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRecoverFrom(t *testing.T) {
	now := at("2026-02-01 00:00")
	all := []Backup{
		{ID: 1, State: Complete, Created: now.Add(-3 * time.Hour), Finished: new(now.Add(-2 * time.Hour))},
		{ID: 2, State: Complete, Created: now.Add(-time.Hour), Finished: new(now.Add(-30 * time.Minute))},
		{ID: 3, State: Running, Created: now},
	}
	for ago, want := range map[time.Duration][]ID{
		0: {2, 1}, 30 * time.Minute: {2, 1}, 31 * time.Minute: {1}, 150 * time.Minute: nil,
	} {
		var got []ID
		for _, b := range RecoverFrom(all, now.Add(-ago), time.Time{}) {
			got = append(got, b.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v ago: %v, want %v", ago, got, want)
		}
	}
	if got := RecoverFrom(all, now, now.Add(-2*time.Hour)); len(got) != 1 || got[0].ID != 2 {
		t.Errorf("after a restore: %v", got)
	}
	if got := Needs(all, now); !got.Equal(all[0].Created) {
		t.Errorf("needed since %v", got)
	}
	if got := Needs(nil, now); !got.Equal(now) {
		t.Errorf("nothing is needed since %v", got)
	}
}
