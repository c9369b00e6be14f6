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
	all := metricsOf(t, s)
	address := all[len(all)-1]
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

// metricsOf are the addresses of a server's own metrics, one for each of its starts.
func metricsOf(t *testing.T, s *harness.Server) (addresses []string) {
	t.Helper()
	log, err := os.ReadFile(s.LogPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, told := range regexp.MustCompile(`metrics +(http://\S+)`).FindAllSubmatch(log, -1) {
		addresses = append(addresses, string(told[1]))
	}
	if len(addresses) == 0 {
		t.Fatalf("no address of metrics is told:\n%s", log)
	}
	return addresses
}
