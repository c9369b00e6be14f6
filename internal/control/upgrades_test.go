package control_test

import (
	"slices"
	"testing"

	"steward/internal/cluster"
	"steward/internal/control"
)

// TestNoUpgrade: what keeps data from being moved is said by the member that asks for it, with all else that is wrong.
func TestNoUpgrade(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("acme")
	spec := b.spec()
	spec.Engine, spec.Series = cluster.MySQL, "10.11"
	c, err := b.Clusters.Create(t.Context(), p, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = 'active', host_primary = '192.0.2.1' WHERE id = $1", c.ID); err != nil {
		t.Fatal(err)
	}
	_, err = b.Clusters.Update(t.Context(), p, cluster.MySQL, c.ID, control.UpdateCluster{Version: new("11.8"), Label: new("x")}, nil)
	if got := texts(err); len(got) != 2 || !slices.Contains(got, "version: The build of MariaDB 11.8 on this server lacks the programs that move data between series") {
		t.Errorf("%q", got)
	}
	if err := b.Clusters.CheckUpgrade(t.Context(), p, cluster.MySQL, c.ID, "11.8", nil); !slices.Contains(texts(err), "version: The build of MariaDB 11.8 on this server lacks the programs that move data between series") {
		t.Errorf("tried: %q", texts(err))
	}
}
