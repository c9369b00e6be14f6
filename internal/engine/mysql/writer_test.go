package mysql_test

import (
	"log/slog"
	"testing"

	"steward/internal/engine/enginetest"
	"steward/internal/engine/mysql"
	"steward/internal/logical"
)

// TestDroppedDatabaseHasNoWriter: who wrote what a source sent into a logical database goes with it, and nobody else's does.
func TestDroppedDatabaseHasNoWriter(t *testing.T) {
	t.Parallel()
	d := mysql.New(slog.New(slog.NewTextHandler(t.Output(), nil)))
	for _, inst := range enginetest.Installations(t, d) {
		t.Run(inst.ID(), func(t *testing.T) {
			t.Parallel()
			s := enginetest.NewBench(t, d, inst, enginetest.Options{Open: open}).Started(t)
			inside := d.Logical(s.Node)
			there := map[string]func() (string, error){}
			for name, slot := range map[string]string{"a_b": "steward_0123456789abcdef", "axb": "steward_fedcba9876543210"} {
				if err := inside.CreateDatabase(t.Context(), logical.Database{Name: name}); err != nil {
					t.Fatal(err)
				}
				var err error
				if there[name], err = d.MakeWriter(t.Context(), s.Node, name, slot); err != nil {
					t.Fatal(err)
				}
			}
			if err := inside.DropDatabase(t.Context(), "a_b"); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"a_b": "0", "axb": "1"} {
				if n, err := there[name](); err != nil || n != want {
					t.Errorf("%s has %s accounts that write, want %s, %v", name, n, want, err)
				}
			}
		})
	}
}
