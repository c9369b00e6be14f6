package e2e

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"steward/test/harness"
)

// metricsAreApart from the API: whoever reaches it doesn't read the names of all
// databases, with a token or without.
func metricsAreApart(t *testing.T, s *harness.Server) {
	for _, token := range []string{s.Token, ""} {
		s.Token = token
		if status, body := s.Call("GET", "/metrics", nil, nil); status != http.StatusNotFound {
			t.Errorf("/metrics of the API: %d %.200s", status, body)
		}
	}
	s.AwaitReady() // reads the token again
	log, err := os.ReadFile(s.LogPath)
	if err != nil {
		t.Fatal(err)
	}
	starts := regexp.MustCompile(`metrics +(http://\S+)`).FindAllSubmatch(log, -1)
	if len(starts) == 0 {
		t.Fatalf("no address of metrics is told:\n%s", log)
	}
	address := string(starts[len(starts)-1][1])
	resp, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "steward_http_request_seconds") {
		t.Errorf("%s: %d %.200s", address, resp.StatusCode, text)
	}
}
