package cluster_test

import (
	"testing"

	"steward/internal/cluster"
)

func TestSeriesOf(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"postgresql-15.18-debian": "15", "mariadb-10.11.14-debian": "10.11", "mysql-9.7.4-debian-unpacked": "9.7", "": "", "postgresql": "", "ghcr.io/postgresql:15": "",
	} {
		if got := cluster.SeriesOf(id); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}
