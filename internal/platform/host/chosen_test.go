package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/parameter"
	"steward/internal/platform"
)

// chosen is a setting that needs a restart, and that no server has by itself.
func chosen(engine cluster.Engine) parameter.Config {
	if engine == cluster.MySQL {
		return parameter.Config{"mysql.innodb_ft_min_token_size": int64(2), parameter.StatementStatistics: true}
	}
	return parameter.Config{"pg.max_locks_per_transaction": int64(128)}
}

// configured demands that every node's files have what was chosen, whatever befell it,
// and whoever wrote them last: the store may be away.
func (h *threeNodes) configured() {
	h.t.Helper()
	for ordinal := range h.want.Size {
		file, line := "postgresql.conf", fmt.Sprintf("max_locks_per_transaction = '%d'", h.want.Config["pg.max_locks_per_transaction"])
		if h.want.Engine == cluster.MySQL {
			file, line = "my.cnf", fmt.Sprintf("innodb_ft_min_token_size = %d", h.want.Config["mysql.innodb_ft_min_token_size"])
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(h.data(ordinal)), "conf", file))
		if err != nil || !strings.Contains(string(text), line) {
			h.t.Errorf("node %d has lost what was chosen (%v)", ordinal, err)
		}
	}
}

// reconfigures chooses more of something, and then less, while customers write. On the
// way no replica ends because it has less than its primary.
func (h *threeNodes) reconfigures() {
	for _, config := range []parameter.Config{
		{"pg.max_locks_per_transaction": int64(256), "mysql.innodb_ft_min_token_size": int64(4)}, chosen(h.want.Engine),
	} {
		before, after := h.underLoad(quick, func(platform.Observed) {
			h.stop()
			h.keeping.Wait()
			h.want.Config = config
			h.keep()
			await.True(h.t, "the settings", func() bool {
				now, err := h.driver.Apply(h.t.Context(), h.want)
				return err == nil && now.Settled
			})
		})
		for i, n := range after.Nodes {
			if n.Pid == before.Nodes[i].Pid || n.Restarts != before.Nodes[i].Restarts {
				h.t.Errorf("node %d is process %d, was %d, and was restarted %d times after it ended, before %d times",
					n.Ordinal, n.Pid, before.Nodes[i].Pid, n.Restarts, before.Nodes[i].Restarts)
			}
		}
	}
}

// TestSettingsThatAServerRefuses: whatever the rules let through, a server comes back
// with the settings it had, be it one that won't start with others or that won't take
// them while it runs.
func TestSettingsThatAServerRefuses(t *testing.T) {
	t.Parallel()
	s := newSite(t, distribution(t))
	d := s.started(t)
	want := s.wanted(t, 1)
	want.Config = parameter.Config{"pg.max_locks_per_transaction": int64(80)}
	settle(t, d, want)
	for _, refused := range []parameter.Config{
		{"pg.timezone": "Nowhere/Land", "pg.max_locks_per_transaction": int64(80)},
		{"pg.timezone": "Nowhere/Land", "pg.max_locks_per_transaction": int64(90)},
	} {
		other := want
		other.Config = refused
		if seen, err := d.Apply(t.Context(), other); err == nil && seen.Settled {
			t.Errorf("%v: it is settled", refused)
		}
		if seen := settle(t, d, want); !seen.Serving {
			t.Errorf("after %v: %+v", refused, seen)
		}
	}
}

// TestLessWaitsForReplicas: a replica that is to have less of what it must not have less
// of than its primary is only stopped once it has applied that the primary has less, too.
func TestLessWaitsForReplicas(t *testing.T) {
	t.Parallel()
	s := newSite(t, distribution(t))
	d := s.started(t)
	want := s.wanted(t, 3)
	want.Size, want.Replication, want.Commit = 3, cluster.Asynch, cluster.CommitLocal
	want.Config = parameter.Config{"pg.max_locks_per_transaction": int64(256)}
	before := settle(t, d, want)
	s.replicasRun(t, before, want, "SELECT pg_wal_replay_pause()")
	less := want
	less.Config = chosen(want.Engine)
	applied := make(chan error, 1)
	go func() {
		_, err := d.Apply(t.Context(), less)
		applied <- err
	}()
	pids := func() (primary int, replicas []int) {
		seen, err := d.Observe(t.Context(), want.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range seen.Nodes {
			if n.Role == cluster.Primary {
				primary = n.Pid
			} else {
				replicas = append(replicas, n.Pid)
			}
		}
		return primary, replicas
	}
	was, had := pids()
	await.True(t, "the primary to be restarted", func() bool { now, _ := pids(); return now != was && now != 0 })
	// That something doesn't happen has no condition to wait for: restarted at once, as
	// they would be, they are seen within this second.
	for until := time.Now().Add(time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if _, have := pids(); !slices.Equal(have, had) {
			t.Fatalf("replicas were processes %v and are %v: they can't start before they have applied the primary's restart", had, have)
		}
	}
	s.replicasRun(t, before, want, "SELECT pg_wal_replay_resume()")
	if err := <-applied; err != nil {
		t.Fatal(err)
	}
	after := settle(t, d, less)
	for i, n := range after.Nodes {
		if n.Restarts != before.Nodes[i].Restarts || n.Pid == before.Nodes[i].Pid {
			t.Errorf("node %d is process %d, was %d, and was restarted %d times after it ended", n.Ordinal, n.Pid, before.Nodes[i].Pid, n.Restarts)
		}
	}
}

// replicasRun runs a statement on every PostgreSQL replica, as our own account.
func (s *site) replicasRun(t *testing.T, seen platform.Observed, want platform.Wanted, statement string) {
	t.Helper()
	for _, n := range seen.Nodes {
		if n.Role == cluster.Primary {
			continue
		}
		config, err := pgx.ParseConfig("sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		config.Host, config.Port = filepath.Join(s.o.RunDir, fmt.Sprintf("%d-%d", want.ID, n.Ordinal)), uint16(want.Port)
		config.User, config.Password, config.Database = "steward", s.secrets.Text(want.ID, platform.AdminPassword), "postgres"
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Error(err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
