package mysql

import (
	"regexp"
	"strings"
	"time"

	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/statement"
)

// mariaDBLine and mySQLLine are lines of the two flavours: time, thread, severity, and with MySQL a number and a part of
// the server.
var (
	mariaDBLine = regexp.MustCompile(`^(\d{4}-\d\d-\d\d {1,2}\d{1,2}:\d\d:\d\d) \d+ \[(Note|Warning|ERROR)\] (.*)$`)
	mySQLLine   = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) \d+ \[(System|Note|Warning|ERROR)\] \[MY-\d+\] \[[^\]]*\] (.*)$`)
)

// ourUser is how servers name our accounts in their logs.
var ourUser = regexp.MustCompile(`(?i)user: '(` + adminUser + `|` + replicaUser + `)'|'(` + adminUser + `|` + replicaUser + `)'@`)

// ourReplication is how they name where a replica receives from.
var ourReplication = regexp.MustCompile(`'` + replicaUser + `@[^']*'`)

// changesSource begins what a server says when we tell it whom to follow, with all addresses.
var changesSource = regexp.MustCompile(`^'CHANGE (?:MASTER|REPLICATION SOURCE) TO`)

// Logs implements engine.Inspector.
func (*Driver) Logs(n engine.Node) []engine.LogFile {
	return []engine.LogFile{
		{Reader: func() engine.LogReader { return errorLog{} }},
		{Path: slowFile(n), Reader: func() engine.LogReader { return &slowLog{flavour: n.Installation.Flavour} }},
	}
}

// errorLog reads the server's output.
type errorLog struct{}

// Rest implements engine.LogReader.
func (errorLog) Rest(string) {}

// Complete implements engine.LogReader: there is nothing of statements here.
func (errorLog) Complete(*insight.LogLine, string, bool) {}

// Begin implements engine.LogReader. What events of customers warn of may have values in it, as a statement has.
func (errorLog) Begin(line string) (insight.LogLine, bool) {
	layout, parts := "2006-01-02 15:04:05", mariaDBLine.FindStringSubmatch(line)
	if parts == nil {
		layout, parts = "2006-01-02T15:04:05.000000Z", mySQLLine.FindStringSubmatch(line)
	}
	if parts == nil {
		return insight.LogLine{}, false
	}
	at, err := time.Parse(layout, padded(parts[1]))
	if err != nil {
		return insight.LogLine{}, false
	}
	l := insight.LogLine{Time: at, Severity: insight.Info, Text: ourReplication.ReplaceAllString(parts[3], "'…'"), Ours: ourUser.MatchString(parts[3]) || changesSource.MatchString(parts[3])}
	switch parts[2] {
	case "Warning":
		l.Severity = insight.Warning
	case "ERROR":
		l.Severity = insight.Error
	}
	if rest, of := strings.CutPrefix(l.Text, "Event Scheduler: "); of {
		l.Text = "Event Scheduler: " + statement.Normalize(statement.MySQL, rest, false)
	}
	return l, true
}

// padded is MariaDB's time with two digits for hours below ten.
func padded(at string) string { return strings.Replace(at, "  ", " 0", 1) }
