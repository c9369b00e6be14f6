package api_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/store"
)

// TestEventsOfPeople: changes of users, grants, tokens, OAuth clients and the account are events, which an account's unrestricted users see, a
// restricted one of what is its own, and nobody else; none has a secret.
func TestEventsOfPeople(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	url := b.serveStream().URL
	stranger := b.stranger()
	id := b.create()
	owner, limited, foreign := follow(t, url, b.full, ""), follow(t, url, b.restricted, ""), follow(t, url, stranger, "")
	made := func(method, path, token, body string) (answer struct {
		ID     any
		Token  string
		Secret string
	},
	) {
		t.Helper()
		r := b.send(method, path, token, body)
		if r.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, path, r.StatusCode, r.body)
		}
		b.decode(r, &answer)
		return answer
	}
	token := func(by string) (id string) {
		t.Helper()
		got := made("POST", "/v4/profile/tokens", by, `{"label":"deploys","scopes":"databases:read_only"}`)
		return fmt.Sprint(got.ID)
	}
	made("POST", "/v4/account/users", b.full, `{"username":"ann","email":"ann@example.org","restricted":true}`)
	made("PUT", "/v4/account/users/limited/grants", b.full, fmt.Sprintf(`{"database":[{"id":%d,"permissions":"read_only"}]}`, id))
	made("DELETE", "/v4/account/users/ann", b.full, "")
	own := token(b.restricted)
	made("PUT", "/v4/profile/tokens/"+own, b.restricted, `{"label":"builds"}`)
	made("DELETE", "/v4/profile/tokens/"+own, b.restricted, "")
	token(b.full)
	client := made("POST", "/v4/account/oauth-clients", b.full, `{"label":"shop","redirect_uri":"https://shop.example.org/"}`)
	made("PUT", fmt.Sprint("/v4/account/oauth-clients/", client.ID), b.full, `{"label":"shop 2"}`)
	reset := made("POST", fmt.Sprint("/v4/account/oauth-clients/", client.ID, "/reset-secret"), b.full, "")
	made("DELETE", fmt.Sprint("/v4/account/oauth-clients/", client.ID), b.full, "")
	made("PUT", "/v4/profile", b.restricted, `{"email":"limited@example.org"}`)
	made("PUT", "/v4/operator/accounts/default", b.full, `{"email":"all@example.org"}`)
	made("PUT", "/v4/operator/accounts/other", b.full, `{"email":"other@example.org"}`)

	if got, want := owner.next(13), []string{
		"user_create", "user_update", "user_delete", "token_create", "token_update", "token_delete", "token_create",
		"oauth_client_create", "oauth_client_update", "oauth_client_secret_reset", "oauth_client_delete", "profile_update", "account_update",
	}; !slices.Equal(actions(got), want) {
		t.Errorf("the owner's: %v", got)
	}
	if got, want := limited.next(5), []string{"user_update", "token_create", "token_update", "token_delete", "profile_update"}; !slices.Equal(actions(got), want) {
		t.Errorf("one's own: %v", got)
	}
	if got := foreign.next(1); !slices.Equal(actions(got), []string{"account_update"}) {
		t.Errorf("another account's: %v", got)
	}
	for _, f := range []*follower{owner, limited, foreign} {
		f.close()
	}

	// The list has what the stream had, and marks are for who sees an event.
	lists := func(token string) string {
		return b.send("GET", "/v4/account/events?page_size=500", token, "").body
	}
	all := lists(b.full)
	for _, part := range []string{
		`"type":"user","url":"/v4/account/users/ann"`, `"type":"token","url":"/v4/profile/tokens/` + own + `"`, fmt.Sprintf(`"type":"oauth_client","url":"/v4/account/oauth-clients/%v"`, client.ID),
		`"label":"builds"`, `"label":"shop 2"`, `"type":"account","url":"/v4/account"`,
	} {
		if !strings.Contains(all, part) {
			t.Errorf("%s isn't in %s", part, all)
		}
	}
	for _, secret := range []string{client.Secret, reset.Secret} {
		if secret == "" || strings.Contains(all, secret) {
			t.Errorf("secret %q is empty, or in an event", secret)
		}
	}
	if few := lists(b.restricted); strings.Contains(few, `"ann"`) || strings.Contains(few, "oauth_client") || strings.Count(few, `"token_create"`) != 1 || strings.Contains(few, "account_update") {
		t.Errorf("one's own: %s", few)
	}
	if few := lists(stranger); strings.Count(few, `"action"`) != 1 || strings.Contains(few, "default") {
		t.Errorf("another account's: %s", few)
	}
	var events struct {
		Data []struct {
			ID     int64
			Action string
			Read   bool
		}
	}
	b.decode(b.send("GET", "/v4/account/events", b.restricted, ""), &events)
	if r := b.send("POST", fmt.Sprintf("/v4/account/events/%d/read", events.Data[0].ID), b.restricted, ""); r.StatusCode != http.StatusOK {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	b.decode(b.send("GET", "/v4/account/events", b.restricted, ""), &events)
	if !events.Data[0].Read || events.Data[0].Action != "profile_update" {
		t.Errorf("%+v", events.Data[0])
	}
}

// actions are those of events that a follower read.
func actions(events []string) []string {
	all := make([]string, len(events))
	for i, e := range events {
		all[i], _, _ = strings.Cut(e, " ")
	}
	return all
}

// hinted follows which lists change.
func hinted(t *testing.T, url, token string) <-chan string {
	t.Helper()
	lists := make(chan string, 1000)
	var lines *bufio.Reader
	for deadline := time.Now().Add(30 * time.Second); lines == nil; { // the hub may not run yet: the stream ends at once then
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/v4/account/events/stream?lists=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		if begun := bufio.NewReader(answer.Body); time.Now().After(deadline) {
			t.Fatal("nothing to follow")
		} else if first, err := begun.ReadString('\n'); err == nil && first == "retry: 1000\n" {
			lines = begun
		}
	}
	go func() {
		defer close(lists)
		list := false
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok && list {
				lists <- strings.TrimSpace(data)
			}
			list = line == "event: list\n"
		}
	}()
	return lists
}

// TestLists: a stream that asks for it is told of lists that change without an event: of one's own account and self, and of accounts when one is an
// operator.
func TestLists(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	url := b.serveStream().URL
	stranger := b.stranger()
	var admin, limited account.User
	err := b.store.InTx(t.Context(), func(tx *store.Tx) (err error) {
		if admin, err = tx.EnsureAdmin(t.Context()); err != nil {
			return err
		}
		limited, err = tx.User(t.Context(), b.account, "limited")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	streams := map[string]<-chan string{"admin": hinted(t, url, b.full), "limited": hinted(t, url, b.restricted), "stranger": hinted(t, url, stranger)}
	line := func(of account.User, action string) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			return tx.AddAudit(context.WithoutCancel(t.Context()), account.Audit{At: time.Now(), Account: of.Account, User: of.ID, Username: of.Username, Action: action, Path: "/", Status: 200})
		}
	}
	app := func(of account.User, request string) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			a := account.Authorization{Request: request, Client: account.ConsoleClient, User: of.ID, Scopes: account.FullScopes()}
			if err := tx.CreateAuthorization(t.Context(), a); err != nil {
				return err
			}
			return tx.CreateAccessToken(t.Context(), store.TokenHash(fmt.Appendf(nil, "%32s", request)), request, a.Scopes, time.Now().Add(time.Hour))
		}
	}
	never := map[string][]string{"limited": {"audit", "accounts"}, "stranger": {"accounts"}}
	for _, c := range []struct {
		what string
		do   func(*store.Tx) error
		told map[string][]string
	}{
		{"a request", line(admin, "PUT /x"), map[string][]string{"admin": {"audit"}}},
		{"a restricted user's log-in", line(limited, "POST /oauth/authorize"), map[string][]string{"admin": {"audit", "logins"}, "limited": {"logins"}}},
		{"an application", app(limited, "one"), map[string][]string{"limited": {"apps"}}},
		{"its end", func(tx *store.Tx) error { return tx.EndAuthorization(t.Context(), "one") }, map[string][]string{"limited": {"apps"}}},
		{"an account", func(tx *store.Tx) error {
			_, err := tx.CreateAccount(t.Context(), account.Account{Name: "third"})
			return err
		}, map[string][]string{"admin": {"accounts"}}},
		{"the first user of an account", func(tx *store.Tx) error {
			third, err := tx.AccountByName(t.Context(), "third")
			if err != nil {
				return err
			}
			_, err = tx.CreateUser(t.Context(), account.User{Account: third.ID, Username: "ada", Email: "ada@example.org"})
			return err
		}, map[string][]string{"admin": {"accounts"}}},
	} {
		for _, lists := range streams { // what was before
			for len(lists) > 0 {
				<-lists
			}
		}
		if err := b.store.InTx(t.Context(), c.do); err != nil {
			t.Fatal(c.what, err)
		}
		for name, want := range c.told {
			for len(want) > 0 {
				select {
				case one := <-streams[name]:
					if slices.Contains(never[name], one) {
						t.Errorf("%s: %s was told of %s", c.what, name, one)
					}
					want = slices.DeleteFunc(want, func(w string) bool { return w == one })
				case <-time.After(30 * time.Second):
					t.Fatalf("%s: %s wasn't told of %v", c.what, name, want)
				}
			}
		}
	}
	for name, lists := range streams {
		for len(lists) > 0 {
			if one := <-lists; slices.Contains(never[name], one) {
				t.Errorf("%s was told of %s", name, one)
			}
		}
	}
}
