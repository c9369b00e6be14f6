package postgresql

import (
	"regexp"
	"strings"
	"time"

	"steward/internal/insight"
)

// logLine is one by log_line_prefix, "%m [%p] %q%u@%d ": the part behind the pid is there for sessions only.
var logLine = regexp.MustCompile(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) UTC \[\d+\] (?:(.*?)@(.*?) )?(DEBUG\d?|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT|CONTEXT|STATEMENT|QUERY|LOCATION):  (.*)$`)

// quotes are what messages quote of customers' data, and of names.
var quotes = regexp.MustCompile(`"[^"]*"?|'[^']*'?`)

// LogLine implements engine.Inspector. What is said beside a message, such as its statement, isn't shown; the server is told
// to leave it out, too.
func (Driver) LogLine(line string) (insight.LogLine, bool) {
	parts := logLine.FindStringSubmatch(line)
	if parts == nil {
		return insight.LogLine{}, false
	}
	at, err := time.Parse("2006-01-02 15:04:05.000", parts[1])
	if err != nil {
		return insight.LogLine{}, false
	}
	l := insight.LogLine{Time: at, Severity: insight.Info, Text: parts[5], Ours: parts[2] == adminRole}
	switch word := parts[4]; word {
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
	if parts[2] == "" && (l.Severity == insight.Error || l.Severity == insight.Warning) {
		l.Text = quotes.ReplaceAllString(l.Text, `"…"`) // a background process met a customer's values
	} else if parts[2] != "" && parts[2] != "[unknown]" {
		l.Text = parts[2] + "@" + parts[3] + ": " + l.Text
	}
	return l, true
}
