package insight

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Harmless replaces what a terminal would obey, and what can't be seen, in text that a customer or a
// server chose: escape sequences, marks that turn the direction of writing, bytes that are no text.
func Harmless(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\t' || c == '\n' || c == '\r':
			return ' '
		case c == utf8.RuneError || !unicode.IsPrint(c):
			return '\uFFFD'
		}
		return c
	}, text)
}

// Said is what a server says to a customer, made harmless and no longer than is shown.
func Said(text string) string {
	const most = 500
	text = Harmless(text)
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
