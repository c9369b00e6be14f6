package api_test

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSSHKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var first, again struct {
		Key string `json:"ssh_key"`
	}
	r := b.send("GET", "/v4/managed/credentials/sshkey", b.readOnly, "")
	if err := json.Unmarshal([]byte(r.body), &first); err != nil || r.StatusCode != 200 || !strings.HasPrefix(first.Key, "ssh-ed25519 AAAA") {
		t.Fatalf("%d %s %v", r.StatusCode, r.body, err)
	}
	if err := json.Unmarshal([]byte(b.send("GET", "/v4beta/managed/credentials/sshkey/", b.full, "").body), &again); err != nil || again != first {
		t.Errorf("%q, and then %q, %v", first.Key, again.Key, err)
	}
	if r := b.send("GET", "/v4/managed/credentials/sshkey", b.restricted, ""); r.StatusCode != 403 {
		t.Errorf("a restricted user: %d %s", r.StatusCode, r.body)
	}
}
