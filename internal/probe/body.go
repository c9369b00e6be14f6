package probe

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"
)

// mostBody is how much of a body is looked at, decompressed (docs/rules.md, Managed services).
const mostBody = 1 << 20

// window finds a text in what is written to it, whatever the pieces.
type window struct {
	text  []byte
	tail  []byte
	found bool
}

func newWindow(text string) *window { return &window{text: []byte(text)} }

// seen adds a piece and reports whether the text has been found by now.
func (w *window) seen(piece []byte) bool {
	if w.found || bytes.Contains(piece, w.text) {
		w.found = true
		return true
	}
	keep := len(w.text) - 1
	w.tail = append(w.tail, piece[:min(len(piece), keep)]...)
	w.found = bytes.Contains(w.tail, w.text)
	if len(piece) >= keep {
		w.tail = append(w.tail[:0], piece[len(piece)-keep:]...)
	} else if more := len(w.tail) - keep; more > 0 {
		w.tail = append(w.tail[:0], w.tail[more:]...)
	}
	return w.found
}

// Write is seen, for transform.Writer.
func (w *window) Write(piece []byte) (int, error) {
	w.seen(piece)
	return len(piece), nil
}

// finder looks for a text in a body of any charset. It looks at the bytes as they
// are, since most pages are UTF-8 and many say something else or nothing, and at
// what the declared or guessed charset makes of them.
type finder struct {
	raw, decoded *window
	contentType  string
	// head is what came before the charset could be told.
	head    []byte
	decided bool
	decoder *transform.Writer
}

func newFinder(text, contentType string) *finder {
	return &finder{raw: newWindow(text), decoded: newWindow(text), contentType: contentType}
}

// Pages declare their charset in the first kilobyte (HTML standard); a byte order
// mark takes three bytes.
const declaration, mark = 1024, 3

func (f *finder) seen(piece []byte) (bool, error) {
	if f.raw.seen(piece) {
		return true, nil
	}
	if f.decided {
		return f.decode(piece)
	}
	f.head = append(f.head, piece...)
	if len(f.head) >= declaration || len(f.head) >= mark && declared(f.contentType) {
		return f.decide()
	}
	return false, nil
}

// end reports whether the text was found when all has been seen.
func (f *finder) end() (bool, error) {
	if !f.decided {
		if _, err := f.decide(); err != nil {
			return false, err
		}
	}
	if f.decoder != nil {
		if err := f.decoder.Close(); err != nil {
			return false, err
		}
	}
	return f.decoded.found, nil
}

func (f *finder) decide() (bool, error) {
	f.decided = true
	if e, name, _ := charset.DetermineEncoding(f.head, f.contentType); name != "utf-8" && e != encoding.Nop {
		f.decoder = transform.NewWriter(f.decoded, e.NewDecoder())
	}
	head := f.head
	f.head = nil
	return f.decode(head)
}

func (f *finder) decode(piece []byte) (bool, error) {
	if f.decoder == nil {
		return false, nil
	}
	_, err := f.decoder.Write(piece)
	return f.decoded.found, err
}

func declared(contentType string) bool {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	e, _ := charset.Lookup(parameters["charset"])
	return e != nil
}

// find reads until the text was found or there is no more to look at.
func find(body io.Reader, text, contentType string, buffer []byte) (bool, error) {
	f := newFinder(text, contentType)
	body = io.LimitReader(body, mostBody)
	for {
		n, err := body.Read(buffer)
		if found, err := f.seen(buffer[:n]); found || err != nil {
			return found, err
		}
		if errors.Is(err, io.EOF) {
			return f.end()
		}
		if err != nil {
			return false, err
		}
	}
}

// contentEncoding is the one word of a Content-Encoding header; "" for none.
func contentEncoding(header string) string {
	word := strings.ToLower(strings.TrimSpace(header))
	if word == "identity" {
		return ""
	}
	return strings.TrimPrefix(word, "x-")
}
