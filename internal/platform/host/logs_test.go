package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/cluster"
	"steward/internal/engine"
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
		at + "dbadmin@postgres FATAL:  permission denied for database \"postgres\"",
		at + "app@shop FATAL:  terminating connection\x1b[2J\x1b]0;owned\x07",
		"\tmore of it \u202e",
		at + "LOG:  " + strings.Repeat("x", 5<<20),
		at + "STATEMENT:  ALTER ROLE x PASSWORD 'hunter2'",
		at + `ERROR:  invalid input syntax for type integer: "hunter2"`,
		at + `LOG:  parameter "primary_conninfo" changed to "passfile=/run/steward/pass"`,
		at + "app@shop LOG:  duration: 1500.250 ms  statement: SELECT 'hunter2',",
		"\t'" + at + "x@y LOG:  hunter2', \"/srv/data\"",
		"\t" + at + "forged@y LOG:  '",
		at + "app@shop LOG:  duration: 99.5 ms  execute S_1: SELECT $1 || '" + strings.Repeat("hunter2", 100<<10) + "'",
		at + "steward@postgres LOG:  duration: 1500.250 ms  statement: SELECT 'hunter2'",
		"steward: 2026-11-23T05:08:57Z, 12345 bytes before this were left out",
		at + `app@shop ERROR:  invalid input syntax for type integer: "hunter2"`,
		at + `app@shop ERROR:  null value in column "id" of relation "orders" violates not-null constraint`,
		at + "steward@postgres ERROR:  hunter2",
		at + "LOG:  the last",
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &Driver{layout: layout{data: "/srv/data", run: "/run/steward", keys: "/dev/shm/keys"}}
	r := logReader{query: insight.LogQuery{Least: insight.Info, Most: 100}, node: 1, reader: postgresql.Driver{}.Logs(engine.Node{})[0].Reader, hide: d.hidden(cluster.ID(7))}
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
		"info " + strings.Repeat("x", 80), `error invalid input syntax for type integer: "…"`,
		`info app@shop: took 1.50025s: SELECT ?, ?, "/srv/data" ?-?-? ?:?:? UTC [?] forged@y L`, "info app@shop: took 99.5ms: SELECT $1 || ?…", "warning 12345 bytes were logged too fast before this, and left out",
		`error app@shop: invalid input syntax for type integer: "…"`, `error app@shop: null value in column "id" of relation "orders" violates not-null const`, "info the last",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r.query.Slow, r.query.Took = true, time.Second
	if found, err = r.file(t.Context(), path); err != nil || len(found) != 1 || found[0].Slow.Took != 1500250*time.Microsecond || found[0].Slow.User != "app" || found[0].Slow.Database != "shop" {
		t.Errorf("slow ones: %+v, %v", found, err)
	}
	r.query.Slow, r.query.Most = false, 1
	if found, err = r.file(t.Context(), path); err != nil || found[len(found)-1].Text != "the last" || len(found) > 4 {
		t.Errorf("the newest: %d lines, %v", len(found), err)
	}
}

// TestLastWordsAreTheServers: what a server says at its end is for operators' logs, statements of customers aren't.
func TestLastWordsAreTheServers(t *testing.T) {
	t.Parallel()
	const at = "2026-11-23 05:08:57.503 UTC [17945] "
	slow := at + "app@shop LOG:  duration: 1500.250 ms  statement: SELECT 'hunter2',\n\t'hunter2'\n"
	for content, want := range map[string]string{
		"": noWords,
		slow + at + "PANIC:  out of disk\n" + slow: at + "PANIC:  out of disk",
		at + "app@shop ERROR:  invalid input syntax for type integer: \"hunter2\"\n\tof hunter2\n" + at + "PANIC:  gone\n":                                                 at + "PANIC:  gone",
		at + "FATAL:  gone\n" + strings.Repeat(at+"steward@postgres FATAL:  the database system is not accepting connections\n"+at+"[unknown]@[unknown] FATAL:  no\n", 99): at + "FATAL:  gone",
		at + "app@shop PANIC:  gone\n":               at + "app@shop PANIC:  gone",
		"bwrap: no such program\n":                   "bwrap: no such program",
		slow + "bwrap: no such program\n":            "bwrap: no such program",
		strings.Repeat("\thunter2\n", 20<<10) + slow: "",
		strings.Repeat("x", 5000) + "\n":             strings.Repeat("x", 600),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(outputFile(dir), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastWords(dir, postgresql.Driver{}); got != want {
			t.Errorf("%.100q: %.200q", content, got)
		}
	}
}
