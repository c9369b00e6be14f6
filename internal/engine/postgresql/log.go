package postgresql

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/statement"
)

// logLine is one by log_line_prefix, "%m [%p] %q%u@%d ": the part behind the pid is there for sessions only.
var logLine = regexp.MustCompile(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) UTC \[\d+\] (?:(.*?)@(.*?) )?(DEBUG\d?|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT|CONTEXT|STATEMENT|QUERY|LOCATION):  (.*)$`)

// slowStatement is the message about a statement that took longer than log_min_duration_statement: what the server did of it, and
// with prepared ones the name, come before its text.
var slowStatement = regexp.MustCompile(`^duration: (\d+\.\d+) ms  (?:statement|parse|bind|execute)(?: .*?)?: `)

// auditedStatement is the message of pgaudit about a statement, up to its text: kind, numbers, class, command, kind and name of the object.
var auditedStatement = regexp.MustCompile(`^AUDIT: (?:SESSION|OBJECT),\d+,\d+,([A-Z_]+),([A-Z ]*),(?:"(?:[^"]|"")*"|[^",]*),(?:"(?:[^"]|"")*"|[^",]*),`)

// audited shows an entry about a statement that was audited, which took no time that is known.
func audited(l *insight.LogLine, text string, cut bool) {
	parts := auditedStatement.FindStringSubmatch(text)
	rest, who := text[len(parts[0]):], "worker"
	if l.Slow.User != "" {
		who = l.Slow.User + "@" + l.Slow.Database
	}
	if quotedText, ok := strings.CutPrefix(rest, `"`); ok {
		rest, ok = quotedUpTo(quotedText)
		cut = cut || !ok
	} else if before, _, ok := strings.Cut(rest, ","); ok {
		rest = before
	}
	l.Text = who + ": audited " + parts[1] + " " + parts[2] + ": " + statement.Normalize(statement.PostgreSQL, strings.ReplaceAll(rest, "\n\t", "\n"), cut)
	l.Slow = nil
}

// quotedUpTo is a value of a list up to the quote that ends it, in which quotes stand twice; false when it doesn't end.
func quotedUpTo(text string) (value string, ends bool) {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(text, `"`)
		b.WriteString(before)
		if !ok || !strings.HasPrefix(after, `"`) {
			return b.String(), ok
		}
		b.WriteByte('"')
		text = after[1:]
	}
}

// Complete implements engine.LogReader. The server begins further lines of an entry with a tab, so that no statement
// can be taken for the beginning of another entry.
func (logReader) Complete(l *insight.LogLine, text string, cut bool) {
	if auditedStatement.MatchString(text) {
		audited(l, text, cut)
		return
	}
	text = strings.ReplaceAll(text[len(slowStatement.FindString(text)):], "\n\t", "\n")
	l.Slow.Text = statement.Normalize(statement.PostgreSQL, text, cut)
	l.Text = l.Slow.Line()
}

// quotes are what messages quote of customers' data, and of names.
var quotes = regexp.MustCompile(`"[^"]*"?|'[^']*'?`)

// named are quotes, and before them what kind of thing it is that has the name.
var named = regexp.MustCompile(`(?:\b(relation|table|column|view|sequence|index|constraint|schema|database|role|user|function|procedure|aggregate|type|extension|trigger|language|collation|operator|policy|publication|cursor|portal|prepared statement|savepoint|parameter) )?(` + quotes.String() + `)`)

// unquoted is an error of a session's without what it quotes of values; names stay.
func unquoted(text string) string {
	return named.ReplaceAllStringFunc(text, func(found string) string {
		if found[0] == '"' || found[0] == '\'' {
			return `"…"`
		}
		return found
	})
}

// Logs implements engine.Inspector.
func (Driver) Logs(engine.Node) []engine.LogFile {
	return []engine.LogFile{{Reader: func() engine.LogReader { return logReader{} }}}
}

// logReader implements engine.LogReader.
type logReader struct{}

// Rest implements engine.LogReader.
func (logReader) Rest(string) {}

// Begin implements engine.LogReader. What is said beside a message, such as its statement, isn't shown; the server is told
// to leave it out, too.
func (logReader) Begin(line string) (insight.LogLine, bool) {
	parts := logLine.FindStringSubmatch(line)
	if parts == nil {
		return insight.LogLine{}, false
	}
	at, err := time.Parse("2006-01-02 15:04:05.000", parts[1])
	if err != nil {
		return insight.LogLine{}, false
	}
	return entry(engine.LogRecord{Time: at, User: parts[2], Database: parts[3], Severity: parts[4], Message: parts[5]}), true
}

// LogEntry implements engine.Told. Sessions of the operator's are nobody's to see.
func (Driver) LogEntry(r engine.LogRecord) insight.LogLine {
	l := entry(r)
	l.Ours = l.Ours || r.User == operatorRole || r.User == superuser
	if l.Slow != nil {
		logReader{}.Complete(&l, r.Message, r.Cut)
	}
	return l
}

// triesPassword reports whether it is about how we find out whether the root user's password is in force: with it, one gets as far as
// being refused the database that is ours.
func triesPassword(r engine.LogRecord) bool {
	return r.User == customerRole && r.Database == adminDatabase && r.Severity == "FATAL" && strings.HasPrefix(r.Message, "permission denied for database ")
}

// entry is what is shown of what a server logged. The statement of one that took long is yet to be read.
func entry(r engine.LogRecord) insight.LogLine {
	l := insight.LogLine{
		Time: r.Time, Severity: insight.Info, Text: r.Message, Ours: r.User == adminRole || triesPassword(r),
		OfSession: r.User != "" && (r.Severity == "ERROR" || r.Severity == "FATAL"), // a PANIC ends the server
	}
	switch r.Severity {
	case "WARNING":
		l.Severity = insight.Warning
	case "ERROR":
		l.Severity = insight.Error
	case "FATAL", "PANIC":
		l.Severity = insight.Fatal
	case "DETAIL", "HINT", "CONTEXT", "STATEMENT", "QUERY", "LOCATION":
		l.Ours = true
	}
	if strings.HasPrefix(l.Text, "parameter ") || strings.Contains(l.Text, "connection authorized") {
		l.Ours = true // our own settings, with their values
	}
	if r.Severity == "LOG" && auditedStatement.MatchString(l.Text) {
		l.Slow = &insight.SlowStatement{User: insight.Name(r.User), Database: insight.Name(r.Database)}
		return l
	}
	if slow := slowStatement.FindStringSubmatch(l.Text); slow != nil && r.Severity == "LOG" {
		took, err := strconv.ParseFloat(slow[1], 64)
		if err == nil {
			l.Slow = &insight.SlowStatement{User: insight.Name(r.User), Database: insight.Name(r.Database), Took: milliseconds(took)}
			return l
		}
	}
	if r.User == "" && (l.Severity == insight.Error || l.Severity == insight.Warning) {
		l.Text = quotes.ReplaceAllString(l.Text, `"…"`) // a background process met a customer's values
	} else if r.User != "" && r.User != "[unknown]" {
		if l.Severity == insight.Error {
			l.Text = unquoted(l.Text)
		}
		l.Text = r.User + "@" + r.Database + ": " + l.Text
	}
	return l
}
