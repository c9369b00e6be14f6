package mysql

import (
	"bytes"
	"regexp"
	"strings"
)

// What a log of rows says in words is where transactions begin and end, and what no rows tell of: changes of tables, TRUNCATE, and what a
// session wrote as statements.

// meaning is what a statement of a log is for who follows a database.
type meaning int

const (
	// saysNothing is a statement that changes nothing that is followed.
	saysNothing meaning = iota
	saysBegin
	saysCommit
	saysRollback
	saysPartRollback // to a savepoint
	saysTwoPhase     // of a transaction that another statement ends
	saysTruncate
	saysChange // of tables
	saysRows   // written as a statement
)

// loggedStatement is one of a log, with the database that it was said in.
type loggedStatement struct{ schema, text string }

// parseStatement reads what follows the header of a query event.
func parseStatement(body []byte) (loggedStatement, error) {
	c := cutter{left: body}
	c.bytes(8) // the thread, and how long it took
	schema := int(c.number(1))
	c.bytes(2) // the error
	c.bytes(int(c.number(2)))
	st := loggedStatement{schema: string(c.bytes(schema))}
	if c.number(1) != 0 || c.bad {
		return st, errMangledLog
	}
	st.text = string(bytes.TrimSpace(c.left))
	return st, nil
}

// leading are comments before a statement, and the marks of those that are none.
var leading = regexp.MustCompile(`^(?s:\s+|--[ \t][^\n]*\n|#[^\n]*\n|/\*M?!\d*|/\*.*?\*/)`)

var (
	// nameInSQL has almost all characters: it isn't to be compiled for both cases, which takes each of them some time at each start.
	nameInSQL = "(`(?:[^`]|``)+`|[\\w$\\x80-\\x{10FFFF}]+)"
	// truncating is the one statement about a table that is followed.
	truncating = regexp.MustCompile(`(?s)^(?i:TRUNCATE\s+(?:TABLE\s+)?)(?:` + nameInSQL + `\s*\.\s*)?` + nameInSQL + `\s*(?i:(?:NOWAIT|WAIT\s+\d+)\s*)?(?:/\*.*\*/\s*)?;?$`)
	// keysOnly are what programs that load dumps say of keys.
	keysOnly = regexp.MustCompile(`(?is)^ALTER\s+TABLE\s+\S+\s+(?:DISABLE|ENABLE)\s+KEYS`)
)

// unconcerning are what statements change, by their second word, that isn't in a database.
var unconcerning = map[string]bool{
	"TEMPORARY": true, "USER": true, "ROLE": true, "SERVER": true, "RESOURCE": true, "TABLESPACE": true, "UNDO": true, "LOGFILE": true, "INSTANCE": true,
}

// meaning says what a statement is for who follows a database, and of TRUNCATE which table it is about.
func (st loggedStatement) meaning(database string) (m meaning, table string) {
	text := st.text
	for found := leading.FindString(text); found != ""; found = leading.FindString(text) {
		text = text[len(found):]
	}
	words := strings.Fields(strings.ToUpper(text[:min(len(text), 200)]))
	word := func(n int) string {
		if n < len(words) {
			return strings.TrimRight(words[n], ";")
		}
		return ""
	}
	switch word(0) {
	case "BEGIN", "START":
		return saysBegin, ""
	case "COMMIT":
		return saysCommit, ""
	case "ROLLBACK":
		if word(1) == "TO" {
			return saysPartRollback, ""
		}
		return saysRollback, ""
	case "XA":
		return saysTwoPhase, ""
	case "TRUNCATE":
		return st.truncates(text, database)
	case "CREATE", "ALTER", "DROP", "RENAME":
		if unconcerning[word(1)] || keysOnly.MatchString(text) || !st.concerns(database, word(1)) {
			return saysNothing, ""
		}
		return saysChange, ""
	case "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "CALL", "DO":
		if st.concerns(database, "") {
			return saysRows, ""
		}
	}
	return saysNothing, ""
}

func (st loggedStatement) truncates(text, database string) (m meaning, table string) {
	found := truncating.FindStringSubmatch(text)
	if found == nil {
		if st.concerns(database, "") {
			return saysChange, ""
		}
		return saysNothing, ""
	}
	schema := st.schema
	if found[1] != "" {
		schema = unquoted(found[1])
	}
	if !strings.EqualFold(schema, database) {
		return saysNothing, ""
	}
	return saysTruncate, unquoted(found[2])
}

// concerns reports whether a statement may be about a database: it was said there, or names it.
func (st loggedStatement) concerns(database, kind string) bool {
	if strings.EqualFold(st.schema, database) {
		return true
	}
	text, name := strings.ToLower(strings.ReplaceAll(st.text, "`", "")), strings.ToLower(strings.ReplaceAll(database, "`", ""))
	if kind == "DATABASE" || kind == "SCHEMA" {
		return strings.Contains(text, name)
	}
	return regexp.MustCompile(`(^|[^\w$])` + regexp.QuoteMeta(name) + `\s*\.`).MatchString(text)
}

func unquoted(name string) string {
	if inner, quoted := strings.CutPrefix(name, "`"); quoted {
		return strings.ReplaceAll(strings.TrimSuffix(inner, "`"), "``", "`")
	}
	return name
}
