package host_test

import (
	"strings"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/parameter"
)

// TestSlowStatementsAreSeen: a database that runs is given a threshold, and what takes longer is found in its logs, without values.
func TestSlowStatementsAreSeen(t *testing.T) {
	t.Parallel()
	for _, flavour := range []engine.Flavour{engine.FlavourPostgreSQL, engine.FlavourMariaDB} {
		t.Run(string(flavour), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, distributionOf(t, flavour))
			d := s.started(t)
			want := s.wanted(t, 1)
			want.Engine, want.Series = s.o.Installations[0].Family(), s.o.Installations[0].Series
			pause := "SELECT pg_sleep(0.2), 'hunter2'"
			config := parameter.Config{"pg.log_min_duration_statement": int64(100)}
			if want.Engine == cluster.MySQL {
				want.Commit, pause, config = "", "SELECT SLEEP(0.2), 'hunter2'", parameter.Config{"mysql.slow_query_log": true, "mysql.long_query_time": 0.1}
			}
			settle(t, d, want)
			want.Config = config
			settle(t, d, want)
			db := s.customerDB(t, want.Cluster)
			defer db.Close()
			if _, err := db.ExecContext(t.Context(), pause); err != nil {
				t.Fatal(err)
			}
			var found []insight.LogLine
			await.True(t, "the statement is logged", func() bool {
				var err error
				if found, err = d.Logs(t.Context(), want.ID, insight.LogQuery{Least: insight.Info, Slow: true, Took: 150 * time.Millisecond, Most: 10}); err != nil {
					t.Fatal(err)
				}
				return len(found) > 0
			})
			for _, l := range found {
				if l.Slow.User != "dbadmin" || l.Slow.Database != "defaultdb" || strings.Contains(l.Text+l.Slow.Text, "hunter2") || !strings.Contains(strings.ToLower(l.Slow.Text), "sleep(?)") {
					t.Errorf("%+v %+v", l, *l.Slow)
				}
			}
		})
	}
}
