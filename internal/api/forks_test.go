package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestForks: what is asked for, what is answered, and the two names that clients
// give to the moment.
func TestForks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	created := time.Date(2026, 1, 31, 18, 4, 5, 600, time.UTC)
	_, err := b.store.Pool().Exec(t.Context(), `INSERT INTO backups (account_id, cluster_id, type, label, target, state, created, finished)
		SELECT account_id, id, 'snapshot', 's', 'primary', 'complete', $2::timestamptz, $2 FROM clusters WHERE id = $1`, id, created)
	if err != nil {
		t.Fatal(err)
	}
	const all = "/v4/databases/postgresql/instances"
	asked := 0
	post := func(fork string) (int, string) {
		asked++
		r := b.send("POST", all, b.full, fmt.Sprintf(`{"label":"fork-%d","region":"local","type":"g6-nanode-1","engine":"postgresql/15","fork":%s}`, asked, fork))
		return r.StatusCode, r.body
	}
	for fork, want := range map[string]string{
		fmt.Sprintf(`{"source":%d}`, id):                                            `"fork":{"source":%d,"restore_time":null,"restored_to":null}`,
		fmt.Sprintf(`{"source":%d,"restore_time":null}`, id):                        `"fork":{"source":%d,"restore_time":null,"restored_to":null}`,
		fmt.Sprintf(`{"source":%d,"restore_time":"2026-01-31T18:04:05"}`, id):       `"fork":{"source":%d,"restore_time":"2026-01-31T18:04:05","restored_to":"2026-01-31T18:04:05"}`,
		fmt.Sprintf(`{"source":%d,"restore_time":"2026-01-31T19:04:05+01:00"}`, id): `"fork":{"source":%d,"restore_time":"2026-01-31T18:04:05","restored_to":"2026-01-31T18:04:05"}`,
		fmt.Sprintf(`{"source":%d,"-":"2026-01-31T18:04:05Z"}`, id):                 `"fork":{"source":%d,"restore_time":"2026-01-31T18:04:05","restored_to":"2026-01-31T18:04:05"}`,
		fmt.Sprintf(`{"source":%d,"restore_time":"2026-01-31T18:04:06"}`, id):       `"fork":{"source":%d,"restore_time":"2026-01-31T18:04:06","restored_to":"2026-01-31T18:04:05"}`,
		fmt.Sprintf(`{"source":%d,"-":null,"restore_time":null,"newer":"yes"}`, id): `"fork":{"source":%d,"restore_time":null,"restored_to":null}`,
	} {
		if code, body := post(fork); code != 200 || !strings.Contains(body, fmt.Sprintf(want, id)) {
			t.Errorf("%s: %d %s", fork, code, body)
		}
	}
	for fork, want := range map[string]string{
		`{}`:                                  `"fork.source"`,
		`{"source":"one"}`:                    `"fork.source"`,
		`{"source":0}`:                        `"fork.source"`,
		`7`:                                   `"fork"`,
		`{"source":123456}`:                   `"fork.source"`,
		`{"source":%d,"-":"soon"}`:            `"fork.restore_time"`,
		`{"source":%d,"restore_time":"soon"}`: `"fork.restore_time"`,
		`{"source":%d,"restore_time":"2026-01-31T18:04:04"}`: `2026-01-31T18:04:05`,
		`{"source":%d,"-":"2026-01-31T18:04:04Z"}`:           `"fork.restore_time"`,
	} {
		if strings.Contains(fork, "%d") {
			fork = fmt.Sprintf(fork, id)
		}
		if code, body := post(fork); code != 400 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %s", fork, code, body, want)
		}
	}
	r := b.send("GET", fmt.Sprintf("%s/%d", all, id), b.full, "")
	var seen map[string]any
	if err := json.Unmarshal([]byte(r.body), &seen); err != nil {
		t.Fatal(err)
	}
	if fork, there := seen["fork"]; !there || fork != nil || seen["oldest_restore_time"] != "2026-01-31T18:04:05" {
		t.Errorf("%s", r.body)
	}
}

// TestForkAlone: clients send nothing but fork. Other databases need the rest, and
// what is sent but empty isn't left out.
func TestForkAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	_, err := b.store.Pool().Exec(t.Context(), `INSERT INTO backups (account_id, cluster_id, type, label, target, state, created, finished)
		SELECT account_id, id, 'snapshot', 's', 'primary', 'complete', now(), now() FROM clusters WHERE id = $1`, id)
	if err != nil {
		t.Fatal(err)
	}
	const all = "/v4/databases/postgresql/instances"
	for body, want := range map[string]string{
		`{"fork":{"source":%d}}`: `"label":"shop-fork`,
		`{"fork":{"source":%d},"label":null,"region":null,"type":null,"engine":null}`: `"label":"shop-fork`,
		`{"fork":{"source":%d},"label":"mine","type":"g6-standard-1"}`:                `"label":"mine"`,
		`{"fork":{"source":%d},"engine":"postgresql/15","cluster_size":1}`:            `"version":"15"`,
	} {
		r := b.send("POST", all, b.full, fmt.Sprintf(body, id))
		if r.StatusCode != 200 || !strings.Contains(r.body, want) || !strings.Contains(r.body, `"version":"15"`) {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	for body, want := range map[string][]string{
		`{"fork":{"source":%d},"region":"","type":""}`:                  {"region: region is not valid", "type: type is not valid"},
		`{"fork":{"source":%d},"engine":"mysql/10.11"}`:                 {"engine: engine is not valid; offered: postgresql/15", "engine: Must be postgresql/15, which is the source's"},
		`{"fork":{"source":%d},"engine":"","label":7}`:                  {"engine: engine is not valid", "label: Must be a string"},
		`{"fork":{"source":99999%d}}`:                                   {"fork.source: There is no such database"},
		`{"newer":%d}`:                                                  {"engine: engine is required", "label: label is required", "region: region is required", "type: type is required"},
		`{"newer":%d,"fork":null,"label":"other","type":"g6-nanode-1"}`: {"engine: engine is required", "fork: Must not be null", "region: region is required"},
	} {
		r := b.send("POST", all, b.full, fmt.Sprintf(body, id))
		if got := r.faults(); r.StatusCode != 400 || !slices.Equal(got, want) {
			t.Errorf("%s: %d %q, want %q", body, r.StatusCode, got, want)
		}
	}
}
