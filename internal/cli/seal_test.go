package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSealRotate by the command line, beside a server that runs all the while.
func TestSealRotate(t *testing.T) {
	c := newTerminal(t)
	keyFile := filepath.Join(c.data, "seal.key")
	content := func() string {
		t.Helper()
		text, err := os.ReadFile(keyFile)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	keys := func(want int) {
		t.Helper()
		if got := strings.Count(content(), "\n"); got != want {
			t.Errorf("the key file has %d keys, want %d", got, want)
		}
	}
	reads := func(id, password string) {
		t.Helper()
		c.shows(c.operate(0, "credential", "reveal", id, "--purpose", "a test"), "password  "+password+"\n")
	}
	c.run(0, "before", "credential", "create", "before")
	old := content()
	c.shows(c.operate(0, "seal", "rotate", "--retire"), "nothing to retire")
	c.shows(c.operate(0, "seal", "rotate"), "is new, and seals from now on", "1 values were sealed anew; all 1 were looked at", "Next: `steward seal rotate --retire`")
	keys(2)
	c.run(0, "during", "credential", "create", "during")
	reads("1", "before")
	c.shows(c.operate(0, "seal", "rotate"), "0 values were sealed anew", "only opens")
	c.shows(c.operate(1, "seal", "rotate", "--introduce"), "another rotation isn't finished")
	c.shows(c.operate(0, "seal", "rotate", "--retire", "--grace", "0s"), "Nothing depends on key")
	keys(1)
	if strings.Contains(content(), strings.TrimSpace(old)) {
		t.Error("the old key is in the key file still")
	}
	c.run(0, "after", "credential", "create", "after")
	for id, password := range map[string]string{"1": "before", "2": "during", "3": "after"} {
		reads(id, password)
	}

	c.shows(c.operate(0, "seal", "rotate", "--introduce"), "seals nothing yet")
	c.shows(c.operate(0, "seal", "rotate", "--introduce"), "was introduced before")
	keys(2)
	c.shows(c.operate(1, "seal", "rotate", "--retire"), "isn't in use yet")
	introduced := strings.TrimSuffix(strings.Split(content(), "\n")[1], " next")
	c.shows(c.operate(0, "seal", "rotate"), "1 values were sealed anew")
	if !strings.HasPrefix(content(), introduced+"\n") {
		t.Error("another key than the introduced one seals")
	}
	c.operate(2, "seal", "rotate", "--introduce", "--retire")
	current := content()
	if err := os.WriteFile(keyFile, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	c.shows(c.operate(1, "credential", "reveal", "1", "--purpose", "a test"), "was sealed with another key")
	c.shows(c.operate(0, "seal", "rotate"), "opens with no key that is known here")
	if err := os.WriteFile(keyFile, []byte(current), 0o600); err != nil {
		t.Fatal(err)
	}
	reads("1", "before")
}

// TestSealRotateNeedsAKeyThatCanBe: one in a URL can't.
func TestSealRotateNeedsAKeyThatCanBe(t *testing.T) {
	c := newTerminal(t)
	t.Setenv("STEWARD_SEAL__URL", "base64key://smGbjm71Nxd1Ig5FS0wj9SlbzAIrnolCz9bQQ6uAhl4=")
	c.shows(c.operate(1, "seal", "rotate"), "doesn't tell its keys apart")
	c.shows(c.operate(1, "seal", "rotate", "--introduce"), "makes new keys itself")
}
