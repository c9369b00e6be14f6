package api_test

import (
	"slices"
	"strings"
	"testing"
)

// TestErrorsComeInOneOrder: the same request is answered the same each time,
// its faults in the order of their members' names.
func TestErrorsComeInOneOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const body = `{"label":"x","engine":"mysql/1","region":"mars","type":"huge","cluster_size":2,"encrypted":1,"allow_list":["1.2.3","::g","1.2.3.4/0"],` +
		`"replication_type":"foo","ssl_connection":"yes","fork":{"source":0,"restore_time":"now"}}`
	first := b.send("POST", "/v4/databases/mysql/instances", b.full, body)
	faults := first.faults()
	if len(faults) < 10 {
		t.Fatalf("only %q", faults)
	}
	fields := make([]string, len(faults))
	for i, f := range faults {
		fields[i], _, _ = strings.Cut(f, ": ")
	}
	if !slices.IsSorted(fields) {
		t.Errorf("not in the order of their names: %q", fields)
	}
	for range 20 {
		if again := b.send("POST", "/v4/databases/mysql/instances", b.full, body); again.body != first.body {
			t.Fatalf("once\n%s\nand once\n%s", first.body, again.body)
		}
	}
}

// TestBlankTextsAreRefused: a name that shows nothing names nothing; a password
// may be of blanks.
func TestBlankTextsAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for path, body := range map[string]string{
		"/v4/managed/contacts":      `{"name":"  ","email":"c@example.org"}`,
		"/v4/managed/credentials":   `{"label":" \u00a0","password":"x"}`,
		"/v4/account/oauth-clients": `{"label":"\u200b\u200b","redirect_uri":"https://example.org/"}`,
		"/v4/profile/tokens":        `{"label":"\t","scopes":"*"}`,
	} {
		if r := b.send("POST", path, b.full, body); r.StatusCode != 400 || len(r.faults()) != 1 || !strings.HasSuffix(r.faults()[0], ": Must not be blank") {
			t.Errorf("%s %s: %d %s", path, body, r.StatusCode, r.body)
		}
	}
	if r := b.send("POST", "/v4/managed/credentials", b.full, `{"label":"Blank","password":"   "}`); r.StatusCode != 200 {
		t.Errorf("a password of blanks: %d %s", r.StatusCode, r.body)
	}
}
