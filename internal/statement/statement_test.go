package statement_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"steward/internal/statement"
)

func TestNormalize(t *testing.T) {
	t.Parallel()
	const pg, my = statement.PostgreSQL, statement.MySQL
	for _, c := range []struct {
		d          statement.Dialect
		text, want string
	}{
		{pg, "", ""},
		{pg, "  SELECT\n\t1 ;  ", "SELECT ? ;"},
		{pg, "select * from orders where id=17 and name = 'x'", "select * from orders where id=? and name = ?"},
		{pg, "select 'it''s', E'a\\'b', U&'\\0041', B'01', x'ff', n'x', $tag$a $$ b$tag$, $$x$$", "select ?, ?, ?, ?, ?, ?, ?, ?"},
		{pg, "select 1, 1.5, .5, 1e-5, 1E+5, 0xFF, 1_000, -3, a1, t.c2, $1", "select ?, ?, ?, ?, ?, ?, ?, -?, a1, t.c2, $1"},
		{pg, "select 1 -- secret\n, 2 /* a /* b */ secret */ , 3", "select ? , ? , ?"},
		{pg, `select "a ""b"" 1" from "T"`, `select "a ""b"" 1" from "T"`},
		{pg, "select a$1$b from t", "select a$1$b from t"},
		{pg, "select data->'a'->>'b' from t where x ?| array['a'] and y::int4 = 5", "select data->?->>? from t where x ?| array[?] and y::int4 = ?"},
		{pg, "insert into t values (1, 'a'), (2, 'b')", "insert into t values (?, ?), (?, ?)"},
		{pg, "alter role x password 'hunter2'", "alter role x password ?"},
		{pg, "create user x with password $pw$hunter2$pw$", "create user x with password ?"},
		{pg, "set app.token = hunter2", "set app.token = ?…"},
		{pg, "SET app.token TO hunter2", "SET app.token TO ?…"},
		{pg, "select 1; set app.token to hunter2", "select ?; set app.token to ?…"},
		{pg, "alter role x set app.token = hunter2", "alter role x set app.token = ?…"},
		{pg, "alter table a rename to b", "alter table a rename to b"},
		{pg, "update t set a = b, c = 5", "update t set a = b, c = ?"},
		// Whether a backslash escapes is up to a setting.
		{pg, `select 'a\b', 5`, "select ?, ?"},
		{pg, `select 'a\', hunter2, ' , 5`, "select ?…"},
		{pg, `select 'unfinished hunter2`, "select ?…"},
		{pg, "select $tag$unfinished hunter2", "select ?…"},
		{pg, "select 1 /* unfinished hunter2", "select ?…"},
		{pg, `select "unfinished`, "select…"},
		{pg, "select $unfinished", "select…"},
		{pg, "select a \\ hunter2", "select a…"},
		{pg, "select \x1b[31m", "select…"},
		{pg, "select \"\x1b[31m\u202e\" from \"\xff\"", "select \"\uFFFD[31m\uFFFD\" from \"\uFFFD\""},
		{pg, "select 1 # 2", "select ? # ?"},
		{my, "select 'it''s', 'a\\\\', \"x\"\"y\", _utf8'x', _latin1\"x\", N'x', x'4d', 0x4D, b'01'", "select ?, ?, ?, ?, ?, ?, ?, ?, ?"},
		{my, "select `a``b 1` from t # secret\nwhere 1e5 and 1abc", "select `a``b 1` from t where ? and ?"},
		{my, "select 5--3, 4 -- secret", "select ?--?, ?"},
		{my, "select /*!50000 secret */ 1 /*+ hint */", "select ?"},
		{my, "select /*! a /* b */ hunter2 */ 1", "select…"},
		{my, `select 'a\' or hunter2`, "select ?…"},
		{my, `select 'a\'b', 5`, "select ?…"}, // without backslash escapes it ends before b
		{my, "select @'user name', @x := 5", "select @?, @x := ?"},
		{my, "set password for x = password('hunter2')", "set password for x = ?…"},
		{my, "create user x identified by 'hunter2'", "create user x identified by ?"},
	} {
		if got := statement.Normalize(c.d, c.text, false); got != c.want {
			t.Errorf("%d %q:\n got %q\nwant %q", c.d, c.text, got, c.want)
		}
	}
}

// TestNormalizeOfABeginning: what a server has cut off might go on in any way.
func TestNormalizeOfABeginning(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"select 1, 2": "select ?, ?…", "select a, b": "select a,…", "select 'a'": "select ?…", "select a ": "select a…", "": "…",
	} {
		if got := statement.Normalize(statement.PostgreSQL, text, true); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestNormalizeIsBounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"select " + strings.Repeat("ä, ", 1<<20), "select " + strings.Repeat("x", 1<<20), "select '" + strings.Repeat("x", 1<<20) + "'",
		strings.Repeat("/*", 1<<20), strings.Repeat("'\\", 1<<20), strings.Repeat("$a$", 1<<20) + "x",
	} {
		got := statement.Normalize(statement.PostgreSQL, text, false)
		if len(got) > statement.MaxLength+len("…") || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("%.20q: %d bytes: …%q", text, len(got), got[max(0, len(got)-20):])
		}
	}
}

// secret stands in every literal and comment that the property makes.
const secret = "hunter2"

// part is a piece of a statement; closed reports whether it is read alike under all settings.
func parts(d statement.Dialect) *rapid.Generator[string] {
	free := rapid.StringMatching(`[a-z'"\\$/*# \-]{0,5}`)
	doubled := func(text, mark string) string { return strings.ReplaceAll(text, mark, mark+mark) }
	return rapid.Custom(func(t *rapid.T) string {
		inside := free.Draw(t, "before") + secret + free.Draw(t, "after")
		clean := strings.NewReplacer("*/", "", "/*", "", "*", "", "/", "").Replace(inside)
		kinds := []string{
			"select", "from", "a.b", " ", "\n", ",", "(", ")", "=", "5", "1e9", "-", "x'", // the last is unfinished
			"'" + doubled(strings.ReplaceAll(inside, `\`, ""), "'") + "'", "/* " + clean + " */", "-- " + strings.ReplaceAll(inside, "\n", "") + "\n",
			"'" + doubled(inside, "'") + "'",
		}
		if d == statement.PostgreSQL {
			kinds = append(kinds, "E'"+doubled(strings.ReplaceAll(inside, `\`, `\\`), "'")+"'", "$q$"+strings.ReplaceAll(inside, "$", "")+"$q$",
				"$$"+strings.ReplaceAll(inside, "$", "")+"$$", `"a name"`, "$1", "/* a /* "+clean+" */ "+clean+" */")
		} else {
			kinds = append(kinds, `"`+doubled(strings.ReplaceAll(inside, `\`, ""), `"`)+`"`, "# "+inside+"\n", "`a name`", "/*! "+clean+" */",
				"_utf8'"+doubled(strings.ReplaceAll(inside, `\`, `\\`), "'")+"'")
		}
		return rapid.SampledFrom(kinds).Draw(t, "part")
	})
}

// TestNoLiteralSurvives makes statements that hold a secret in their literals and comments only.
func TestNoLiteralSurvives(t *testing.T) {
	t.Parallel()
	for _, d := range []statement.Dialect{statement.PostgreSQL, statement.MySQL} {
		t.Run(fmt.Sprint(d), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				// A space keeps parts apart: joined, two strings would be one.
				text := strings.Join(rapid.SliceOfN(parts(d), 1, 12).Draw(t, "parts"), " ")
				if unfinished := strings.Index(text, "x' "); unfinished >= 0 {
					text = text[:unfinished+1] // what follows would be inside out
				}
				if got := statement.Normalize(d, text, false); strings.Contains(got, secret) {
					t.Fatalf("%q is shown as %q", text, got)
				}
			})
		})
	}
}

func FuzzNormalize(f *testing.F) {
	for _, text := range []string{"select 1", "'", "E'\\", "$a$", "/*", "--", "\"", "`", "u&'", "1e+", "_x'", "\xff", "set a = b"} {
		f.Add(true, text)
		f.Add(false, text)
	}
	f.Fuzz(func(t *testing.T, pg bool, text string) {
		d := statement.MySQL
		if pg {
			d = statement.PostgreSQL
		}
		got := statement.Normalize(d, text, false)
		if len(got) > statement.MaxLength+len("…") || !utf8.ValidString(got) {
			t.Fatalf("%d bytes: %q", len(got), got)
		}
		for _, c := range got {
			if !unicode.IsPrint(c) {
				t.Fatalf("%q has %q", got, c)
			}
		}
		if strings.IndexFunc(got, func(c rune) bool { return c == '\'' && !strings.ContainsAny(got, "\"`") }) >= 0 {
			t.Fatalf("%q has a quote outside of names", got)
		}
		// A digit may stand in names and parameters only.
		if d == statement.PostgreSQL && !strings.ContainsAny(got, "\"$") {
			for _, word := range strings.FieldsFunc(got, func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) && c < utf8.RuneSelf }) {
				if word[0] >= '0' && word[0] <= '9' {
					t.Fatalf("%q has the number %q", got, word)
				}
			}
		}
	})
}
