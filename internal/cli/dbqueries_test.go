package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"steward/client"
)

// looked is a server with one database, that answers each path with a text.
func looked(t *testing.T, answers map[string]string) (url string, asked *[]string) {
	t.Helper()
	asked = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/v4/databases/postgresql/instances/7")
		*asked = append(*asked, r.Method+" "+path+"?"+r.URL.RawQuery)
		switch body, found := answers[path]; {
		case found:
			_, _ = io.WriteString(w, body)
		case r.URL.Path == "/v4/databases/postgresql/instances":
			_, _ = io.WriteString(w, `{"data":[{"id":7,"label":"shop","engine":"postgresql","status":"active","database_name":"defaultdb"}],"pages":1}`)
		case r.URL.Path == "/v4/databases/postgresql/instances/7":
			_, _ = io.WriteString(w, `{"id":7,"label":"shop","engine":"postgresql","status":"active"}`)
		default:
			_, _ = io.WriteString(w, `{"data":[],"pages":1}`)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// run runs a command against the server.
func run(t *testing.T, url string, args ...string) (out string, code int) {
	t.Helper()
	var both bytes.Buffer
	code = Run(append(args, "--url", url, "--token", "x"), strings.NewReader(""), &both, &both)
	return both.String(), code
}

const (
	someNodes   = `{"sleeping":false,"data":[{"node":0,"role":"primary","health":"healthy","since":"2026-01-31T18:04:05","version":"15.18"},{"node":1,"role":"replica","health":"healthy","lag_seconds":0.5,"lag_bytes":17}]}`
	someRunning = `{"idle":3,"data":[{"id":"0-12-x","pid":12,"node":0,"user":"app","database":"defaultdb","state":"active","age":61.2,"query":"select ?","blocked_by":[13]}]}`
	someCounted = `{"data":[{"query_id":"5","query":"select ?","user":"app","calls":3,"rows":4,"total_time":1.5,"mean_time":0.5,"share":0.25}],"pages":1,"results":1}`
)

func TestTop(t *testing.T) {
	t.Parallel()
	url, _ := looked(t, map[string]string{"/nodes": someNodes, "/queries/running": someRunning, "/queries/statistics": someCounted})
	out, code := run(t, url, "db", "top", "shop", "--once")
	for _, want := range []string{"shop  active", "primary", "0.5    17", "1m1s", "select ?", "25.0%", "500.000ms", "3 more sessions do nothing."} {
		if !strings.Contains(out, want) {
			t.Errorf("%q isn't in:\n%s", want, out)
		}
	}
	if code != 0 || strings.Contains(out, "\x1b") {
		t.Errorf("%d %q", code, out)
	}
	out, code = run(t, url, "db", "top", "shop", "--once", "--json")
	var found top
	if err := json.Unmarshal([]byte(out), &found); err != nil || code != 0 || found.Label != "shop" || len(found.Nodes.Data) != 2 || found.Running.Idle != 3 || found.Statements.Data[0].Calls != 3 {
		t.Errorf("%d %v %+v", code, err, found)
	}
}

func TestQueriesAreEnded(t *testing.T) {
	t.Parallel()
	url, asked := looked(t, map[string]string{"/queries/running": someRunning, "/queries/running/0-12-x": "{}"})
	if out, code := run(t, url, "db", "queries", "end", "shop", "12"); code != 0 || out != "app is ended: select ?\n" {
		t.Errorf("%d %s", code, out)
	}
	if last := (*asked)[len(*asked)-1]; last != "DELETE /queries/running/0-12-x?mode=end" {
		t.Errorf("asked %s", last)
	}
	if out, code := run(t, url, "db", "queries", "cancel", "shop", "13"); code == 0 || !strings.Contains(out, "no session 13 of shop") {
		t.Errorf("%d %s", code, out)
	}
}

// TestRunningAreShown: without saying which queries, it is those that run.
func TestRunningAreShown(t *testing.T) {
	t.Parallel()
	url, asked := looked(t, map[string]string{"/queries/running": strings.Replace(someRunning, `"idle":3`, `"idle":1`, 1)})
	out, code := run(t, url, "db", "queries", "shop")
	if last := (*asked)[len(*asked)-1]; code != 0 || last != "GET /queries/running?" || !strings.Contains(out, "1 more session does nothing.") || !strings.Contains(out, "1m1s") {
		t.Errorf("%d, asked %s\n%s", code, last, out)
	}
	idle, _ := looked(t, map[string]string{"/queries/running": `{"idle":0,"data":[]}`})
	if out, code := run(t, idle, "db", "queries", "shop"); code != 0 || out != "No session does anything.\n" {
		t.Errorf("%d %s", code, out)
	}
	if out, code := run(t, url, "db", "queries", "slow", "shop"); code != 0 || !strings.HasPrefix((*asked)[len(*asked)-1], "GET /queries/slow?") {
		t.Errorf("%d %s", code, out)
	}
}

// TestFollowBegins behind the line that was printed last, among others of its second.
func TestFollowBegins(t *testing.T) {
	t.Parallel()
	line := func(text string) client.LogLine { return client.LogLine{Time: "2026-01-31T18:04:05", Message: text} }
	lines := []client.LogLine{line("not among the newest"), line("same"), line("same"), line("new")}
	if found := after(line("same"), lines); len(found) != 1 || found[0].Message != "new" {
		t.Errorf("%v", found)
	}
	if found := after(line("gone"), lines); len(found) != 4 {
		t.Errorf("%v", found)
	}
	if found := after(line("new"), lines); len(found) != 0 {
		t.Errorf("%v", found)
	}
}

func TestLogsAreShown(t *testing.T) {
	t.Parallel()
	url, asked := looked(t, map[string]string{"/logs": `{"data":[{"time":"2026-01-31T18:04:06","node":1,"severity":"error","message":"second"},{"time":"2026-01-31T18:04:05","node":0,"severity":"info","message":"first"}],"next_page_token":null}`})
	out, code := run(t, url, "db", "logs", "shop", "--severity", "info", "--text", "s")
	if code != 0 || out != "2026-01-31T18:04:05  0  INFO     first\n2026-01-31T18:04:06  1  ERROR    second\n" {
		t.Errorf("%d %s", code, out)
	}
	if last := (*asked)[len(*asked)-1]; last != "GET /logs?page_size=100&severity=info&text=s" {
		t.Errorf("asked %s", last)
	}
}

// TestNothingObeyedByTerminals: whatever a database's users call their things, write and have logged, a terminal shows it and does nothing else.
func TestNothingObeyedByTerminals(t *testing.T) {
	t.Parallel()
	const obeyed = "\x1b]0;owned\a\x1b[2J\u009b31m\u0080\u009f\u007f\u202e\U000e0001evil\r\x08\n"
	hostile, err := json.Marshal(obeyed + strings.Repeat("long", 100))
	if err != nil {
		t.Fatal(err)
	}
	planted := func(text string, members ...string) string {
		for _, name := range members {
			old := regexp.MustCompile(`"` + name + `":"[^"]*"`)
			if !old.MatchString(text) {
				t.Errorf("%s has no %s", text, name)
			}
			text = old.ReplaceAllLiteralString(text, `"`+name+`":`+string(hostile))
		}
		return text
	}
	url, _ := looked(t, map[string]string{
		"/nodes":                  planted(`{"data":[{"node":0,"role":"primary","health":"healthy","version":"15"}]}`, "version"),
		"/nodes/history":          planted(`{"data":[{"time":"2026-01-31T18:04:05","kind":"failover","message":"x"}],"pages":1}`, "message"),
		"/queries/running":        planted(`{"data":[{"id":"0-12-x","pid":12,"user":"app","database":"d","state":"active","wait":"w","query":"q"}]}`, "user", "database", "wait", "query"),
		"/queries/running/0-12-x": "{}",
		"/queries/statistics":     planted(`{"data":[{"query_id":"5","query":"q","user":"app","database":"d"}],"pages":1,"results":1}`, "query", "user", "database"),
		"/queries/slow":           planted(`{"data":[{"time":"2026-01-31T18:04:05","query":"q","user":"app","database":"d"}],"pages":1}`, "query", "user", "database"),
		"/logs":                   planted(`{"data":[{"time":"2026-01-31T18:04:05","node":0,"severity":"info","message":"m"}]}`, "message"),
		"/metrics":                planted(`{"from":"2026-01-31T18:04:05","to":"2026-01-31T19:04:05","step":60,"metrics":[{"name":"cpu","label":"l","unit":"u","values":[1,2]}]}`, "label", "unit"),
	})
	for _, command := range []string{"top shop --once", "nodes shop", "nodes shop --history", "queries running shop", "queries end shop 12", "queries statistics shop", "queries slow shop", "logs shop", "metrics shop"} {
		for _, flag := range []string{"", " --json"} {
			if flag != "" && strings.HasPrefix(command, "queries end") {
				continue
			}
			out, code := run(t, url, append([]string{"db"}, strings.Fields(command+flag)...)...)
			if code != 0 || strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
				t.Errorf("db %s%s: %d, %q", command, flag, code, out)
			}
			var read any
			if flag != "" && (json.Unmarshal([]byte(out), &read) != nil || command != "nodes shop" && !strings.Contains(fmt.Sprint(read), obeyed)) {
				t.Errorf("db %s%s isn't the JSON that it was: %q", command, flag, out)
			}
			if !strings.Contains(out, "evil") && command != "nodes shop" {
				t.Errorf("db %s%s doesn't show it: %q", command, flag, out)
			}
		}
	}
}
