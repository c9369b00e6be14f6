package mysql

import (
	"strings"
	"testing"
)

// The digests are what `openssl passwd -5` says.
func TestSHA256Crypt(t *testing.T) {
	for _, c := range []struct{ password, salt, want string }{
		{"Hello world!", "saltstring", "5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"},
		{"Hello world!", "saltstringsaltst", "a5C8Ofk71MUIoKve2QuP9FMl.dwNgseF5tR1LGAL7iB"},
		{"a", "short", "26OgkZnNPH/fhIJiNDSUG8GpRVc3tG42gPClFWxDDA2"},
		{
			"we have a long password, longer than sixty-four bytes, to be sure of it all", "saltstring",
			"L/.EB8rhFc9YGD/X2SX/TmYto..GcKvbao85a/oubF.",
		},
	} {
		if got := string(sha256Crypt([]byte(c.password), []byte(c.salt), cachingRounds)); got != c.want {
			t.Errorf("%q with %q: %s, want %s", c.password, c.salt, got, c.want)
		}
	}
}

func TestNativeVerifier(t *testing.T) {
	got, err := (mariaDB{}).verifier("password")
	if want := "'*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19'"; err != nil || !strings.HasSuffix(got, want) {
		t.Errorf("%s, %v, want …%s", got, err, want)
	}
}
