package mysql

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/statement"
)

// slowFile is where the server writes statements that took long.
func slowFile(n engine.Node) string { return filepath.Join(n.Log, "slow.log") }

// neverSlow is a threshold that nothing of ours reaches, the greatest there is: what we send may be a secret.
const neverSlow = "31536000"

// An entry begins with its time, which MariaDB leaves out within a second, and who sent the statement. A server that
// opens the file writes its name.
var (
	slowTime   = regexp.MustCompile(`^# Time: [0-9 :TZ.-]+$`)
	slowUser   = regexp.MustCompile(`^# User@Host: (.*?)\[.*\] @ `)
	slowOpened = regexp.MustCompile(`, Version: .* started with:$`)
	slowTook   = regexp.MustCompile(`^# Query_time: (\d+\.\d+) `)
	slowSchema = regexp.MustCompile(`^# Thread_id: \d+ +Schema: (.*?) +QC_hit: `)
	slowUse    = regexp.MustCompile("^use `?(.*?)`?;$")
	slowSet    = regexp.MustCompile(`^SET .*timestamp=(\d+);$`)
)

// slowLog reads a file of slow statements.
type slowLog struct {
	flavour engine.Flavour
	// schema is the one of the last entry: MySQL names it when it has changed.
	schema string
	// timed reports whether an entry has begun with its time, inside whether its header is over, and statement whether what comes
	// then goes on.
	timed, inside bool
	statement     statement.Open
}

// Begin implements engine.LogReader. What looks like the beginning of an entry may stand in a statement, as a value of it: there the
// statement goes on.
func (s *slowLog) Begin(line string) (insight.LogLine, bool) {
	l := insight.LogLine{Severity: insight.Info, Text: line}
	if s.inside {
		s.statement.Read("\n") // what ends a comment
	}
	isTime, isUser := slowTime.MatchString(line), slowUser.MatchString(line)
	switch {
	case s.inside && s.statement.Within():
	case isUser && s.timed:
		s.timed = false
	case isTime || isUser:
		l.Slow = &insight.SlowStatement{}
		s.timed, s.inside = isTime, false
		return l, true
	case slowOpened.MatchString(line):
		l.Ours = true
		s.timed, s.inside = false, false
		return l, true
	}
	if s.inside {
		s.statement.Read(line)
	} else if slowSet.MatchString(line) {
		s.inside, s.statement = true, statement.Open{}
	}
	return insight.LogLine{}, false
}

// Rest implements engine.LogReader.
func (s *slowLog) Rest(piece string) { s.statement.Read(piece) }

// slowHeader are the lines of an entry before its statement, and the statement.
func slowHeader(entry string) (header []string, text string) {
	for entry != "" {
		line, rest, _ := strings.Cut(entry, "\n")
		known := strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "# administrator command:")
		if !known && !slowUse.MatchString(line) && !slowSet.MatchString(line) {
			return header, entry
		}
		header = append(header, line)
		entry = rest
		if slowSet.MatchString(line) {
			return header, entry // what follows is the statement, whatever it looks like
		}
	}
	return header, ""
}

// Complete implements engine.LogReader. An entry without who, when and how long is none.
func (s *slowLog) Complete(l *insight.LogLine, entry string, cut bool) {
	header, text := slowHeader(entry)
	l.Ours = true
	user, took, schema := "", -1.0, ""
	for _, line := range header {
		if m := slowUser.FindStringSubmatch(line); m != nil {
			user = m[1]
		} else if m := slowTook.FindStringSubmatch(line); m != nil {
			took, _ = strconv.ParseFloat(m[1], 64) // 0 for a number that none is
		} else if m := slowSchema.FindStringSubmatch(line); m != nil {
			schema = m[1]
		} else if m := slowUse.FindStringSubmatch(line); m != nil {
			s.schema = m[1]
		} else if m := slowSet.FindStringSubmatch(line); m != nil {
			seconds, err := strconv.ParseInt(m[1], 10, 64)
			l.Time, l.Ours = time.Unix(seconds, 0).UTC(), err != nil
		}
	}
	if s.flavour != engine.FlavourMariaDB {
		schema = s.schema
	}
	if user == "" || user == adminUser || user == replicaUser || took < 0 || strings.HasPrefix(user, "[") {
		l.Ours = true
	}
	l.Slow.User, l.Slow.Database, l.Slow.Took = insight.Name(user), insight.Name(schema), time.Duration(took*float64(time.Second))
	if command, ok := strings.CutPrefix(text, "# administrator command: "); ok {
		text = strings.ToUpper(command)
	}
	l.Slow.Text = strings.TrimSuffix(statement.Normalize(statement.MySQL, strings.TrimSpace(text), cut), ";")
	l.Text = l.Slow.Line()
}
