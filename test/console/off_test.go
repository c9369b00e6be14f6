package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/test/harness"
)

// printedLink is what a start with --demo prints for the first user, and its secret.
var printedLink = regexp.MustCompile(`Set the first user's password, once, within a day: (http://\S+/console/first)#(\S+)`)

// TestFirstLinkAndNoConsole: the link that `make run` prints sets a password once and only once, and isn't printed where what is printed may be kept, or
// once there is a password. Without a console, or the role of one, there is none of it, and the API answers as ever.
func TestFirstLinkAndNoConsole(t *testing.T) {
	t.Parallel()
	s := harness.Prepare(t)
	origin := "http://" + s.Listen()
	said := func() string { // since the last time
		text, err := os.ReadFile(s.LogPath)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(s.LogPath, 0); err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	ask := func(method, path, body string) (status int, answer string) {
		status, answer, _ = request(t, method, origin+path, body, func(r *http.Request) { r.Header.Set("Content-Type", "application/json") })
		return status, answer
	}
	set := func(link, password string) (status int, answer string) {
		body, err := json.Marshal(map[string]string{"link": link, "password": password})
		if err != nil {
			t.Fatal(err)
		}
		return ask("POST", "/console/first", string(body))
	}

	s.Start()
	s.Eventually("how to get a link to be printed", func() error { // a little after it is ready
		text, err := os.ReadFile(s.LogPath)
		if err == nil && !strings.Contains(string(text), "steward user link admin") {
			return errNotYet
		}
		return err
	})
	if text := said(); printedLink.MatchString(text) {
		t.Errorf("a service prints its link:\n%s", text)
	}
	s.Kill()
	s.Start("--demo")
	var links []string
	s.Eventually("the link to be printed", func() error {
		text, err := os.ReadFile(s.LogPath)
		if links = printedLink.FindStringSubmatch(string(text)); err == nil && links == nil {
			return errNotYet
		}
		return err
	})
	said()
	if links[1] != origin+"/console/first" {
		t.Errorf("the link leads to %s", links[1])
	}
	if status, answer := set(links[2]+"0", password); status == http.StatusOK {
		t.Errorf("another link than the printed one sets a password: %s", answer)
	}
	if status, answer := set(links[2], "short"); status != http.StatusBadRequest {
		t.Errorf("a short password: %d %s", status, answer)
	}
	if status, answer := set(links[2], password); status != http.StatusOK {
		t.Errorf("the link: %d %s", status, answer)
	}
	if status, answer := set(links[2], password+"2"); status == http.StatusOK || !strings.Contains(answer, "used already") {
		t.Errorf("the link a second time: %d %s", status, answer)
	}
	s.Stop()
	said()
	s.Start("--demo")
	if text := said(); printedLink.MatchString(text) || strings.Contains(text, "user link") || !strings.Contains(text, origin+"/console/") {
		t.Errorf("a link is printed though there is a password, or the console isn't:\n%s", text)
	}
	for path, want := range map[string]int{"/": http.StatusSeeOther, "/console": http.StatusSeeOther, "/console/": http.StatusOK, "/console/v4/profile": http.StatusUnauthorized} {
		if status, answer := ask("GET", path, ""); status != want {
			t.Errorf("%s: %d, want %d: %.200s", path, status, want, answer)
		}
	}
	_, page := ask("GET", "/console/", "")
	asset := regexp.MustCompile(`/console/assets/main-[^"]+\.js`).FindString(page)
	if asset == "" {
		t.Fatalf("the page has no script: %s", page)
	}
	s.Stop()
	roles(t, s)

	config, err := os.OpenFile(s.ConfigPath(), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.WriteString("console: {enabled: false}\n"); err != nil {
		t.Fatal(err)
	}
	if err := config.Close(); err != nil {
		t.Fatal(err)
	}
	said()
	s.Start("--demo")
	if text := said(); strings.Contains(text, "/console") || strings.Contains(text, "user link") {
		t.Errorf("without a console it is told of:\n%s", text)
	}
	for _, path := range []string{"/", "/console", "/console/", "/console/databases", "/console/first", "/console/login", "/console/callback", asset, "/console/v4/profile"} {
		if status, answer := ask("GET", path, ""); status != http.StatusNotFound || strings.Contains(answer, "<script") {
			t.Errorf("without a console %s: %d %.200s", path, status, answer)
		}
	}
	for _, path := range []string{"/console/first", "/console/logout", "/console/confirm", "/console/v4/managed/contacts"} {
		if status, answer := ask("POST", path, "{}"); status != http.StatusNotFound {
			t.Errorf("without a console POST %s: %d %.200s", path, status, answer)
		}
	}
	s.Eventually("the API to answer without a console", func() error { // the demo is made once steward is ready
		if status, body := s.Call("GET", "/v4/databases/instances", nil, nil); status != http.StatusOK || !strings.Contains(body, `"demo"`) {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	if status, answer := ask("GET", "/oauth/authorize?response_type=code&client_id="+string(account.ConsoleClient)+"&scope=*&redirect_uri="+origin+"/console/callback&code_challenge_method=S256&state=0123456789&code_challenge="+strings.Repeat("a", 43), ""); status < 400 || status >= 500 {
		t.Errorf("somebody can log in to the console that isn't there: %d %.300s", status, answer)
	}
}
