package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/cluster"
	"steward/internal/engine/postgresql"
	"steward/internal/insight"
)

// TestHostileLog: lines of megabytes, escape sequences and forged beginnings stay what they are, this machine
// isn't named, and ours aren't shown.
func TestHostileLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "output.log")
	const at = "2026-11-23 05:08:57.503 UTC [17945] "
	lines := []string{
		"what a loader says before the server does",
		at + `LOG:  listening on Unix socket "/run/steward/7/n0/.s.PGSQL.21000"`,
		at + "LOG:  could not open file \"/srv/data/clusters/7/node-0/data/x\": gone",
		at + "steward@postgres FATAL:  password authentication failed for user \"steward\"",
		at + "app@shop FATAL:  terminating connection\x1b[2J\x1b]0;owned\x07",
		"\tmore of it \u202e",
		at + "LOG:  " + strings.Repeat("x", 5<<20),
		at + "STATEMENT:  ALTER ROLE x PASSWORD 'hunter2'",
		at + `ERROR:  invalid input syntax for type integer: "hunter2"`,
		at + `LOG:  parameter "primary_conninfo" changed to "passfile=/run/steward/pass"`,
		at + "LOG:  the last",
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &Driver{layout: layout{data: "/srv/data", run: "/run/steward", keys: "/dev/shm/keys"}}
	r := logReader{query: insight.LogQuery{Least: insight.Info, Most: 100}, node: 1, parse: postgresql.Driver{}.LogLine, hide: d.hidden(cluster.ID(7))}
	found, err := r.file(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range found {
		if l.Node != 1 || len(l.Text) > insight.MostLog+len("…") {
			t.Errorf("%+.100v", l)
		}
		got = append(got, string(l.Severity)+" "+l.Text[:min(len(l.Text), 80)])
	}
	want := []string{
		`info listening on Unix socket "…"`, `info could not open file "…": gone`,
		"fatal app@shop: terminating connection\uFFFD[2J\uFFFD]0;owned\uFFFD  more of it \uFFFD",
		"info " + strings.Repeat("x", 80), `error invalid input syntax for type integer: "…"`, "info the last",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r.query.Most = 1
	if found, err = r.file(t.Context(), path); err != nil || found[len(found)-1].Text != "the last" || len(found) > 4 {
		t.Errorf("the newest: %d lines, %v", len(found), err)
	}
}
