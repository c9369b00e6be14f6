package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
)

// dist is what `make generate` makes of web/.
//
//go:embed dist
var dist embed.FS

//go:embed notice.html
var noticeText string

var noticeTemplate = template.Must(template.New("notice").Parse(noticeText))

// file is an asset as it is and compressed, which it is once somebody asks for it.
type file struct {
	kind   string
	text   []byte
	packed func() []byte
}

// files are the page that all addresses share, and what it loads.
type files struct {
	index  []byte
	style  string
	assets map[string]file
}

func readFiles() (*files, error) {
	f := &files{assets: map[string]file{}}
	index, err := dist.ReadFile("dist/index.html")
	if err != nil {
		return nil, fmt.Errorf("read the console's page: %w", err)
	}
	f.index = index
	names, err := fs.Glob(dist, "dist/assets/*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := dist.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read an asset: %w", err)
		}
		base := path.Base(name)
		f.assets[base] = file{kind: mime.TypeByExtension(path.Ext(name)), text: text, packed: sync.OnceValue(func() []byte { return packed(text) })}
		if path.Ext(name) == ".css" {
			f.style = base
		}
	}
	return f, nil
}

func packed(text []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is a constant
	}
	_, _ = w.Write(text) // to memory
	_ = w.Close()
	return b.Bytes()
}

// page is every address of the console: the script finds out what to show.
func (c *Console) page(w http.ResponseWriter, r *http.Request) {
	if path.Ext(r.URL.Path) != "" {
		c.notice(w, http.StatusNotFound, notice{Title: "Nothing here", Text: "The console has no such page.", Link: "/console/", LinkText: "Go to the console"})
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(c.files.index)
}

// asset answers what the page loads. Its name has a hash of what is in it.
func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	f, known := c.files.assets[r.PathValue("name")]
	if !known {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	text := f.text
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		text = f.packed()
	}
	_, _ = w.Write(text)
}

// notice is a page that says one thing.
type notice struct {
	Title, Text, Link, LinkText string
	// Style is the name of the sheet; notice fills it in.
	Style string
}

func (c *Console) notice(w http.ResponseWriter, status int, n notice) {
	n.Style = c.files.style
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := noticeTemplate.Execute(w, n); err != nil {
		c.Logger.Warn("write a page of the console", "error", err)
	}
}
