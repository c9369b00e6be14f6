package cli

import (
	"strings"
	"testing"
	"unicode"
)

// TestTerminals: what a source, a customer's server or its users name things is shown, and does nothing to the terminal.
func TestTerminals(t *testing.T) {
	t.Parallel()
	const evil = `\u001b]0;owned\u0007\u001b[2J\u009b31m\u202eafter\nnext`
	migration := `{"id":3,"status":"failed","phase":"copying","mode":"dump","source":{"host":"db.example.org"},"databases":[{"name":"` + evil + `","as":"` + evil + `"}],
		"tables":[{"database":"` + evil + `","name":"` + evil + `"}],"problems":[{"database":"` + evil + `","message":"` + evil + `","blocking":true}],"problem":"` + evil + `"}`
	list := func(one string) string { return `{"data":[` + one + `],"pages":1,"results":1}` }
	url, _ := looked(t, map[string]string{
		"/migrations/3":       migration,
		"/migrations":         list(migration),
		"/migrations/check":   `{"version":"` + evil + `","problems":[{"database":"` + evil + `","message":"` + evil + `","blocking":true}]}`,
		"/databases":          list(`{"name":"` + evil + `","owner":"` + evil + `"}`),
		"/users":              list(`{"username":"` + evil + `","grants":[{"database":"` + evil + `","privilege":"read"}]}`),
		"/connection-pools":   list(`{"label":"` + evil + `","database":"` + evil + `"}`),
		"/extensions":         list(`{"name":"` + evil + `","offered":true,"comment":"` + evil + `"}`),
		"/queries/running":    `{"data":[{"id":"0-12-x","pid":12,"user":"` + evil + `","query":"` + evil + `","state":"active"}]}`,
		"/queries/statistics": list(`{"query_id":"5","query":"` + evil + `","user":"` + evil + `"}`),
		"/logs":               `{"data":[{"time":"2026-01-31T18:04:05","severity":"error","message":"` + evil + `"}]}`,
	})
	for _, command := range []string{
		"db migration view shop 3", "db migration list shop", "db database list shop", "db user list shop", "db pool list shop", "db extension list shop",
		"db queries running shop", "db queries statistics shop", "db logs shop", "db migration check shop --host x --username u --database d --password-file /dev/null",
	} {
		out, _ := run(t, url, strings.Fields(command)...)
		if !strings.Contains(out, "after") {
			t.Errorf("%s shows nothing: %q", command, out)
		}
		if strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%s prints %q", command, out)
		}
		if n := strings.Count(out, "\nnext"); n > strings.Count(out, "31m?after\n") {
			t.Errorf("%s begins lines of its own: %q", command, out)
		}
	}
}
