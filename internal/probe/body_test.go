package probe

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

func packedBy(texts []string, pack func(io.Writer) io.WriteCloser) string {
	var b strings.Builder
	w := pack(&b)
	for _, text := range texts {
		io.WriteString(w, text)
	}
	w.Close()
	return b.String()
}

// packed is one text, which is handed over in parts: one of many megabytes would keep the whole process waiting while it is copied.
func packed(texts ...string) string {
	return packedBy(texts, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
}

func zlibbed(text string) string {
	return packedBy([]string{text}, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
}

func deflated(text string) string {
	return packedBy([]string{text}, func(w io.Writer) io.WriteCloser {
		f, _ := flate.NewWriter(w, flate.BestSpeed) // the level is one
		return f
	})
}

// TestCharsets: a text is found in any charset, declared wherever, in pieces of a
// byte and in one.
func TestCharsets(t *testing.T) {
	t.Parallel()
	page := func(e encoding.Encoding, text string) string {
		encoded, err := e.NewEncoder().String(text)
		if err != nil {
			t.Fatal(err)
		}
		return encoded
	}
	utf16 := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	long := strings.Repeat("all is well and nothing is missing ", 100)
	for name, test := range map[string]struct {
		body, contentType, text string
		want                    bool
	}{
		"UTF-8":                          {"Alles läuft", "text/plain; charset=utf-8", "läuft", true},
		"UTF-8, not declared":            {"Alles läuft", "", "läuft", true},
		"UTF-8, far down, not declared":  {long + "läuft", "text/html", "läuft", true},
		"Latin-1":                        {page(charmap.ISO8859_1, "Alles läuft"), "text/plain; charset=iso-8859-1", "läuft", true},
		"Latin-1, not declared":          {page(charmap.ISO8859_1, "Alles läuft"), "text/plain", "läuft", true},
		"Latin-1, long, not declared":    {page(charmap.ISO8859_1, long+"läuft"), "text/plain", "läuft", true},
		"Latin-2 in a meta element":      {page(charmap.ISO8859_2, "<html><meta charset=iso-8859-2><p>Wszystko działa"), "text/html", "działa", true},
		"Latin-2 in an old meta element": {page(charmap.ISO8859_2, `<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-2">działa`), "text/html", "działa", true},
		"the header outweighs the page":  {page(charmap.ISO8859_2, "<meta charset=utf-8>działa"), "text/html; charset=iso-8859-2", "działa", true},
		"Shift JIS":                      {page(japanese.ShiftJIS, "正常に動作しています"), "text/html; charset=Shift_JIS", "動作", true},
		"ISO-2022-JP":                    {page(japanese.ISO2022JP, "正常に動作しています"), "text/html; charset=iso-2022-jp", "動作", true},
		"GBK":                            {page(simplifiedchinese.GBK, "一切正常"), "text/html; charset=gb2312", "正常", true},
		"UTF-16 by its mark":             {page(utf16, long+"läuft"), "", "läuft", true},
		"UTF-16 by its mark, declared":   {page(utf16, "Alles läuft"), "text/plain; charset=utf-8", "läuft", true},
		"other text":                     {page(charmap.ISO8859_1, "Alles läuft"), "text/plain; charset=iso-8859-1", "steht", false},
		"other text, not declared":       {long, "", "läuft", false},
		"an unknown charset":             {"Alles läuft", "text/plain; charset=klingon", "läuft", true},
		"a broken content type":          {"Alles läuft", "text/plain; charset", "läuft", true},
		"nothing":                        {"", "", "x", false},
		"one byte":                       {"x", "", "x", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for way, body := range map[string]io.Reader{
				"at once": strings.NewReader(test.body), "by bytes": iotest.OneByteReader(strings.NewReader(test.body)), "with its end": iotest.DataErrReader(strings.NewReader(test.body)),
			} {
				got, err := find(body, test.text, test.contentType, make([]byte, 512))
				if err != nil || got != test.want {
					t.Errorf("%s: %t, %v", way, got, err)
				}
			}
		})
	}
}

// TestFoundAtOnce: what has come is looked at before more is waited for, also while
// the charset can't be told.
func TestFoundAtOnce(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"", "text/html", "text/plain; charset=utf-8", "text/plain; charset=iso-8859-1"} {
		body := io.MultiReader(strings.NewReader("all is well"), iotest.ErrReader(io.ErrNoProgress))
		if got, err := find(body, "well", contentType, make([]byte, 512)); err != nil || !got {
			t.Errorf("%q: %t, %v", contentType, got, err)
		}
	}
}

// FuzzWindow: a text is found exactly when it is there, however the pieces are cut.
func FuzzWindow(f *testing.F) {
	f.Add([]byte("all is well"), "is", []byte{1, 2, 3})
	f.Add([]byte("aaaab"), "aab", []byte{1})
	f.Fuzz(func(t *testing.T, body []byte, text string, cuts []byte) {
		if text == "" {
			return
		}
		w, rest := newWindow(text), body
		for _, cut := range cuts {
			n := min(int(cut), len(rest))
			w.seen(rest[:n])
			rest = rest[n:]
		}
		if got, want := w.seen(rest), bytes.Contains(body, []byte(text)); got != want {
			t.Fatalf("%q in %q cut at %v: %t", text, body, cuts, got)
		}
	})
}
