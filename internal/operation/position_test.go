package operation_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/operation"
)

func TestPositionIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	snapshot := rapid.Custom(func(t *rapid.T) operation.Snapshot {
		s := operation.Snapshot{Xmin: rapid.Uint64Range(1, 1<<40).Draw(t, "xmin")}
		running := rapid.SliceOfNDistinct(rapid.Uint64Range(s.Xmin, s.Xmin+50), 0, 5, rapid.ID).Draw(t, "running")
		slices.Sort(running)
		s.Xmax = s.Xmin + 51
		if len(running) > 0 {
			s.Running = running
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		p := operation.Position{From: snapshot.Draw(t, "from"), To: snapshot.Draw(t, "to"), Xid: rapid.Uint64Range(0, 1<<40).Draw(t, "xid"), ID: operation.ID(rapid.Int64().Draw(t, "id"))}
		got, ok := operation.ParsePosition(p.String())
		if !ok || got.String() != p.String() {
			t.Fatalf("%s is read as %s, %v", p, got, ok)
		}
		for xid := p.From.Xmin - 1; xid <= p.From.Xmax; xid++ {
			want := xid < p.From.Xmax && !slices.Contains(p.From.Running, xid)
			if p.From.Has(xid) != want {
				t.Fatalf("%s has %d: %v", p.From, xid, !want)
			}
		}
	})
}

func TestPositionRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "1", "1:2", "0:1:", "2:1:", "1:2:3", "1:5:3,2", "1:5:3,3", "01:5:", "1:5:,", "1:5:/", "1:5:/1:6:", "1:5:/1:6:/", "1:5:/1:6:/1", "1:5:/1:6:/1.x",
		"1:5:/1:6:/1.2/3", "-1:5:", "1:99999999999999999999:", "1:5:'; DROP TABLE operations",
	} {
		if p, ok := operation.ParsePosition(text); ok {
			t.Errorf("%q is read as %s", text, p)
		}
	}
}
