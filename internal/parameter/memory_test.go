package parameter_test

import (
	"testing"

	"steward/internal/parameter"
)

// TestLowersPostgreSQL: replicas of a smaller plan must not have fewer connections or workers than their primary.
func TestLowersPostgreSQL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		memory, cpus, oldMemory, oldCPUs int
		want                             bool
	}{
		{1024, 1, 2048, 1, true}, {2048, 1, 1024, 1, false}, {1024, 1, 1024, 1, false}, {4096, 1, 4096, 2, true}, {1024, 1, 1536, 1, false}, {8192, 4, 4096, 2, false},
	} {
		if got := parameter.LowersPostgreSQL(c.memory, c.cpus, c.oldMemory, c.oldCPUs); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
