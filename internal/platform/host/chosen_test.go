package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/cluster"
	"steward/internal/parameter"
)

// chosen is a setting that needs a restart, and that no server has by itself.
func chosen(engine cluster.Engine) parameter.Config {
	if engine == cluster.MySQL {
		return parameter.Config{"mysql.innodb_ft_min_token_size": int64(2)}
	}
	return parameter.Config{"pg.max_locks_per_transaction": int64(128)}
}

// configured demands that every node's files have what was chosen, whatever befell it,
// and whoever wrote them last: the store may be away.
func (h *trio) configured() {
	h.t.Helper()
	for ordinal := range h.want.Size {
		file, line := "postgresql.conf", "max_locks_per_transaction = '128'"
		if h.want.Engine == cluster.MySQL {
			file, line = "my.cnf", "innodb_ft_min_token_size = 2"
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(h.data(ordinal)), "conf", file))
		if err != nil || !strings.Contains(string(text), line) {
			h.t.Errorf("node %d has lost what was chosen (%v)", ordinal, err)
		}
	}
}

// TestSettingsThatAServerRefuses: whatever the rules let through, a server comes back
// with the settings it had, be it one that won't start with others or that won't take
// them while it runs.
func TestSettingsThatAServerRefuses(t *testing.T) {
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
