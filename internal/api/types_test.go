package api_test

import (
	"strings"
	"testing"
)

// TestPlansHaveAddons: clients read the price of what can be added to a plan
// without looking whether there is any.
func TestPlansHaveAddons(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const addons = `"addons":{"backups":{"price":{"hourly":0,"monthly":0},"region_prices":[]}}`
	for _, path := range []string{"/v4/linode/types", "/v4/linode/types/g6-nanode-1"} {
		if r := b.send("GET", path, "", ""); r.StatusCode != 200 || !strings.Contains(r.body, addons) {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
}
