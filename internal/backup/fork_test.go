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
		name   string
		moment *time.Time
		want   []ID
	}{
		{"the newest first", nil, []ID{2, 1}},
		{"to the second", new(now.Add(-2 * time.Hour)), []ID{2}},
		{"a damaged one", new(now.Add(-time.Hour)), nil},
		{"between two", new(now.Add(-2*time.Hour - time.Second)), nil},
	} {
		var got []ID
		for _, b := range ForkFrom(all, c.moment) {
			got = append(got, b.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
