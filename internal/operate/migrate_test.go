package operate_test

import (
	"slices"
	"testing"
	"time"

	"steward/internal/logical"
	"steward/internal/migration"
	"steward/internal/platform/memplatform"
	"steward/internal/seal"
)

// TestWhatTheServerWasStillMakingIsRemoved: it makes an import's database to the end for a session that has ended, when the import is
// cancelled or begun anew.
func TestWhatTheServerWasStillMakingIsRemoved(t *testing.T) {
	t.Parallel()
	for _, canceled := range []bool{false, true} {
		b := newBench(t, quick)
		c := b.active()
		edit := func(do func(in *memplatform.Inside)) {
			b.world.Edit(c.ID, func(c *memplatform.Cluster) { do(&c.Inside) })
		}
		b.driver.Inject(memplatform.Fault{Step: memplatform.StepInside, Times: 1, Delay: time.Nanosecond}) // the look for it
		b.driver.Inject(memplatform.Fault{Step: memplatform.StepInside, Times: 1, Err: memplatform.ErrInjected, Do: func() {
			edit(func(in *memplatform.Inside) { in.Coming = "shop" })
		}})
		m, err := b.control.Migrations.Create(t.Context(), b.admin, c.Engine, c.ID, migration.Migration{
			Source: migration.Source{Host: "db.example.org", Port: 5432, Username: "mover", TLS: migration.Verify},
			Mode:   migration.Dump, Databases: []migration.Database{{From: "shop", To: "shop"}},
		}, seal.NewSecret("hunter22"), nil)
		if err != nil {
			t.Fatal(err)
		}
		o := b.last
		if again, _ := b.operator.Run(t.Context(), o); again == 0 {
			t.Fatal("it isn't tried again")
		}
		want, there := migration.Finished, true
		if canceled {
			want, there = migration.Canceled, false
			if err := b.control.Migrations.Delete(t.Context(), b.admin, c.Engine, c.ID, m.ID); err != nil {
				t.Fatal(err)
			}
		}
		b.last = o
		b.runToEnd()
		if got := b.migration(c, m.ID); got.Status != want {
			t.Errorf("it ended as %s: %s", got.Status, got.Problem)
		}
		edit(func(in *memplatform.Inside) {
			if in.Coming != "" {
				t.Errorf("the server still makes %s", in.Coming)
			}
			if got := slices.ContainsFunc(in.Databases, func(d logical.Database) bool { return d.Name == "shop" }); got != there {
				t.Errorf("the database is there: %t, want %t", got, there)
			}
		})
	}
}
