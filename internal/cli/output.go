package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonFlag is embedded in commands that can answer for programs.
type jsonFlag struct {
	JSON bool `help:"Print JSON."`
}

func printJSON(w io.Writer, v any) error {
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice && list.IsNil() {
		v = []any{} // who reads it goes through a list, of nothing too
	}
	encoder := json.NewEncoder(jsonWriter{w})
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// printJSONLine prints JSON on a line of its own, for what is followed.
func printJSONLine(w io.Writer, v any) error { return json.NewEncoder(jsonWriter{w}).Encode(v) }

// jsonWriter escapes what an encoder leaves as it is and terminals may obey: control characters from U+007F on, and such as turn the direction of
// text around. They stand in strings only: it stays the same JSON. An encoder writes each value at once.
type jsonWriter struct{ to io.Writer }

// Write implements io.Writer.
func (w jsonWriter) Write(text []byte) (int, error) {
	escaped := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			escaped = utf8.AppendRune(escaped, r)
		case r > 0xffff:
			first, second := utf16.EncodeRune(r)
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, first, second)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
	}
	if _, err := w.to.Write(escaped); err != nil {
		return 0, err
	}
	return len(text), nil
}

// printOne prints what a list has as well, alone: as JSON, or as the list's table.
func printOne[T any](s *streams, one T, asJSON bool, list func(s *streams, all []T, asJSON bool) error) error {
	if asJSON {
		return printJSON(s.out, one)
	}
	return list(s, []T{one}, false)
}

// printList prints a list: as JSON, in which it is a list also when nothing is in it, or as a table with a row for each.
func printList[T any](w io.Writer, all []T, asJSON bool, heads []string, row func(T) []string) error {
	if asJSON {
		return printJSON(w, all)
	}
	rows := make([][]string, len(all))
	for i, one := range all {
		rows[i] = row(one)
	}
	return printTable(w, heads, rows)
}

// printTable prints rows in aligned columns under upper-case heads, each on one line whatever is in it.
func printTable(w io.Writer, heads []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ToUpper(strings.Join(heads, "\t")))
	oneLine := strings.NewReplacer("\n", " ", "\t", " ")
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, text := range row {
			cells[i] = printable(oneLine.Replace(text))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// printable keeps what a stranger wrote from doing things to a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// printableLines is printable for a text of several lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = printable(strings.ReplaceAll(strings.TrimSuffix(line, "\r"), "\t", "    "))
	}
	return strings.Join(lines, "\n")
}
