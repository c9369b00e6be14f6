package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/client"
	"steward/internal/notify/notifytest"
	"steward/test/harness"
)

// site is a web server that can be broken and mended.
type site struct {
	*httptest.Server
	broken atomic.Bool
}

func newSite(t *testing.T) *site {
	w := &site{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(r http.ResponseWriter, _ *http.Request) {
		if w.broken.Load() {
			http.Error(r, "we are closed", http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(r, "welcome to the shop")
	}))
	t.Cleanup(w.Close)
	return w
}

// TestMonitoring: a contact, a credential and a service; broken, it becomes a
// problem with an issue, a ticket and one mail; mended, all is closed with another
// one. The server is killed in between, which nobody notices.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	box := notifytest.Start(t, notifytest.Options{})
	s := harness.New(t, ofPostgreSQL, harness.WithConfig(fmt.Sprintf(
		"monitor: {interval: 2s, confirm_after: 200ms}\nsmtp: {url: %q, from: watch@example.org, ca_file: %q}", box.URL(), box.CAFile)))
	shop := newSite(t)
	call := func(method, path string, in, out any) {
		t.Helper()
		if status, body := s.Call(method, path, in, out); status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, path, status, body)
		}
	}
	call("POST", "/v4/managed/contacts", map[string]any{"name": "Ann", "email": "ann@example.org", "group": "shop"}, nil)
	call("POST", "/v4/managed/contacts", map[string]any{"name": "Bob", "email": "bob@example.org", "group": "others"}, nil)
	var credential struct {
		ID int64 `json:"id"`
	}
	call("POST", "/v4/managed/credentials", map[string]any{"label": "shop's root", "password": "secret"}, &credential)
	var web, port client.Service
	call("POST", "/v4/managed/services", map[string]any{
		"label": "shop", "service_type": "url", "address": shop.URL, "timeout": 5, "body": "welcome", "region": "local",
		"consultation_group": "shop", "credentials": []int64{credential.ID},
	}, &web)
	call("POST", "/v4/managed/services", map[string]any{
		"label": "shop's port", "service_type": "tcp", "address": strings.TrimPrefix(shop.URL, "http://"), "timeout": 5, "region": "local",
	}, &port)
	becomes := func(service client.Service, want string) {
		t.Helper()
		s.Eventually(service.Label+" is "+want, func() error {
			var now client.Service
			if status, body, err := s.TryCall("GET", fmt.Sprintf("/v4/managed/services/%d", service.ID), nil, &now); err != nil || status != http.StatusOK {
				return fmt.Errorf("%d %s, %w", status, body, err)
			}
			if now.Status != want {
				return fmt.Errorf("it is %s: %s", now.Status, now.StatusReason)
			}
			return nil
		})
	}
	if web.Status != "pending" {
		t.Errorf("a new service is %s", web.Status)
	}
	becomes(web, "ok")
	becomes(port, "ok")

	shop.broken.Store(true)
	becomes(web, "problem")
	opened := box.Await(t, 1, patience, func(m notifytest.Mail) bool { return true })[0]
	if to := opened.Header.Get("To"); !strings.Contains(to, "ann@example.org") || !strings.Contains(opened.Text, "shop") {
		t.Errorf("mail to %s: %s", to, opened.Text)
	}
	var issues struct {
		Data []client.Issue `json:"data"`
	}
	call("GET", "/v4/managed/issues", nil, &issues)
	if len(issues.Data) != 1 || len(issues.Data[0].Services) != 1 || issues.Data[0].Services[0] != web.ID || issues.Data[0].Entity.Type != "ticket" {
		t.Fatalf("issues: %+v", issues.Data)
	}
	s.Kill()
	s.Start()
	becomes(web, "problem")
	shop.broken.Store(false)
	becomes(web, "ok")
	recovered := box.Await(t, 1, patience, func(m notifytest.Mail) bool { return m.MessageID() != opened.MessageID() })[0]
	if !strings.HasPrefix(recovered.Subject, "Recovered: shop after ") {
		t.Error(recovered.Subject)
	}
	call("GET", "/v4/managed/issues", nil, &issues)
	if len(issues.Data) != 1 || issues.Data[0].Closed == "" {
		t.Errorf("issues afterwards: %+v", issues.Data)
	}
	ticket := issues.Data[0].Entity
	var timeline struct {
		Data []client.Reply `json:"data"`
	}
	s.Eventually("the timeline is whole", func() error {
		call("GET", ticket.URL+"/replies", nil, &timeline)
		kinds := map[string]int{}
		for _, r := range timeline.Data {
			kinds[r.Kind]++
		}
		if kinds["opened"] != 1 || kinds["recovered"] != 1 || kinds["closed"] != 1 || kinds["notice"] != 2 {
			return fmt.Errorf("%v", kinds)
		}
		return nil
	})
	// The server may have been killed after the mail server took the opening and before
	// that was recorded: then that one mail, and no other, comes once more.
	again := 0
	for _, m := range box.Mails()[1:] {
		switch m.MessageID() {
		case opened.MessageID():
			again++
		case recovered.MessageID():
		default:
			t.Errorf("another mail: %s to %s", m.Subject, m.EnvelopeTo)
		}
	}
	if again > 1 || len(box.Mails()) != 2+again {
		t.Errorf("%d mails, the first one %d times more", len(box.Mails()), again)
	}

	call("POST", fmt.Sprintf("/v4/managed/services/%d/disable", web.ID), nil, &web)
	call("POST", fmt.Sprintf("/v4/managed/services/%d/disable", web.ID), nil, &web)
	if web.Status != "disabled" {
		t.Errorf("after disable: %s", web.Status)
	}
	call("POST", fmt.Sprintf("/v4/managed/services/%d/enable", web.ID), nil, &web)
	if web.Status != "pending" {
		t.Errorf("after enable: %s", web.Status)
	}
	becomes(web, "ok")
	call("DELETE", fmt.Sprintf("/v4/managed/credentials/%d", credential.ID), nil, nil)
	call("GET", fmt.Sprintf("/v4/managed/services/%d", web.ID), nil, &web)
	if len(web.Credentials) != 0 {
		t.Errorf("a deleted credential is still with its service: %v", web.Credentials)
	}
	shop.Close()
	becomes(port, "problem")
	becomes(web, "problem")
	call("DELETE", fmt.Sprintf("/v4/managed/services/%d", port.ID), nil, nil)
	call("DELETE", fmt.Sprintf("/v4/managed/services/%d", web.ID), nil, nil)
	s.Eventually("nothing is left open", func() error {
		call("GET", "/v4/managed/issues", nil, &issues)
		for _, i := range issues.Data {
			if i.Closed == "" {
				return fmt.Errorf("issue %d lasts", i.ID)
			}
		}
		return nil
	})
	unwatched := func(name, of string) func(notifytest.Mail) bool {
		return func(m notifytest.Mail) bool {
			return m.EnvelopeTo == name && strings.HasPrefix(m.Subject, "No longer watched: ") && strings.Contains(m.Subject, of)
		}
	}
	// All contacts are told of a service without a group.
	box.Await(t, 1, patience, unwatched("ann@example.org", "shop's port"))
	box.Await(t, 1, patience, unwatched("bob@example.org", "shop's port"))
	for _, m := range box.Mails() {
		if strings.HasPrefix(m.Subject, "Recovered: ") && m.MessageID() != recovered.MessageID() {
			t.Errorf("what was deleted is told to be well: %s", m.Subject)
		}
	}
	var checks client.Checks
	if status, _ := s.Call("GET", fmt.Sprintf("/v4/managed/services/%d/checks", web.ID), nil, &checks); status != http.StatusNotFound {
		t.Errorf("the checks of a deleted service: %d", status)
	}
	if out, err := s.Command("notice", "list", "--data", s.Data); err != nil || !strings.Contains(out, "ann@example.org") {
		t.Errorf("notice list: %v\n%s", err, out)
	}
}

// patience is how long mail and statuses may take on a machine that has much to do.
const patience = time.Minute

// managedErrors: what is wrong is named, all at once.
func managedErrors(t *testing.T, s *harness.Server) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		name, path string
		in         map[string]any
		want       []string
	}{
		{"nothing", "services", map[string]any{}, []string{"label is required", "service_type is required", "address is required", "timeout is required"}},
		{
			"everything", "services",
			map[string]any{"label": "x", "service_type": "udp", "address": "a", "timeout": 256, "body": strings.Repeat("b", 101), "consultation_group": strings.Repeat("g", 51), "credentials": []string{"x"}},
			[]string{`"label","reason":"Length must be 3-64`, `"service_type","reason":"Must be one of url, tcp`, `"address","reason":"Length must be 3-100`, `"timeout","reason":"Must be 1-255`, `"body"`, `"consultation_group"`, `"credentials"`},
		},
		{"metadata", "services", map[string]any{"label": "abc", "service_type": "url", "address": "http://169.254.169.254/", "timeout": 1, "region": "local"}, []string{`"address"`}},
		{"private without region", "services", map[string]any{"label": "abc", "service_type": "tcp", "address": l.Addr().String(), "timeout": 1}, []string{`"region"`}},
		{"public with region", "services", map[string]any{"label": "abc", "service_type": "tcp", "address": "8.8.8.8:53", "timeout": 1, "region": "local"}, []string{`"region"`}},
		{"fragment", "services", map[string]any{"label": "abc", "service_type": "url", "address": "https://example.org/#top", "timeout": 1}, []string{`"address"`}},
		{"unknown credential", "services", map[string]any{"label": "abc", "service_type": "url", "address": "https://example.org/", "timeout": 1, "credentials": []int{99}}, []string{`"credentials","reason":"credentials is not valid"`}},
		{"contact", "contacts", map[string]any{"name": "x", "email": "nobody"}, []string{`"name"`, `"email"`}},
		{"credential", "credentials", map[string]any{"label": "x"}, []string{`"label"`, "password is required"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := s.Call("POST", "/v4/managed/"+c.path, c.in, nil)
			if status != http.StatusBadRequest {
				t.Errorf("status %d", status)
			}
			for _, want := range c.want {
				if !strings.Contains(body, want) {
					t.Errorf("%s is not in %s", want, body)
				}
			}
		})
	}
}
