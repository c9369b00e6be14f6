package apitest_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"steward/internal/api/apitest"
)

func committed(t *testing.T) *apitest.Document {
	t.Helper()
	text, err := os.ReadFile("../../../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d, err := apitest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const (
	goodKey  = `{"ssh_key":"ssh-ed25519 AAAA"}`
	tag      = `W/"0123456789abcdef0123456789abcdef"`
	notThere = `{"errors":[{"reason":"Not found"}]}`
)

// TestCheck: each answer that the document doesn't promise is refused, by the
// name of its operation and the place of the fault.
func TestCheck(t *testing.T) {
	t.Parallel()
	d := committed(t)
	const key, issue, credential = "/v4/managed/credentials/sshkey", "/v4/managed/issues/1", "/v4/managed/credentials/1"
	tests := []struct {
		name, method, path string
		status             int
		body, headers      string
		want               []string // nothing: the answer is as it should be
	}{
		{name: "as documented", method: "GET", path: key, status: 200, body: goodKey},
		{name: "not modified", method: "GET", path: key, status: 304},
		{name: "not modified, with a body", method: "GET", path: key, status: 304, body: goodKey, want: []string{"body"}},
		{name: "not modified, of what has no tag", method: "GET", path: "/v4/profile/tokens", status: 304, want: []string{"listTokens", "304"}},
		{name: "a tag of another kind", method: "GET", path: key, status: 200, body: goodKey, headers: `ETag: "x"`, want: []string{"ETag"}},
		{name: "another spelling of the path", method: "GET", path: "/v4beta/managed/credentials/sshkey/", status: 200, body: goodKey},
		{name: "another method of a known path", method: "DELETE", path: key, status: 405, body: `{"errors":[{"reason":"x"}]}`, headers: "Allow: GET, HEAD, OPTIONS"},
		{name: "an unknown path", method: "GET", path: "/v4/nothing", status: 404, body: notThere},
		{name: "no part of the API", method: "GET", path: "/healthz", status: 418, body: "x"},
		{name: "an unknown member", method: "GET", path: key, status: 200, body: `{"ssh_key":"x","secret":1}`, want: []string{"viewSSHKey", "secret"}},
		{name: "a missing member", method: "GET", path: key, status: 200, body: `{}`, want: []string{"viewSSHKey", "ssh_key"}},
		{name: "a member of another type", method: "GET", path: key, status: 200, body: `{"ssh_key":null}`, want: []string{"viewSSHKey", "'/ssh_key'"}},
		{
			name: "a wrong value deep inside", method: "GET", path: issue, status: 200,
			body: `{"id":1,"created":"2026-01-31T18:04:05","services":[1],"closed":"2026-01-31T18:04:05Z","entity":{"id":1,"label":"x","type":"ticket","url":"/"}}`,
			want: []string{"viewIssue", "'/closed'"},
		},
		{name: "an undocumented status", method: "GET", path: key, status: 418, body: notThere, want: []string{"viewSSHKey", "418"}},
		{name: "not found where nothing can be missing", method: "GET", path: key, status: 404, body: notThere, want: []string{"viewSSHKey"}},
		{name: "an empty envelope", method: "GET", path: credential, status: 404, body: `{"errors":[]}`, want: []string{"viewCredential", "'/errors'"}},
		{name: "an undocumented header", method: "GET", path: key, status: 200, body: goodKey, headers: "X-Powered-By: steward", want: []string{"X-Powered-By"}},
		{name: "a header's value", method: "GET", path: key, status: 200, body: goodKey, headers: "X-Ratelimit-Remaining: few", want: []string{"X-RateLimit-Remaining"}},
		{name: "a limit that names no time", method: "GET", path: key, status: 429, body: notThere, want: []string{"Retry-After"}},
		{name: "another content type", method: "GET", path: key, status: 200, body: goodKey, headers: "Content-Type: text/plain", want: []string{"text/plain"}},
		{name: "no JSON", method: "GET", path: key, status: 200, body: `{`, want: []string{"JSON"}},
		{name: "a body where there is none", method: "OPTIONS", path: key, status: 204, body: `{}`, want: []string{"body"}},
		{name: "an unknown path that is allowed", method: "GET", path: "/v4/nothing", status: 405, body: notThere, headers: "Allow: GET", want: []string{"404"}},
		{name: "a known path that isn't found", method: "PATCH", path: key, status: 404, body: notThere, want: []string{"405"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := apitest.Answer{Method: test.method, Path: test.path, Status: test.status, Header: http.Header{}, Body: []byte(test.body)}
			a.Header.Set("Content-Type", "application/json")
			a.Header.Set("X-Request-Id", "0123456789abcdef")
			if test.method == "GET" && (test.status == 200 || test.status == 304) {
				a.Header.Set("ETag", tag)
			}
			if name, value, ok := strings.Cut(test.headers, ": "); ok {
				a.Header.Set(name, value)
			}
			err := d.Check(a)
			switch {
			case len(test.want) == 0 && err != nil:
				t.Errorf("refused: %v", err)
			case len(test.want) > 0 && err == nil:
				t.Error("not refused")
			}
			for _, want := range test.want {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("doesn't say %q: %v", want, err)
				}
			}
		})
	}
}

// failures counts what a test would have failed by.
type failures struct {
	testing.TB
	said []any
}

func (f *failures) Error(args ...any) { f.said = append(f.said, args...) }

// TestHandlerFails: a handler that answers what isn't documented fails the test
// that serves it, packed or not.
func TestHandlerFails(t *testing.T) {
	t.Parallel()
	for _, body := range []string{goodKey, `{"ssh_key":"x","secret":1}`} {
		f := &failures{TB: t}
		h := apitest.Handler(f, committed(t), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Request-Id", "0123456789abcdef")
			w.Header().Set("ETag", tag)
			_, _ = w.Write([]byte(body))
		}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/v4/managed/credentials/sshkey", http.NoBody))
		if w.Body.String() != body || (len(f.said) == 0) != (body == goodKey) {
			t.Errorf("%s: %s, %v", body, w.Body, f.said)
		}
	}
}
