package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestUsage: what a database was, priced by what its type costs now; nobody else's.
func TestUsage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	insert := `INSERT INTO usage (cluster_id, day, type, size, account_id, label, engine, running, suspended, used_bytes, backup_bytes)
		SELECT 7, '2026-01-31', $1, 3, account_id, 'shop', 'postgresql/15', 5400, 1800, 4096, 512 FROM users WHERE username = $2`
	for _, plan := range []string{"g6-nanode-1", "gone"} {
		if _, err := b.store.Pool().Exec(t.Context(), insert, plan, "admin"); err != nil {
			t.Fatal(err)
		}
	}
	const hourly = 0.5
	priced := *b.api.Catalog
	priced.Plans = slices.Clone(priced.Plans)
	priced.Plans[0].Hourly = hourly
	b.api.Catalog = &priced
	var got struct {
		Data []struct {
			Day            string
			Database       int64 `json:"database_id"`
			Label, Engine  string
			Type           string
			ClusterSize    int     `json:"cluster_size"`
			Hours          float64 `json:"hours"`
			SuspendedHours float64 `json:"suspended_hours"`
			UsedDiskBytes  int64   `json:"used_disk_bytes"`
			BackupBytes    int64   `json:"backup_bytes"`
			Cost           *float64
		}
	}
	r := b.send("GET", "/v4/account/usage", b.full, "")
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || len(got.Data) != 2 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	u := got.Data[0]
	if u.Day != "2026-01-31" || u.Database != 7 || u.Label != "shop" || u.Engine != "postgresql/15" || u.ClusterSize != 3 ||
		u.Hours != 1.5 || u.SuspendedHours != 0.5 || u.UsedDiskBytes != 4096 || u.BackupBytes != 512 || u.Cost == nil || *u.Cost < 4.49*hourly || *u.Cost > 4.51*hourly {
		t.Errorf("%s", r.body)
	}
	if got.Data[1].Cost != nil || !strings.Contains(r.body, `"cost":null`) {
		t.Errorf("a type that isn't offered: %s", r.body)
	}
	wrong := b.send("GET", "/v4/account/usage?page=0&page_size=7", b.full, "")
	if got := wrong.faults(); wrong.StatusCode != 400 || len(got) != 2 {
		t.Errorf("bad pages: %d %s", wrong.StatusCode, wrong.body)
	}
	for _, f := range []string{`{"days":"2026-01-31"}`, `{"database_id":"seven"}`, `[`} {
		if r := b.send("GET", "/v4/account/usage", b.full, "", "X-Filter", f); r.StatusCode != 400 {
			t.Errorf("filter %s: %d %s", f, r.StatusCode, r.body)
		}
	}
	if r := b.send("GET", "/v4/account/usage", b.restricted, ""); r.StatusCode != 403 {
		t.Errorf("for a restricted user: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", "/v4/account/usage", b.stranger(), ""); r.StatusCode != 200 || !strings.Contains(r.body, `"data":[]`) {
		t.Errorf("for a stranger: %d %s", r.StatusCode, r.body)
	}
}
