// Package statement shows SQL without what is in it: the words, names and operators of a statement
// stay, values and comments don't. It needs no server and believes no setting: where the text could be read
// in two ways, it ends.
package statement

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Dialect is how a server reads SQL.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota + 1
	MySQL              // and MariaDB
)

// MaxLength is how many bytes of a statement are shown at most, the ellipsis at its end not counted.
const MaxLength = 2000

// maxRead is how many bytes of a statement are looked at.
const maxRead = 64 << 10

const (
	placeholder = "?"
	ellipsis    = "…"
)

// Normalize returns text with every literal replaced by ?, without comments, white space
// made single spaces, and what a terminal obeys made harmless. It ends with an ellipsis where more of
// the statement isn't shown: it is too long, ends within a literal, or can be read in more than one way. more
// says that the statement goes on after text.
func Normalize(d Dialect, text string, more bool) string {
	r := reader{dialect: d, text: text, cut: more}
	if len(text) > maxRead {
		r.text, r.cut = text[:maxRead], true
	}
	for r.at < len(r.text) && !r.ended {
		r.next()
	}
	return r.result()
}

// HasPlan reports whether text begins as a statement does that servers have a plan for, and has none of MySQL's
// comments whose content is carried out.
func HasPlan(d Dialect, text string) bool {
	if d == MySQL && (strings.Contains(text, "/*!") || strings.Contains(text, "/*M!")) {
		return false
	}
	words := strings.FieldsFunc(strings.ToLower(Normalize(d, text, false)), func(c rune) bool { return c == ' ' || c == '(' })
	if len(words) == 0 {
		return false
	}
	switch words[0] {
	case "select", "insert", "update", "delete", "with", "values", "table":
		return true
	case "merge":
		return d == PostgreSQL
	case "replace":
		return d == MySQL
	}
	return false
}

// HasValues reports whether text may have values in it.
func HasValues(d Dialect, text string) bool {
	shown := Normalize(d, text, false)
	return strings.Contains(shown, placeholder) || strings.HasSuffix(shown, ellipsis)
}

// reader goes through a statement once.
type reader struct {
	dialect Dialect
	text    string
	at      int
	// out is what is shown so far; space reports whether white space comes before what is next.
	out   strings.Builder
	space bool
	// words counts the words so far; setting reports whether the statement is one whose values
	// may be bare words.
	words   int
	setting bool
	// cut reports whether the text goes on after what is read, ended whether nothing more is shown.
	cut, ended bool
}

func (r *reader) result() string {
	shown := r.out.String()
	if len(shown) > MaxLength {
		end := MaxLength
		for !utf8.RuneStart(shown[end]) {
			end--
		}
		return strings.TrimRight(shown[:end], " ") + ellipsis
	}
	if r.cut {
		return shown + ellipsis
	}
	return shown
}

// end has nothing more shown: what follows can't be told for sure.
func (r *reader) end() { r.cut, r.ended = true, true }

// show adds to what is shown.
func (r *reader) show(text string) {
	if r.space && r.out.Len() > 0 {
		r.out.WriteByte(' ')
	}
	r.space = false
	r.out.WriteString(text)
	if r.out.Len() > MaxLength {
		r.ended = true // result cuts it
	}
}

// value shows a literal that ends before end; -1 says that it doesn't end here, or nobody knows where.
func (r *reader) value(end int) {
	r.show(placeholder)
	if end < 0 {
		r.end()
		return
	}
	r.at = end
}

// peek returns the byte that is n further, 0 past the end.
func (r *reader) peek(n int) byte {
	if r.at+n < len(r.text) {
		return r.text[r.at+n]
	}
	return 0
}

func (r *reader) next() {
	c := r.text[r.at]
	switch {
	case isSpace(c):
		r.space = true
		r.at++
	case c == '\'':
		r.value(r.plainString(r.at, '\''))
	case c == '"':
		r.doubleQuoted()
	case c == '`' && r.dialect == MySQL:
		r.name(r.closing(r.at, '`'))
	case c == '-' && r.peek(1) == '-' && r.startsDashComment():
		r.lineComment()
	case c == '#' && r.dialect == MySQL:
		r.lineComment()
	case c == '/' && r.peek(1) == '*':
		r.blockComment()
	case c == '$' && r.dialect == PostgreSQL:
		r.dollar()
	case isDigit(c) || c == '.' && isDigit(r.peek(1)):
		r.number()
	case isWord(c):
		r.word()
	case strings.IndexByte("()[]{},;.:=<>+-*/%^&|~!@?#", c) >= 0:
		r.operator(c)
	default: // nothing that a statement has outside of literals
		r.end()
	}
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isWord reports whether a word may begin with c.
func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= utf8.RuneSelf
}

// isWordPart reports whether a word may go on with c.
func isWordPart(c byte) bool { return isWord(c) || isDigit(c) || c == '$' }

func (r *reader) operator(c byte) {
	r.show(string(c))
	r.at++
	if c == ';' {
		r.words, r.setting = 0, false
	}
	if c == '=' && r.setting {
		r.bareValue()
	}
}

// bareValue ends a statement whose value may be a bare word.
func (r *reader) bareValue() {
	r.show(" " + placeholder)
	r.end()
}

// word shows a keyword or a name, unless it begins a literal.
func (r *reader) word() {
	end := r.at
	for end < len(r.text) && isWordPart(r.text[end]) {
		end++
	}
	word := r.text[r.at:end]
	if end == len(r.text) && r.cut {
		r.end() // the rest of it might make it a literal
		return
	}
	if quote := byteAt(r.text, end); quote == '\'' || quote == '"' && r.dialect == MySQL {
		if r.prefixed(word, end, quote) {
			return
		}
	}
	if r.dialect == PostgreSQL && strings.EqualFold(word, "u") && byteAt(r.text, end) == '&' {
		switch byteAt(r.text, end+1) {
		case '\'':
			r.value(r.plainString(end+1, '\''))
			return
		case '"':
			r.end() // a name with escapes of its own
			return
		}
	}
	r.at = end
	r.words++
	r.show(harmless(word))
	r.keyword(word)
}

// keyword notes what a word says of those that follow.
func (r *reader) keyword(word string) {
	switch {
	case r.words == 1:
		r.setting = strings.EqualFold(word, "set") || strings.EqualFold(word, "alter") && r.dialect == PostgreSQL
	case r.setting && strings.EqualFold(word, "to") && !r.renames():
		r.bareValue()
	}
}

// renames reports whether TO is followed by a name: ALTER … RENAME TO.
func (r *reader) renames() bool {
	shown := strings.ToLower(r.out.String())
	return strings.HasSuffix(shown, "rename to") || strings.HasSuffix(shown, "owner to")
}

// prefixed shows a literal whose kind a word before its quote says; false when the word is none of those.
func (r *reader) prefixed(word string, quote int, mark byte) bool {
	switch lower := strings.ToLower(word); {
	case r.dialect == PostgreSQL && lower == "e":
		r.value(r.escapedString(quote, mark))
	case lower == "b", lower == "x", lower == "n", lower == "_" || strings.HasPrefix(lower, "_") && r.dialect == MySQL:
		r.value(r.plainString(quote, mark))
	default:
		return false
	}
	return true
}

func byteAt(text string, at int) byte {
	if at < len(text) {
		return text[at]
	}
	return 0
}

// plainString returns where a string ends that begins at a quote; -1 when it doesn't, or when
// that depends on whether backslashes escape, which is up to a setting of the session.
func (r *reader) plainString(at int, mark byte) int {
	end := r.closing(at, mark)
	if strings.IndexByte(r.text[at:max(at, end)], '\\') < 0 && end >= 0 {
		return end
	}
	if end != r.escapedString(at, mark) {
		return -1
	}
	return end
}

// closing returns where what begins at a quote ends when a doubled quote stands for one and nothing
// else is special; -1 when it doesn't end.
func (r *reader) closing(at int, mark byte) int {
	for i := at + 1; i < len(r.text); i++ {
		if r.text[i] != mark {
			continue
		}
		if byteAt(r.text, i+1) != mark {
			if i+1 == len(r.text) && r.cut {
				return -1 // the next byte may be the other of two
			}
			return i + 1
		}
		i++
	}
	return -1
}

// escapedString is closing where a backslash escapes what follows it.
func (r *reader) escapedString(at int, mark byte) int {
	for i := at + 1; i < len(r.text); i++ {
		switch {
		case r.text[i] == '\\':
			i++
		case r.text[i] != mark:
		case byteAt(r.text, i+1) == mark:
			i++
		case i+1 == len(r.text) && r.cut:
			return -1
		default:
			return i + 1
		}
	}
	return -1
}

// doubleQuoted shows a name of PostgreSQL's; with MySQL it is a string, but for a setting.
func (r *reader) doubleQuoted() {
	if r.dialect == MySQL {
		r.value(r.plainString(r.at, '"'))
		return
	}
	r.name(r.closing(r.at, '"'))
}

// name shows a quoted name that ends before end; nothing more when it doesn't end.
func (r *reader) name(end int) {
	if end < 0 {
		r.end()
		return
	}
	r.show(harmless(r.text[r.at:end]))
	r.words++
	r.at = end
}

// startsDashComment reports whether two dashes begin a comment: MySQL wants white space after them.
func (r *reader) startsDashComment() bool {
	if r.dialect == PostgreSQL {
		return true
	}
	next := r.peek(2)
	return next <= ' '
}

func (r *reader) lineComment() {
	ends := "\n"
	if r.dialect == PostgreSQL {
		ends = "\r\n"
	}
	length := strings.IndexAny(r.text[r.at:], ends)
	r.space = true
	if length < 0 {
		r.at = len(r.text)
		return
	}
	r.at += length
}

// blockComment leaves a comment out. PostgreSQL's hold others; with MySQL it depends on the kind of the
// comment.
func (r *reader) blockComment() {
	r.space = true
	depth, i := 1, r.at+2
	for ; depth > 0; i++ {
		switch {
		case i+1 >= len(r.text):
			r.end()
			return
		case r.text[i] == '*' && r.text[i+1] == '/':
			depth--
			i++
		case r.text[i] == '/' && r.text[i+1] == '*':
			if r.dialect == MySQL {
				r.end()
				return
			}
			depth++
			i++
		}
	}
	r.at = i
}

// dollar shows a parameter, or a string between tags.
func (r *reader) dollar() {
	end := r.at + 1
	if isDigit(byteAt(r.text, end)) {
		for isDigit(byteAt(r.text, end)) {
			end++
		}
		r.show(r.text[r.at:end])
		r.at = end
		return
	}
	for end < len(r.text) && r.text[end] != '$' && isWordPart(r.text[end]) {
		end++
	}
	if byteAt(r.text, end) != '$' {
		r.end()
		return
	}
	tag := r.text[r.at : end+1]
	length := strings.Index(r.text[end+1:], tag)
	if length < 0 {
		r.value(-1)
		return
	}
	r.value(end + 1 + length + len(tag))
}

// number shows one of any notation, with what is joined to it: 1e5, 0xFF, 1_000, and MySQL's names that
// begin with a digit.
func (r *reader) number() {
	end := r.at
	for end < len(r.text) {
		c := r.text[end]
		sign := (c == '+' || c == '-') && end > r.at && r.text[end-1]|0x20 == 'e' && isDigit(byteAt(r.text, end+1))
		if !isWordPart(c) && c != '.' && !sign {
			break
		}
		end++
	}
	if end == len(r.text) && r.cut {
		end = -1
	}
	r.value(end)
}

// harmless replaces what a terminal would obey, and what can't be seen.
func harmless(text string) string {
	return strings.Map(func(c rune) rune {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return '\uFFFD'
		}
		return c
	}, text)
}
