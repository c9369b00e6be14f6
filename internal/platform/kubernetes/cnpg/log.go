package cnpg

import (
	"encoding/json"
	"time"
)

// serverLogger is what the instance manager calls the server, of whose log each entry is a record. Its other lines are its own.
const serverLogger = "postgres"

// logTime is how the server writes when something was, with log_timezone at UTC.
const logTime = "2006-01-02 15:04:05.000 MST"

// LogRecord is an entry of a server's log, as the instance manager passes it on.
type LogRecord struct {
	At                                time.Time
	User, Database, Severity, Message string
}

// ParseLog reads a line of a Pod's log; false for one that isn't a record of the server's. cut says that there is more of the line: then the
// message may end early.
func ParseLog(line []byte, cut bool) (LogRecord, bool) {
	var l struct {
		Logger string `json:"logger"`
		Record struct {
			Time     string `json:"log_time"`
			User     string `json:"user_name"`
			Database string `json:"database_name"`
			Severity string `json:"error_severity"`
			Message  string `json:"message"`
		} `json:"record"`
	}
	if cut {
		line = closed(line)
	}
	if json.Unmarshal(line, &l) != nil || l.Logger != serverLogger {
		return LogRecord{}, false
	}
	at, err := time.Parse(logTime, l.Record.Time)
	if err != nil || l.Record.Severity == "" {
		return LogRecord{}, false
	}
	return LogRecord{at.UTC(), l.Record.User, l.Record.Database, l.Record.Severity, l.Record.Message}, true
}

// longestEscape is what a character takes at most that isn't written as it is.
const longestEscape = len(`\u0000`)

// closed is the beginning of a line made whole: the text that it was cut in ends before it, wherever that was.
func closed(line []byte) []byte {
	for _, end := range []string{`"}}`, `":""}}`, `}}`, `}`} {
		for less := range min(longestEscape, len(line)) {
			whole := append(line[:len(line)-less:len(line)-less], end...)
			if json.Valid(whole) {
				return whole
			}
		}
	}
	return nil
}
