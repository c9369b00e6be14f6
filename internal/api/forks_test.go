package api_test

import (
	"encoding/json"
	"fmt"
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
		fmt.Sprintf(`{"source":%d}`, id):                                            `"fork":{"source":%d,"restore_time":null}`,
		fmt.Sprintf(`{"source":%d,"restore_time":null}`, id):                        `"fork":{"source":%d,"restore_time":null}`,
		fmt.Sprintf(`{"source":%d,"restore_time":"2026-01-31T18:04:05"}`, id):       `"fork":{"source":%d,"restore_time":"2026-01-31T18:04:05"}`,
		fmt.Sprintf(`{"source":%d,"restore_time":"2026-01-31T19:04:05+01:00"}`, id): `"fork":{"source":%d,"restore_time":"2026-01-31T18:04:05"}`,
		fmt.Sprintf(`{"source":%d,"-":"2026-01-31T18:04:05Z"}`, id):                 `"fork":{"source":%d,"restore_time":"2026-01-31T18:04:05"}`,
		fmt.Sprintf(`{"source":%d,"-":null,"restore_time":null,"newer":"yes"}`, id): `"fork":{"source":%d,"restore_time":null}`,
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
		`{"source":%d,"restore_time":"2026-01-31T18:04:06"}`: `2026-01-31T18:04:05`,
		`{"source":%d,"-":"2026-01-31T18:04:06Z"}`:           `"fork.restore_time"`,
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
