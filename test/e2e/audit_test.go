package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"steward/test/harness"
)

// audit: what was done just before an ordinary stop is in the trail, with
// who and from where, and no secret is. Nothing was done before.
func audit(t *testing.T, s *harness.Server) {
	var made struct{ Token string }
	if status, body := s.Call("POST", "/v4/profile/tokens", map[string]string{"label": "ci", "scopes": "databases:read_only"}, &made); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	own := s.Token
	s.Token = made.Token
	if status, _ := s.Call("DELETE", "/v4/profile/tokens/1", nil, nil); status != http.StatusUnauthorized {
		t.Fatalf("with too small a scope: %d", status)
	}
	s.Stop()
	defer s.Start()
	s.Token = own
	text, err := s.Command("audit", "--data", s.Data, "--user", "admin", "--json")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	type line struct {
		Username, Address, Action, Path string
		Status                          int
		TokenID                         int64 `json:"token_id"`
	}
	var lines []line
	for decoder := json.NewDecoder(strings.NewReader(text)); decoder.More(); {
		var l line
		if err := decoder.Decode(&l); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		lines = append(lines, l)
	}
	want := []line{
		{"admin", "127.0.0.1", "POST /v4/profile/tokens", "/v4/profile/tokens", 200, 1},
		{"admin", "127.0.0.1", "DELETE /v4/profile/tokens/{tokenId}", "/v4/profile/tokens/1", 401, 2},
	}
	if len(lines) != len(want) || lines[0] != want[0] || lines[1] != want[1] {
		t.Errorf("%+v, want %+v", lines, want)
	}
	for _, secret := range []string{own, made.Token} {
		if strings.Contains(text, secret) || strings.Contains(text, secret[:16]) {
			t.Error("the trail holds a token")
		}
	}
	if table, err := s.Command("audit", "--data", s.Data); err != nil || !strings.Contains(table, "DELETE /v4/profile/tokens/1") {
		t.Errorf("%v\n%s", err, table)
	}
	if out, err := s.Command("audit", "--data", s.Data, "--since", "yesterday"); err == nil || !strings.Contains(out, "--since") {
		t.Errorf("%v\n%s", err, out)
	}
}
