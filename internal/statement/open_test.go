package statement_test

import (
	"testing"

	"pgregory.net/rapid"

	"steward/internal/statement"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": false, "SELECT 1": false, "SELECT 'a": true, "SELECT 'a'": false, "SELECT 'it''s": true, "SELECT 'it''s'": false,
		`SELECT 'it\'s`: true, `SELECT 'it\\'`: false, `SELECT "a`: true, "SELECT `a": true, "SELECT `a\\`": false,
		"SELECT 1 -- 'x\n": false, "SELECT 1 -- x": true, "SELECT 1--'x": true, "SELECT 1--1": false, "# 'x\n": false, "# x": true,
		"/* ' ": true, "/* ' */": false, "/*/": true, "/* x **/": false, "SELECT 1 - - 'x": true, "'/*'": false, "--\n": false,
	} {
		var whole statement.Open
		if whole.Read(text); whole.Within() != want {
			t.Errorf("%q: %v", text, whole.Within())
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("a'\"`\\-#/* \n=")), 0, 20, -1).Draw(t, "text")
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		var whole, pieces statement.Open
		whole.Read(text)
		pieces.Read(text[:at])
		if pieces.Read(text[at:]); whole != pieces {
			t.Fatalf("%+v in one, %+v in two", whole, pieces)
		}
	})
}
