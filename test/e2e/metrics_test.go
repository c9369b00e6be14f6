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

// TestMetricsAreApartFromTheAPI: whoever reaches the API doesn't read the names of all
// databases, with a token or without.
func TestMetricsAreApartFromTheAPI(t *testing.T) {
	t.Parallel()
	s := harness.New(t, harness.WithConfig("pool: {size: 0}"))
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
	found := regexp.MustCompile(`metrics +(http://\S+)`).FindSubmatch(log)
	if found == nil {
		t.Fatalf("no address of metrics is told:\n%s", log)
	}
	address := string(found[1])
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
