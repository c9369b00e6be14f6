package console

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"steward/test/harness"
)

// addresses looks through all that the browser asked for in all parts before: nothing that opens anything was in an address, but for what a log-in needs,
// which works once; nobody else was asked; and nothing is kept where scripts can keep it.
func addresses(t *testing.T, w *world) {
	secrets := map[string]string{
		"the cookie": w.cookie(t), "a token": w.server.Token, "the user's password": password,
		"the database's password": w.server.Credentials(harness.Database{ID: 1, Engine: "postgresql"}).Password,
	}
	w.mu.Lock() // not for longer: the browser tells of nothing more, nor answers, while one of its events waits
	urls := slices.Clone(w.urls)
	w.mu.Unlock()
	if len(urls) < 500 {
		t.Errorf("%d addresses", len(urls))
	}
	for _, text := range urls {
		at, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := url.QueryUnescape(text)
		if err != nil {
			decoded = text
		}
		for what, secret := range secrets {
			if strings.Contains(text, secret) || strings.Contains(decoded, secret) || secret == "" {
				t.Errorf("%s is in %s", what, text)
			}
		}
		if longHex.MatchString(text) && at.Path != "/oauth/authorize" && at.Path != "/console/callback" {
			t.Errorf("something like a secret is in %s", text)
		}
		if own := strings.HasPrefix(text, w.origin+"/"); !own && at.Scheme != "data" && at.Scheme != "blob" {
			t.Errorf("another was asked: %s", text)
		}
	}
	if kept := value[int](t, w.browser, `Promise.all([indexedDB.databases(), navigator.serviceWorker.getRegistrations()]).then(all => all.flat().length)`); kept != 0 {
		t.Errorf("%d databases and service workers are in the browser", kept)
	}
}
