package api_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// deliveryOperation is what the document says of an operation's answers.
type deliveryOperation struct {
	ID        string `yaml:"operationId"`
	Responses map[string]struct {
		Headers map[string]any `yaml:"headers"`
		Content any            `yaml:"content"`
	} `yaml:"responses"`
}

// tagged reports whether the document promises a tag, and 304 to who has it.
func (o deliveryOperation) tagged(t *testing.T) bool {
	t.Helper()
	_, etag := o.Responses["200"].Headers["ETag"]
	_, unchanged := o.Responses["304"]
	if etag != unchanged {
		t.Errorf("%s documents ETag: %t, 304: %t", o.ID, etag, unchanged)
	}
	return etag
}

type deliveryDocument struct {
	Paths      map[string]map[string]deliveryOperation `yaml:"paths"`
	Components struct {
		Schemas map[string]any `yaml:"schemas"`
	} `yaml:"components"`
}

func documentOf(t *testing.T) deliveryDocument {
	t.Helper()
	var d deliveryDocument
	readDocument(t, &d)
	return d
}

// members collects the names of all members that a schema leads to.
func (d deliveryDocument) members(node any, names, seen map[string]bool) {
	switch node := node.(type) {
	case map[string]any:
		if ref, ok := node["$ref"].(string); ok && !seen[ref] {
			seen[ref] = true
			d.members(d.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")], names, seen)
		}
		properties, _ := node["properties"].(map[string]any)
		for name := range properties {
			names[name] = true
		}
		for _, child := range node {
			d.members(child, names, seen)
		}
	case []any:
		for _, child := range node {
			d.members(child, names, seen)
		}
	}
}

// oneOfEach makes one of everything that a path of the document may lead to.
func (b *bench) oneOfEach() *strings.Replacer {
	b.t.Helper()
	postgres := b.create()
	made := func(path, body string) string {
		b.t.Helper()
		r := b.send("POST", path, b.full, body)
		if r.StatusCode != 200 {
			b.t.Fatalf("%s: %d %s", path, r.StatusCode, r.body)
		}
		var v struct{ ID any }
		if err := yaml.Unmarshal([]byte(r.body), &v); err != nil {
			b.t.Fatal(err)
		}
		return fmt.Sprint(v.ID)
	}
	mysql := made("/v4/databases/mysql/instances", strings.NewReplacer("postgresql/15", "mysql/10.11", "shop", "other").Replace(goodCreate))
	return strings.NewReplacer(
		"/postgresql/instances/{instanceId}", fmt.Sprintf("/postgresql/instances/%d", postgres),
		"/mysql/instances/{instanceId}", "/mysql/instances/"+mysql,
		"{contactId}", made("/v4/managed/contacts", `{"name":"Ann","email":"ann@example.org"}`),
		"{credentialId}", made("/v4/managed/credentials", `{"label":"router","username":"admin","password":"not told"}`),
		"{tokenId}", made("/v4/profile/tokens", `{"label":"x","scopes":"*"}`),
		"{clientId}", made("/v4/account/oauth-clients", `{"label":"x","redirect_uri":"https://example.org/"}`),
		"{alertId}", "1", "{channelId}", "1", "{serviceType}", "dbaas", "{username}", "limited", "{engine}/{series}", "postgresql/15", "{id}", "local",
	)
}

// TestRepeatedGetIsNotModified walks the document: each GET answers a tag and 304
// to who sends it back, but for those whose answers may carry a secret.
func TestRepeatedGetIsNotModified(t *testing.T) {
	t.Parallel()
	b := newBench(t, withinAMinute) // charts go on with the time
	there, d := b.oneOfEach(), documentOf(t)
	tagged, secret := 0, 0
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		op, ok := d.Paths[path]["get"]
		if !ok {
			continue
		}
		path = there.Replace(path)
		first := b.send("GET", path, b.full, "")
		etag := first.Header.Get("ETag")
		if !op.tagged(t) {
			secret++
			if etag != "" || first.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s may carry a secret: ETag %q, Cache-Control %q", op.ID, etag, first.Header.Get("Cache-Control"))
			}
			continue
		}
		if first.Header.Get("Cache-Control") != "private, no-cache" || first.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: Cache-Control %q, Vary %q", op.ID, first.Header.Get("Cache-Control"), first.Header.Get("Vary"))
		}
		if first.StatusCode != 200 {
			if etag != "" {
				t.Errorf("%s answered %d with the tag %s", op.ID, first.StatusCode, etag)
			}
			continue
		}
		tagged++
		for _, method := range []string{"GET", "HEAD"} {
			again := b.send(method, path, b.full, "", "If-None-Match", etag)
			if again.StatusCode != 304 || again.body != "" || again.Header.Get("ETag") != etag || again.Header.Get("Content-Type") != "" {
				t.Errorf("%s of %s once more: %d, ETag %q, was %q; %s", method, op.ID, again.StatusCode, again.Header.Get("ETag"), etag, again.body)
			}
			for _, name := range []string{"Cache-Control", "Vary", "Access-Control-Allow-Origin", "X-Oauth-Scopes"} {
				if got, want := again.Header.Get(name), first.Header.Get(name); got != want {
					t.Errorf("%s of %s once more: %s %q, was %q", method, op.ID, name, got, want)
				}
			}
		}
	}
	if tagged < 30 || secret < 8 {
		t.Errorf("only %d answers with a tag and %d with a secret: the walk is broken", tagged, secret)
	}
}

// TestSecretsAreMarked walks the document: what has a member that is a secret by
// its name is marked as one, whatever its method.
func TestSecretsAreMarked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	there, d := b.oneOfEach(), documentOf(t)
	found := 0
	for path, methods := range d.Paths {
		for method, op := range methods {
			names := map[string]bool{}
			d.members(op.Responses["200"].Content, names, map[string]bool{})
			if !names["password"] && !names["secret"] && !names["token"] && !names["ca_certificate"] {
				continue
			}
			found++
			r := b.send(strings.ToUpper(method), there.Replace(path), b.full, "", "Accept-Encoding", "gzip")
			if h := r.Header; h.Get("Cache-Control") != "no-store" || h.Get("Vary") != "" || h.Get("Content-Encoding") != "" || op.tagged(t) {
				t.Errorf("%s: %v", op.ID, h)
			}
		}
	}
	if found < 13 {
		t.Errorf("only %d operations found: the walk is broken", found)
	}
}

// TestSecretsAreNotCompressed: however long the answer is.
func TestSecretsAreNotCompressed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 8 {
		body := `{"label":"` + strings.Repeat("x", 100) + `","scopes":"*"}`
		if r := b.send("POST", "/v4/profile/tokens", b.full, body); r.StatusCode != 200 {
			t.Fatalf("%d %s", r.StatusCode, r.body)
		}
	}
	r := b.send("GET", "/v4/profile/tokens", b.full, "", "Accept-Encoding", "gzip")
	if len(r.body) < 1<<10 || r.Header.Get("Content-Encoding") != "" {
		t.Errorf("%d bytes, encoding %q", len(r.body), r.Header.Get("Content-Encoding"))
	}
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {strings.Repeat("x", 2<<10)}}.Encode()
	for _, path := range []string{"/oauth/token", "/oauth/introspect", "/oauth/revoke"} {
		r := b.send("POST", path, "", form, "Accept-Encoding", "gzip", "Content-Type", "application/x-www-form-urlencoded")
		if r.Header.Get("Content-Encoding") != "" || r.Header.Get("Vary") != "" {
			t.Errorf("%s: %v", path, r.Header)
		}
	}
}

func TestIfNoneMatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const path = "/v4/databases/types"
	tag := b.send("GET", path, "", "").Header.Get("ETag")
	strong := strings.TrimPrefix(tag, "W/")
	tests := []struct {
		name, method, sent string
		want               int
	}{
		{"the tag", "GET", tag, 304},
		{"the tag, of a HEAD", "HEAD", tag, 304},
		{"as a strong one", "GET", strong, 304},
		{"one of several", "GET", `"x", ` + tag + ` ,W/"y"`, 304},
		{"anything", "GET", "*", 304},
		{"another", "GET", `W/"00000000000000000000000000000000"`, 200},
		{"a part of it", "GET", strong[:len(strong)-2] + `"`, 200},
		{"without quotes", "GET", strings.Trim(strong, `"`), 200},
		{"nothing", "GET", "", 200},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := b.send(test.method, path, "", "", "If-None-Match", test.sent)
			if r.StatusCode != test.want || r.Header.Get("ETag") != tag || (r.body == "") != (test.want == 304) {
				t.Errorf("%d, ETag %q, %d bytes", r.StatusCode, r.Header.Get("ETag"), len(r.body))
			}
		})
	}
}

// TestTagFollowsContent: a change is seen, and where there is none again the tag
// is the old one. What is no GET has none.
func TestTagFollowsContent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const path = "/v4/managed/contacts"
	empty := b.send("GET", path, b.full, "").Header.Get("ETag")
	r := b.send("POST", path, b.full, `{"name":"Ann","email":"ann@example.org"}`, "If-None-Match", "*")
	if r.StatusCode != 200 || r.Header.Get("ETag") != "" {
		t.Fatalf("POST: %d, ETag %q", r.StatusCode, r.Header.Get("ETag"))
	}
	if r := b.send("GET", path, b.full, "", "If-None-Match", empty); r.StatusCode != 200 || r.Header.Get("ETag") == empty {
		t.Errorf("after a change: %d, ETag %q", r.StatusCode, r.Header.Get("ETag"))
	}
	if r := b.send("GET", path, b.full, "", "If-None-Match", empty, "X-Filter", `{"name":"nobody"}`); r.StatusCode != 304 {
		t.Errorf("the same content once more: %d", r.StatusCode)
	}
}

// TestCompression is over a connection, as clients have it: what is 1 KiB and more
// is compressed for who takes it, and its content and headers stay.
func TestCompression(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := httptest.NewServer(b.handler)
	t.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(client.CloseIdleConnections)
	send := func(method, path, accept string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if accept != "" {
			req.Header.Set("Accept-Encoding", accept)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var body io.Reader = resp.Body
		if resp.Header.Get("Content-Encoding") == "gzip" && method != "HEAD" {
			if body, err = gzip.NewReader(body); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	tests := []struct{ name, method, path, accept, want string }{
		{"who takes it", "GET", "/v4/databases/types", "gzip", "gzip"},
		{"who takes it, among others", "GET", "/v4/databases/types", "zstd, br;q=0.9, gzip;q=0.5", "gzip"},
		{"who takes it, by HEAD", "HEAD", "/v4/databases/types", "gzip", ""},
		{"who says nothing", "GET", "/v4/databases/types", "", ""},
		{"who refuses it", "GET", "/v4/databases/types", "gzip;q=0", ""},
		{"who takes another", "GET", "/v4/databases/types", "br", ""},
		{"a small answer", "GET", "/v4/regions/local", "gzip", ""},
		{"the document", "GET", "/openapi.yaml", "gzip", "gzip"},
		{"its page", "GET", "/docs", "gzip", "gzip"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			plain, text := send(test.method, test.path, "identity")
			got, body := send(test.method, test.path, test.accept)
			if got.StatusCode != 200 || got.Header.Get("Content-Encoding") != test.want || got.Header.Get("Vary") != "Accept-Encoding" {
				t.Errorf("%d, encoding %q, Vary %q", got.StatusCode, got.Header.Get("Content-Encoding"), got.Header.Get("Vary"))
			}
			if test.method == "HEAD" && got.ContentLength >= 0 {
				t.Errorf("HEAD tells the length %d, which isn't what GET sends", got.ContentLength)
			}
			if body != text || (test.method == "HEAD") != (text == "") {
				t.Errorf("%d bytes of content, plain %d", len(body), len(text))
			}
			for _, name := range []string{"Content-Type", "ETag"} {
				if got.Header.Get(name) != plain.Header.Get(name) {
					t.Errorf("%s %q, plain %q", name, got.Header.Get(name), plain.Header.Get(name))
				}
			}
			if strings.HasPrefix(test.path, "/v4/") && got.Header.Get("Content-Type") != "application/json" {
				t.Errorf("Content-Type %q", got.Header.Get("Content-Type"))
			}
		})
	}
}

// TestBrowsersMayRevalidate: scripts of other origins can read the tag and send it.
func TestBrowsersMayRevalidate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	asked := b.send("OPTIONS", "/v4/databases/types", "", "").Header
	answered := b.send("GET", "/v4/databases/types", "", "").Header
	if allow := asked.Get("Access-Control-Allow-Headers"); !strings.Contains(allow, "If-None-Match") {
		t.Errorf("allowed: %s", allow)
	}
	if expose := answered.Get("Access-Control-Expose-Headers"); !strings.Contains(expose, "ETag") {
		t.Errorf("exposed: %s", expose)
	}
}
