package api_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/cluster"
)

// decoded is an answer's object; the test ends when it isn't one.
func (r reply) decoded(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(r.body), &v); err != nil || r.StatusCode != 200 {
		t.Fatalf("%d %s, %v", r.StatusCode, r.body, err)
	}
	return v
}

// TestAccountIsShown as clients read it, to unrestricted users.
func TestAccountIsShown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	shown := b.send("GET", "/v4/account", b.full, "").decoded(t)
	euuid, _ := shown["euuid"].(string)
	if shown["company"] != "default" || shown["active_since"] == "" || !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(euuid) {
		t.Errorf("%v", shown)
	}
	if other := b.send("GET", "/v4/account", b.stranger(), "").decoded(t); other["euuid"] == euuid || other["company"] != "other" {
		t.Errorf("another account: %v", other)
	}
	for _, path := range []string{"/v4/account", "/v4/account/audit", "/v4/account/logins", "/v4/account/logins/1"} {
		if r := b.send("GET", path, b.restricted, ""); r.StatusCode != 403 {
			t.Errorf("%s for a restricted user: %d %s", path, r.StatusCode, r.body)
		}
	}
	for path, want := range map[string]string{
		"/v4/account/settings":           `"managed":true`,
		"/v4/account/child-accounts":     `"data":[],"page":1,"pages":1,"results":0`,
		"/v4/account/notifications":      `"data":[],"page":1,"pages":1,"results":0`,
		"/v4/account/availability":       `"data":[{"region":"local","available":["Managed Databases"],"unavailable":[]}]`,
		"/v4/account/availability/local": `{"region":"local","available":["Managed Databases"],"unavailable":[]}`,
		"/v4/profile/logins":             `"data":[],"page":1,"pages":1,"results":0`,
	} {
		for _, token := range []string{b.readOnly, b.restricted} {
			if r := b.send("GET", path, token, ""); r.StatusCode != 200 || !strings.Contains(r.body, want) {
				t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
			}
		}
		if r := b.send("GET", path, "", ""); r.StatusCode != 401 {
			t.Errorf("%s without a token: %d", path, r.StatusCode)
		}
	}
	for _, path := range []string{"/v4/account/availability/mars", "/v4/regions/mars/availability", "/v4/profile/logins/1", "/v4/account/logins/1"} {
		if r := b.send("GET", path, b.full, ""); r.StatusCode != 404 {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
	for _, path := range []string{"/v4/account/availability", "/v4/account/notifications", "/v4/account/child-accounts", "/v4/account/logins", "/v4/regions/availability"} {
		if r := b.send("GET", path, b.full, "", "X-Filter", `{"nonsense":1}`); r.StatusCode != 400 {
			t.Errorf("%s with a filter that it can't obey: %d", path, r.StatusCode)
		}
	}
}

func TestRegionsSayWhichPlansTheyHave(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const one = `{"region":"local","plan":"g6-nanode-1","available":true}`
	if r := b.send("GET", "/v4/regions/availability", "", "", "X-Filter", `{"plan":"g6-nanode-1","available":true}`); !strings.Contains(r.body, `"data":[`+one+`]`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", "/v4/regions/local/availability", "", ""); r.StatusCode != 200 || !strings.HasPrefix(r.body, "[{") || !strings.Contains(r.body, one) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

// TestLoginsComeFromTheAuditTrail: those to the account's applications, by users
// that there are; of oneself, one's own only.
func TestLoginsComeFromTheAuditTrail(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := time.Date(2026, 1, 31, 18, 4, 5, 600e6, time.UTC)
	var lines []account.Audit
	for i, name := range []string{"admin", "limited"} {
		u, err := b.store.User(t.Context(), b.account, name)
		if err != nil {
			t.Fatal(err)
		}
		for j, status := range []int{401, 303} {
			lines = append(lines, account.Audit{
				At: at.Add(time.Duration(2*i+j) * time.Minute), Account: b.account, User: u.ID, Username: name, Address: "192.0.2.7",
				Action: "POST /oauth/authorize", Path: "/oauth/authorize", Status: status,
			})
		}
	}
	other := lines[0]
	other.Action = "POST /v4/profile/tokens"
	unknown, strange := lines[0], lines[0]
	unknown.User, unknown.Username = 0, ""
	strange.Account++
	if err := b.store.AddAudit(t.Context(), append(slices.Clone(lines), other, unknown, strange)...); err != nil {
		t.Fatal(err)
	}
	statuses := func(path, token string, headers ...string) (all []string) {
		t.Helper()
		for _, item := range b.send("GET", path, token, "", headers...).decoded(t)["data"].([]any) {
			l := item.(map[string]any)
			all = append(all, fmt.Sprintf("%v %v %v %v", l["datetime"], l["username"], l["restricted"], l["status"]))
		}
		return all
	}
	limited := []string{"2026-01-31T18:07:05 limited true successful", "2026-01-31T18:06:05 limited true failed"}
	admin := []string{"2026-01-31T18:05:05 admin false successful", "2026-01-31T18:04:05 admin false failed"}
	if got := statuses("/v4/account/logins", b.full); !slices.Equal(got, append(slices.Clone(limited), admin...)) {
		t.Errorf("the account's: %q", got)
	}
	if got := statuses("/v4/account/logins", b.full, "X-Filter", `{"username":"limited","status":"failed","datetime":"2026-01-31T18:06:05"}`); !slices.Equal(got, limited[1:]) {
		t.Errorf("filtered: %q", got)
	}
	if got := statuses("/v4/profile/logins", b.full); !slices.Equal(got, admin) {
		t.Errorf("one's own: %q", got)
	}
	mustSee := func(path, member string, want any) {
		t.Helper()
		if got := b.send("GET", path, b.full, "").decoded(t)[member]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s %v, want %v", path, member, got, want)
		}
	}
	mustSee("/v4/account/users/admin", "last_login", map[string]any{"login_datetime": "2026-01-31T18:05:05", "status": "successful"})
	mustSee("/v4/account/users/admin", "password_created", nil)
	if r := b.send("GET", "/v4/account/users", b.full, ""); strings.Count(r.body, `"login_datetime":"2026-01-31T18:07:05"`) != 1 || strings.Count(r.body, `"login_datetime"`) != 2 {
		t.Errorf("users' last log-ins: %s", r.body)
	}
	if got := statuses("/v4/profile/logins", b.restricted); !slices.Equal(got, limited) {
		t.Errorf("a restricted user's own: %q", got)
	}
	if got := b.send("GET", "/v4/account/logins/1", b.full, "").decoded(t); got["id"] != 1.0 || got["ip"] != "192.0.2.7" || got["username"] != "admin" {
		t.Errorf("%v", got)
	}
	for _, path := range []string{"/v4/account/logins/5", "/v4/account/logins/6", "/v4/account/logins/7"} {
		if r := b.send("GET", path, b.full, ""); r.StatusCode != 404 {
			t.Errorf("what is no log-in of the account, %s: %d %s", path, r.StatusCode, r.body)
		}
	}
	if r := b.send("GET", "/v4/profile/logins/1", b.restricted, ""); r.StatusCode != 404 {
		t.Errorf("another user's: %d %s", r.StatusCode, r.body)
	}
}

// TestTrailIsShown to an account's unrestricted users: what changed something or was refused there, operators' own things left out, and
// nothing of other accounts.
func TestTrailIsShown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := time.Now()
	line := account.Audit{At: at, Account: b.account, Username: "admin", Token: 7, Client: account.ConsoleClient, Address: "192.0.2.7", Action: "PUT /v4/profile", Path: "/v4/profile", Status: 200, RequestID: "r1"}
	refused, operator, old, strange := line, line, line, line
	refused.Username, refused.Token, refused.Client, refused.Status = "limited", 0, "", 403
	operator.Username, operator.Token, operator.Client, operator.Address = "operator:root", 0, "", "198.51.100.1"
	operator.Action, operator.Path = "POST /v4/operator/accounts/{accountName}/suspend", "default"
	old.At, strange.Account = at.Add(-91*24*time.Hour), b.account+1
	if err := b.store.AddAudit(t.Context(), old, line, refused, operator, strange); err != nil {
		t.Fatal(err)
	}
	lines := func(filter string) (all []string) {
		t.Helper()
		for _, item := range b.send("GET", "/v4/account/audit", b.full, "", "X-Filter", filter).decoded(t)["data"].([]any) {
			l := item.(map[string]any)
			all = append(all, fmt.Sprintf("%v %v %v %v %v", l["username"], l["token_id"], l["ip"], l["path"], l["status"]))
		}
		return all
	}
	want := []string{"operator <nil> <nil> default 200", "limited <nil> 192.0.2.7 /v4/profile 403", "admin 7 192.0.2.7 /v4/profile 200"}
	if got := lines("{}"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for filter, want := range map[string][]string{
		`{"+or":[{"status":401},{"status":403}]}`: want[1:2], `{"username":"operator"}`: want[:1], `{"username":{"+contains":"root"}}`: nil, `{"ip":"198.51.100.1"}`: nil,
	} {
		if got := lines(filter); !slices.Equal(got, want) {
			t.Errorf("%s: %q", filter, got)
		}
	}
}

// TestNotificationsTellOfWhatIsGoingOn: outages that last, to those who may see
// them, and maintenance that is planned.
func TestNotificationsTellOfWhatIsGoingOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = 'active' WHERE id = $1", id); err != nil {
		t.Fatal(err)
	}
	if err := b.store.RecordTasks(t.Context(), cluster.ID(id), []cluster.Task{{Kind: cluster.TaskUpdate, From: "15.17", To: "15.18"}}); err != nil {
		t.Fatal(err)
	}
	_, err := b.store.Pool().Exec(t.Context(), `WITH t AS (
			INSERT INTO tickets (account_id, summary, status, opened, updated, closed) VALUES
			($1, 'The shop is down', 'open', now(), now(), NULL), ($1, 'The till was down', 'closed', now(), now(), now()) RETURNING id, summary, closed)
		INSERT INTO issues (account_id, ticket_id, host, created, closed) SELECT $1, id, summary, '2026-01-31T18:04:05Z', closed FROM t`, b.account)
	if err != nil {
		t.Fatal(err)
	}
	r := b.send("GET", "/v4/account/notifications", b.full, "")
	for _, part := range []string{
		`"results":2`, `"type":"ticket_important"`, `"message":"The shop is down"`, `"when":"2026-01-31T18:04:05"`, `"type":"maintenance_scheduled"`, "15.18",
	} {
		if !strings.Contains(r.body, part) {
			t.Errorf("no %s in %s", part, r.body)
		}
	}
	if r := b.send("GET", "/v4/account/notifications", b.full, "", "X-Filter", `{"entity.type":"database","when":{"+gt":"2026-01-31T18:04:05"}}`); !strings.Contains(r.body, `"results":1`) {
		t.Errorf("filtered: %s", r.body)
	}
	for who, token := range map[string]string{"who sees no database": b.restricted, "another account": b.stranger()} {
		if r := b.send("GET", "/v4/account/notifications", token, ""); !strings.Contains(r.body, `"results":0`) {
			t.Errorf("%s: %s", who, r.body)
		}
	}
}

// TestPreferencesAreGivenBack as they came, to each user its own.
func TestPreferencesAreGivenBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const path = "/v4/profile/preferences"
	is := func(token, want string) {
		t.Helper()
		if r := b.send("GET", path, token, ""); r.StatusCode != 200 || strings.TrimSpace(r.body) != want {
			t.Errorf("%d %s, want %s", r.StatusCode, r.body, want)
		}
	}
	is(b.full, `{}`)
	for _, text := range []string{`{"a":{"b":[1,null,"ü"]},"theme":"dark"}`, `{"big":12345678901234567890.5,"nul":"\u0000","other":null}`, `{}`, `{"last":true}`} {
		if r := b.send("PUT", path, b.full, text); r.StatusCode != 200 || strings.TrimSpace(r.body) != text {
			t.Errorf("%s: answered %d %s", text, r.StatusCode, r.body)
		}
		is(b.full, text)
	}
	is(b.restricted, `{}`)
	if r := b.send("PUT", path, b.restricted, `{"mine":1}`); r.StatusCode != 200 {
		t.Errorf("a restricted user's: %d %s", r.StatusCode, r.body)
	}
	is(b.full, `{"last":true}`)
	for _, text := range []string{`[]`, `7`, `{"long":"` + strings.Repeat("x", 64<<10) + `"}`} {
		if r := b.send("PUT", path, b.full, text); r.StatusCode != 400 {
			t.Errorf("%.20s: %d %s", text, r.StatusCode, r.body)
		}
	}
	if r := b.send("PUT", path, b.readOnly, `{}`); r.StatusCode != 401 {
		t.Errorf("with a token to read: %d", r.StatusCode)
	}
	is(b.full, `{"last":true}`)
}

// TestProfileCanBeSentBack: the e-mail address changes, the rest can't.
func TestProfileCanBeSentBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const path = "/v4/profile"
	for _, token := range []string{b.full, b.restricted} {
		before := b.send("GET", path, token, "")
		if r := b.send("PUT", path, token, before.body); r.StatusCode != 200 || r.body != before.body {
			t.Errorf("as it is: %d %s", r.StatusCode, r.body)
		}
		if got := b.send("PUT", path, token, `{"email":"new@example.org"}`).decoded(t); got["email"] != "new@example.org" {
			t.Errorf("%v", got)
		}
		after := b.send("GET", path, token, "").decoded(t)
		want := before.decoded(t)
		want["email"] = "new@example.org"
		if fmt.Sprint(after) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", after, want)
		}
	}
	r := b.send("PUT", path, b.restricted, `{"email":"nobody","restricted":false,"username":"admin","timezone":"CET","email_notifications":true,
		"two_factor_auth":true,"authentication_type":"sso","authorized_keys":["ssh-rsa x"],"ip_whitelist_enabled":true,"lish_auth_method":"keys_only"}`)
	if got := r.faults(); r.StatusCode != 400 || len(got) != 10 {
		t.Errorf("%d %q", r.StatusCode, got)
	}
	if got := b.send("GET", path, b.restricted, "").decoded(t); got["restricted"] != true || got["email"] != "new@example.org" {
		t.Errorf("refused, but %v", got)
	}
}

// TestSecretsAreResetByEitherName of the operation.
func TestSecretsAreResetByEitherName(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	made := b.send("POST", "/v4/account/oauth-clients", b.full, `{"label":"Shop","redirect_uri":"https://app.example.org/"}`).decoded(t)
	seen := []any{made["secret"]}
	for _, name := range []string{"reset-secret", "reset_secret"} {
		secret := b.send("POST", fmt.Sprintf("/v4/account/oauth-clients/%v/%s", made["id"], name), b.full, "").decoded(t)["secret"]
		if slices.Contains(seen, secret) || secret == "" {
			t.Errorf("%s: %v after %v", name, secret, seen)
		}
		seen = append(seen, secret)
	}
}
