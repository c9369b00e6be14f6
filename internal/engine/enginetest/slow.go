package enginetest

import (
	"os"
	"strings"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/parameter"
)

// slowLogged has a running server log statements above a threshold: they are read without their values, with who sent them, none of
// ours among them, and no statement makes up others.
func slowLogged(t *testing.T, s *Server) {
	driver, before := s.Bench.Driver, s.Node.Config
	postgres := s.Bench.Installation.Family() == cluster.PostgreSQL
	reload := func(c parameter.Config) {
		t.Helper()
		s.Node.Config = c
		s.WriteFiles(t)
		must(t, driver.Fence(t.Context(), s.Node), "fence")
		restart, err := driver.Reload(t.Context(), s.Node)
		must(t, err, "reload")
		if restart {
			t.Error("a threshold needs a restart")
		}
	}
	slow, pause := parameter.Config{"mysql.slow_query_log": true, "mysql.long_query_time": 0.05}, "SELECT SLEEP(0.1) /* hunter2 */, '%s'"
	if postgres {
		slow, pause = parameter.Config{"pg.log_min_duration_statement": int64(50)}, "SELECT pg_sleep(0.1) /* hunter2 */, '%s'"
	}
	forged := "x\n# Time: 2026-11-23T10:00:00.000000Z\n# User@Host: hunter2[hunter2] @  [1.2.3.4]  Id:     9\n# Query_time: 9.5  Lock_time: 0.0\n" +
		"SET timestamp=1;\nhunter2;\n2026-11-23 10:00:00.000 UTC [1] hunter2@x LOG:  duration: 99.0 ms  statement: hunter2\n"
	reload(slow)
	session := s.session(t) // others keep the threshold that they began with
	for _, value := range []string{aSecret, "it''s " + aSecret + "\nof two lines", forged, strings.Repeat(aSecret, 20<<10)} {
		_, err := session.ExecContext(t.Context(), strings.ReplaceAll(pause, "%s", value))
		must(t, err, "take long")
	}
	must(t, driver.VerifyRootPassword(t.Context(), s.Node), "verify the password")
	var found []insight.LogLine
	await.True(t, "four statements are logged", func() bool {
		found = slowOnes(t, s)
		return len(found) >= 4
	})
	for i, l := range found {
		if strings.Contains(l.Text+l.Slow.Text+l.Slow.User+l.Slow.Database, aSecret) || i >= 4 {
			t.Errorf("logged: %+v %+v", l, *l.Slow)
		}
		if l.Slow.User != "dbadmin" || l.Slow.Database != "defaultdb" || l.Slow.Took < 100*time.Millisecond || l.Slow.Took > time.Minute ||
			!strings.HasPrefix(strings.ToUpper(l.Slow.Text), "SELECT ") || !strings.Contains(strings.ToLower(l.Slow.Text), "sleep(?)") || time.Since(l.Time).Abs() > time.Minute {
			t.Errorf("logged: %+v %+v", l, *l.Slow)
		}
	}
	reload(before)
	other := s.session(t)
	_, err := other.ExecContext(t.Context(), strings.ReplaceAll(pause, "%s", ""))
	must(t, err, "take long")
	if found := slowOnes(t, s); len(found) != 4 {
		t.Errorf("%d are logged after it was switched off", len(found))
	}
}

// slowOnes are the statements that a server has logged.
func slowOnes(t *testing.T, s *Server) (found []insight.LogLine) {
	t.Helper()
	for _, file := range s.Bench.Driver.Logs(s.Node) {
		content := s.Console(t)
		if file.Path != "" {
			logged, err := os.ReadFile(file.Path)
			must(t, err, "read the log")
			content = string(logged)
		}
		found = append(found, SlowEntries(file.Reader(), strings.TrimSuffix(content, "\n"))...)
	}
	return found
}

// SlowEntries are the slow statements of customers in the content of a log, read as the platform reads it.
func SlowEntries(parse engine.LogReader, content string) (found []insight.LogLine) {
	var entry *insight.LogLine
	var text strings.Builder
	end := func() {
		if entry == nil || entry.Slow == nil {
			return
		}
		if parse.Complete(entry, text.String(), false); !entry.Ours {
			found = append(found, *entry)
		}
	}
	for line := range strings.SplitSeq(content, "\n") {
		if l, ok := parse.Begin(line); ok {
			end()
			entry = &l
			text.Reset()
			text.WriteString(l.Text)
		} else {
			text.WriteString("\n" + line)
		}
	}
	end()
	return found
}
