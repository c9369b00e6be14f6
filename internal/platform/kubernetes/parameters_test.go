package kubernetes_test

import (
	"testing"

	"steward/internal/cluster"
	"steward/internal/parameter"
	"steward/internal/platform/kubernetes/cnpg"
)

// TestCustomersSettingsAreOurs: none of those that a customer can choose is the operator's, which would have it dropped.
func TestCustomersSettingsAreOurs(t *testing.T) {
	t.Parallel()
	all := parameter.Of(string(cluster.PostgreSQL))
	for _, p := range all {
		if cnpg.Decides(p.Setting()) {
			t.Errorf("%s is the operator's", p.Name)
		}
	}
	if len(all) < 10 {
		t.Errorf("only %d were looked at", len(all))
	}
}
