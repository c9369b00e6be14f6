package mysql_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/engine/mysql"
	"steward/internal/insight"
)

func TestLogLine(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 23, 5, 13, 20, 0, time.UTC)
	for line, want := range map[string]insight.LogLine{
		"2026-11-23  5:13:20 0 [Note] InnoDB: ready":                                           {Time: at, Severity: insight.Info, Text: "InnoDB: ready"},
		"2026-11-23 15:13:20 12 [ERROR] Got an error":                                          {Time: at.Add(10 * time.Hour), Severity: insight.Error, Text: "Got an error"},
		"2026-11-23T05:13:20.000000Z 0 [System] [MY-010116] [Server] starting":                 {Time: at, Severity: insight.Info, Text: "starting"},
		"2026-11-23T05:13:20.000000Z 9 [Warning] [MY-010055] [Repl] x":                         {Time: at, Severity: insight.Warning, Text: "x"},
		"2026-11-23  5:13:20 3 [Warning] Aborted connection 3 to db: 'x' user: 'steward' host": {Time: at, Severity: insight.Warning, Text: "Aborted connection 3 to db: 'x' user: 'steward' host", Ours: true},
		"2026-11-23  5:13:20 3 [Warning] Access denied for user 'steward_replica'@'10.0.0.1'":  {Time: at, Severity: insight.Warning, Text: "Access denied for user 'steward_replica'@'10.0.0.1'", Ours: true},
		"2026-11-23  5:13:20 3 [Warning] Event Scheduler: [app@%][shop.e] Duplicate entry 'hunter2' for key 'PRIMARY'": {
			Time: at, Severity: insight.Warning, Text: "Event Scheduler: [app@%][shop.e] Duplicate entry ? for key ?",
		},
	} {
		got, ok := (&mysql.Driver{}).LogLine(line)
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s: %v\n%s", line, ok, diff)
		}
	}
	for _, line := range []string{"", "Version: '10.11.14-MariaDB'", "2026-13-45  5:13:20 0 [Note] x", "2026-11-23 05:08:57.503 UTC [1] LOG:  x"} {
		if got, ok := (&mysql.Driver{}).LogLine(line); ok {
			t.Errorf("%q is read as %+v", line, got)
		}
	}
}
