package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestShapeCommands: what the guard rails, switchovers, growth and what is set aside take by the command line is what the API is asked, and what
// destroys asks for the name first.
func TestShapeCommands(t *testing.T) {
	t.Parallel()
	var asked []string
	const one = "/v4/databases/postgresql/instances/7"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); r.Method != http.MethodGet {
			asked = append(asked, strings.TrimSpace(r.Method+" "+strings.TrimPrefix(r.URL.RequestURI(), one)+" "+string(body)))
		}
		const shop = `{"id":7,"label":"shop","engine":"postgresql","status":"active","type":"g6-nanode-1"}`
		switch r.URL.Path {
		case "/v4/databases/postgresql/instances":
			_, _ = io.WriteString(w, `{"data":[`+shop+`],"pages":1,"results":1}`)
		case one:
			_, _ = io.WriteString(w, shop)
		case one + "/backups":
			_, _ = io.WriteString(w, `{"data":[{"id":3,"label":"good","type":"snapshot","state":"complete"}],"pages":1,"results":1}`)
		case one + "/backups/3":
			_, _ = io.WriteString(w, `{"id":3,"label":"good","type":"snapshot","state":"complete"}`)
		default:
			_, _ = io.WriteString(w, `{"data":[],"pages":1}`)
		}
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		command, typed string
		code           int
		asked          string
	}{
		{"db restart shop --wait 0", "", 0, "POST /restart"},
		{"db switchover shop --wait 0", "", 0, "POST /switchover"},
		{"db update shop --protect --wait 0", "", 0, `PUT  {"deletion_protection":true}`},
		{"db update shop --no-protect --wait 0", "", 0, `PUT  {"deletion_protection":false}`},
		{"db update shop --autoscale --autoscale-at 70 --autoscale-max g6-standard-1 --wait 0", "", 0, `PUT  {"autoscale":{"enabled":true,"threshold_percent":70,"max_type":"g6-standard-1"}}`},
		{"db update shop --no-autoscale --wait 0", "", 0, `PUT  {"autoscale":{"enabled":false}}`},
		{"backup undo shop --wait 0", "other\n", 1, ""},
		{"backup undo shop --wait 0", "shop\n", 0, "POST /restore/undo"},
		{"backup restore shop good --wait 0", "other\n", 1, ""},
		{"backup restore shop good --wait 0", "shop\n", 0, "POST /backups/3/restore"},
		{"db delete shop", "other\n", 1, ""},
		{"db delete shop", "shop\n", 0, "DELETE"},
		{"db delete shop --final-backup --yes", "", 0, "DELETE ?final_backup=true"},
		{"db database delete shop orders", "other\n", 1, ""},
		{"db database delete shop orders", "orders\n", 0, "DELETE /databases/orders"},
		{"db pool create shop --database defaultdb", "", 2, ""},
		{"db nothing shop", "", 2, ""},
	} {
		asked = nil
		var both bytes.Buffer
		code := Run(append(strings.Fields(c.command), "--url", server.URL, "--token", "x"), strings.NewReader(c.typed), &both, &both)
		want := []string{c.asked}
		if c.asked == "" {
			want = nil
		}
		if code != c.code || fmt.Sprint(asked) != fmt.Sprint(want) {
			t.Errorf("%s with %q: %d, asked %q; want %d, %q\n%s", c.command, c.typed, code, asked, c.code, want, both.String())
		}
	}
}
