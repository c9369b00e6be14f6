package mysql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/engine/mysql"
	"steward/internal/insight"
)

func TestLogLine(t *testing.T) {
	t.Parallel()
	logs := (&mysql.Driver{}).Logs(engine.Node{})[0].Reader()
	at := time.Date(2026, 11, 23, 5, 13, 20, 0, time.UTC)
	for line, want := range map[string]insight.LogLine{
		"2026-11-23  5:13:20 0 [Note] InnoDB: ready":                                           {Time: at, Severity: insight.Info, Text: "InnoDB: ready"},
		"2026-11-23 15:13:20 12 [ERROR] Got an error":                                          {Time: at.Add(10 * time.Hour), Severity: insight.Error, Text: "Got an error"},
		"2026-11-23T05:13:20.000000Z 0 [System] [MY-010116] [Server] starting":                 {Time: at, Severity: insight.Info, Text: "starting"},
		"2026-11-23T05:13:20.000000Z 9 [Warning] [MY-010055] [Repl] x":                         {Time: at, Severity: insight.Warning, Text: "x"},
		"2026-11-23  5:13:20 3 [Warning] Aborted connection 3 to db: 'x' user: 'steward' host": {Time: at, Severity: insight.Warning, Text: "Aborted connection 3 to db: 'x' user: 'steward' host", Ours: true},
		"2026-11-23  5:13:20 3 [Warning] Access denied for user 'steward_replica'@'10.0.0.1'":  {Time: at, Severity: insight.Warning, Text: "Access denied for user 'steward_replica'@'10.0.0.1'", Ours: true},
		"2026-11-23  5:13:20 5 [Note] Slave I/O thread: connected to master 'steward_replica@10.2.3.4:21001',replication starts": {
			Time: at, Severity: insight.Info, Text: "Slave I/O thread: connected to master '…',replication starts",
		},
		"2026-11-23  5:13:20 5 [Note] 'CHANGE MASTER TO executed'. New state master_host='10.2.3.4'": {
			Time: at, Severity: insight.Info, Text: "'CHANGE MASTER TO executed'. New state master_host='10.2.3.4'", Ours: true,
		},
		"2026-11-23  5:13:20 3 [Warning] Event Scheduler: [app@%][shop.e] Duplicate entry 'hunter2' for key 'PRIMARY'": {
			Time: at, Severity: insight.Warning, Text: "Event Scheduler: [app@%][shop.e] Duplicate entry ? for key ?",
		},
	} {
		got, ok := logs.Begin(line)
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("%s: %v\n%s", line, ok, diff)
		}
	}
	for _, line := range []string{"", "Version: '10.11.14-MariaDB'", "2026-13-45  5:13:20 0 [Note] x", "2026-11-23 05:08:57.503 UTC [1] LOG:  x"} {
		if got, ok := logs.Begin(line); ok {
			t.Errorf("%q is read as %+v", line, got)
		}
	}
}

// readSlow reads a slow log as the platform does.
func readSlow(content string, flavour engine.Flavour) []insight.LogLine {
	return enginetest.SlowEntries((&mysql.Driver{}).Logs(engine.Node{Installation: engine.Installation{Flavour: flavour}})[1].Reader(), content)
}

// TestSlowLog: entries of both flavours, and statements that have whole entries, of one who isn't there, in their values.
func TestSlowLog(t *testing.T) {
	t.Parallel()
	const maria = `/usr/sbin/mariadbd, Version: 10.11.14-MariaDB (Debian 12). started with:
Tcp port: 21000  Unix socket: /run/steward/7/n0/mysql.sock
Time		    Id Command	Argument
# Time: 261123  5:13:20
# User@Host: app[app] @  [10.0.0.9]
# Thread_id: 12  Schema: shop  QC_hit: No
# Query_time: 1.500250  Lock_time: 0.000001  Rows_sent: 1  Rows_examined: 1
# Rows_affected: 0  Bytes_sent: 60
use shop;
SET timestamp=1795410800;
INSERT INTO notes VALUES ('it\'s
# User@Host: hunter2[hunter2] @  [1.2.3.4]
# Thread_id: 1  Schema: hunter2  QC_hit: No
# Query_time: 9.000000  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
SET timestamp=1;
hunter2;
# User@Host: hunter2[hunter2] @  [1.2.3.4]
', "-- x
# User@Host: hunter2[hunter2] @  [1.2.3.4]
") /* '
# User@Host: hunter2[hunter2] @  [1.2.3.4]
*/;
# User@Host: steward[steward] @ localhost []
# Thread_id: 13  Schema: shop  QC_hit: No
# Query_time: 2.000000  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
SET timestamp=1795410800;
SELECT 'ours';
# User@Host: app[app] @  [10.0.0.9]
# Thread_id: 12  Schema: shop  QC_hit: No
# Query_time: 0.000250  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
SET last_insert_id=5,insert_id=6,timestamp=1795410801;
# administrator command: Prepare;
# Time: 261123  5:13:23
# User@Host: other[other] @  [10.0.0.9]
# Thread_id: 14  Schema:   QC_hit: No
# Query_time: 3.000000  Lock_time: 0.000000  Rows_sent: 0  Rows_examined: 0
SET timestamp=1795410803;
SELECT 1
`
	const mysql = `# Time: 2026-11-23T05:13:20.000000Z
# User@Host: app[app] @  [10.0.0.9]  Id:    12
# Query_time: 1.500250  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 1
use shop;
SET timestamp=1795410800;
SELECT 'hunter2', "# User@Host: x";
# Time: 2026-11-23T05:13:21.000000Z
# User@Host: app[app] @  [10.0.0.9]  Id:    12
# Query_time: 0.000250  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 1
SET timestamp=1795410801;
SELECT 2;
`
	for _, c := range []struct {
		flavour engine.Flavour
		content string
		want    []string
	}{
		{engine.FlavourMariaDB, maria, []string{
			"1795410800 app@shop: took 1.50025s: INSERT INTO notes VALUES (?…", "1795410801 app@shop: took 250µs: PREPARE", "1795410803 other: took 3s: SELECT ?",
		}},
		{engine.FlavourMySQL, mysql, []string{"1795410800 app@shop: took 1.50025s: SELECT ?, ?", "1795410801 app@shop: took 250µs: SELECT ?"}},
	} {
		var got []string
		for _, l := range readSlow(c.content, c.flavour) {
			got = append(got, fmt.Sprintf("%d %s", l.Time.Unix(), l.Text))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
	}
}
