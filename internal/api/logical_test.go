package api_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/logical"
	"steward/internal/platform/memplatform"
)

// TestLogical: logical databases and users by the API: grants, faults all at once, passwords answered once, events.
func TestLogical(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	expect := b.expecting(t, one)
	expect("GET", "/databases", b.full, "", 400, "provisioning; it can be looked into when")
	expect("POST", "/users", b.full, `{"username":"app"}`, 400, "provisioning; it can be changed inside when it is active, backing_up or degraded")
	b.behind(id, func(*memplatform.Cluster) {})
	expect("GET", "/databases", b.readOnly, "", 200, `"name":"defaultdb"`)
	expect("POST", "/databases", b.readOnly, `{"name":"shop"}`, 401, "not authorized")
	expect("POST", "/databases", b.full, `{"name":"Steward","owner":"pg_monitor","encoding":7}`, 400, `"field":"name"`, `"field":"owner"`, `"field":"encoding"`)
	expect("POST", "/databases", b.full, `{}`, 400, `"field":"name","reason":"name is required"`)
	expect("POST", "/databases", b.full, `{"name":"shop","collation":"C"}`, 200, `{"name":"shop","owner":"dbadmin","encoding":"UTF8","collation":"C"}`)
	expect("POST", "/databases", b.full, `{"name":"shop"}`, 400, "taken")
	expect("GET", "/databases/shop", b.full, "", 200, `"name":"shop"`)
	expect("GET", "/databases/none", b.full, "", 404, "Not found")

	made := expect("POST", "/users", b.full, `{"username":"app","grants":[{"database":"shop","privilege":"write"}]}`, 200, `"username":"app"`, `"privilege":"write"`, `"password":"`)
	c, _ := b.world.Cluster(cluster.ID(id))
	if password := c.Inside.Users[0].Password; len(password) < 20 || !strings.Contains(made, password) {
		t.Errorf("%s, but the server has %s", made, password)
	}
	for _, path := range []string{"/users", "/users/app"} {
		if body := expect("GET", path, b.full, "", 200, `"username":"app"`); strings.Contains(body, "password") || strings.Contains(body, c.Inside.Users[0].Password) {
			t.Errorf("%s: %s", path, body)
		}
	}
	expect("POST", "/users", b.full, `{"username":"dbadmin","grants":[{"database":"shop","privilege":"all"},{"database":"","privilege":"read"}]}`, 400, `"field":"username"`, `"field":"grants`)
	expect("POST", "/users", b.full, `{"username":"two","grants":[{"database":"shop","privilege":"read"},{"database":"shop","privilege":"write"}]}`, 400, "is there twice")
	expect("PUT", "/users/app", b.full, `{"grants":[{"database":"none","privilege":"read"}]}`, 400, "There is no database none")
	expect("PUT", "/users/app", b.full, `{"grants":[]}`, 200, `{"username":"app","grants":[]}`)
	for _, name := range []string{"steward", "pg_monitor", "dbadmin", "nobody"} {
		expect("PUT", "/users/"+name, b.full, `{"grants":[]}`, 404, "Not found")
		expect("DELETE", "/users/"+name, b.full, "", 404, "Not found")
		expect("POST", "/users/"+name+"/credentials/reset", b.full, "", 404, "Not found")
	}
	reset := expect("POST", "/users/app/credentials/reset", b.full, "", 200, `"password":"`)
	c, _ = b.world.Cluster(cluster.ID(id))
	if u := c.Inside.Users[0]; !strings.Contains(reset, u.Password) || strings.Contains(made, u.Password) || u.Ended != 1 {
		t.Errorf("%+v after %s", u, reset)
	}
	hostile := `a.b "c';--%252F?`
	expect("POST", "/users", b.full, fmt.Sprintf(`{"username":%q}`, hostile), 200, `"grants":[]`)
	expect("GET", "/users/"+url.PathEscape(hostile), b.full, "", 200, `a.b`)
	expect("DELETE", "/users/"+url.PathEscape(hostile), b.full, "", 200, "{}")

	expect("GET", "/users", b.restricted, "", 404, "Not found")
	b.grant(id, "read_only")
	expect("GET", "/users", b.restricted, "", 200, `"username":"app"`)
	for _, r := range [][3]string{
		{"POST", "/users", `{"username":"x"}`},
		{"PUT", "/users/app", `{"grants":[]}`},
		{"DELETE", "/users/app", ""},
		{"POST", "/users/app/credentials/reset", ""},
		{"POST", "/databases", `{"name":"x"}`},
		{"DELETE", "/databases/shop", ""},
	} {
		expect(r[0], r[1], b.restricted, r[2], 403, "Unauthorized")
	}
	expect("DELETE", "/users/app", b.full, "", 200, "{}")
	expect("DELETE", "/databases/shop", b.full, "", 200, "{}")
	events := b.send("GET", "/v4/account/events", b.full, "").body
	for _, action := range []string{"database_logical_create", "database_logical_delete", "database_user_create", "database_user_update", "database_user_credentials_reset", "database_user_delete"} {
		if !strings.Contains(events, `"action":"`+action+`","status":"finished"`) {
			t.Errorf("no event %s: %s", action, events)
		}
	}
	b.behind(id, func(c *memplatform.Cluster) { c.Running, c.SleepingSince = false, time.Now() })
	expect("GET", "/users", b.full, "", 400, "sleeps; connect to it first")
	expect("POST", "/users", b.full, `{"username":"app"}`, 400, "sleeps; connect to it first")
}

// TestLogicalOfMySQL: owners are refused where there are none, and names as the server needs them.
func TestLogicalOfMySQL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.send("POST", "/v4/databases/mysql/instances", b.full, `{"label":"inside","engine":"mysql/10.11","region":"local","type":"g6-nanode-1"}`)
	var made struct{ ID int64 }
	b.decode(r, &made)
	b.behind(made.ID, func(*memplatform.Cluster) {})
	one := fmt.Sprintf("/v4/databases/mysql/instances/%d", made.ID)
	if r := b.send("POST", one+"/databases", b.full, `{"name":"a.b","owner":"app"}`); r.StatusCode != 400 || !strings.Contains(r.body, `"field":"name"`) || !strings.Contains(r.body, "have no owner") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := b.send("POST", one+"/users", b.full, `{"username":"root"}`); r.StatusCode != 400 || !strings.Contains(r.body, "reserved") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}

// TestExtensions: extensions by the API: what is offered, faults, events; another database's are another's.
func TestExtensions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	b.behind(id, func(c *memplatform.Cluster) {
		c.Inside.Extensions = []logical.Extension{{Name: "citext", Version: "1.6", Offered: true, Comment: "data type"}, {Name: "hstore", Version: "1.8", Installed: "1.7", Schema: "public", Offered: true}}
	})
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d/extensions", id)
	expect := func(method, path, token, body string, status int, want string) {
		t.Helper()
		if r := b.send(method, one+path, token, body); r.StatusCode != status || !strings.Contains(r.body, want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", method, path, body, r.StatusCode, r.body, status, want)
		}
	}
	expect("GET", "", b.readOnly, "", 200, `{"name":"citext","version":"1.6","installed_version":null,"schema":null,"offered":true,"missing":null,"comment":"data type"}`)
	expect("GET", "?database=none", b.full, "", 400, `"field":"database","reason":"There is no database none"`)
	expect("POST", "", b.readOnly, `{"name":"citext"}`, 401, "not authorized")
	expect("POST", "", b.full, `{"schema":7}`, 400, `"field":"schema"`)
	expect("POST", "", b.full, `{"name":"citext"}`, 200, `"installed_version":"1.6","schema":"public"`)
	expect("POST", "", b.full, `{"name":"citext"}`, 400, `"field":"name"`)
	expect("PUT", "/hstore", b.full, `{}`, 200, `"installed_version":"1.8"`)
	expect("PUT", "/none", b.full, `{}`, 404, "Not found")
	expect("DELETE", "/citext?cascade=maybe", b.full, "", 400, `"field":"cascade"`)
	expect("DELETE", "/citext?cascade=true", b.full, "", 200, "{}")
	expect("DELETE", "/citext", b.full, "", 404, "Not found")
	one = "/v4/databases/postgresql/extensions"
	expect("GET", "?version=15", "", "", 200, `{"name":"pg_cron","engine":"postgresql/15","version":"1.4","offered":true,"missing":null,"parameter":"pg.cron.database_name","comment":""}`)
	expect("GET", "", "", "", 200, `"offered":false,"missing":"It is for superusers only"`)
	expect("GET", "?version=9", "", "", 400, `"field":"version"`)
	one = fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	expect("PUT", "", b.full, `{"auto_suspend":{"idle_minutes":30},"engine_config":{"pg":{"cron.database_name":"defaultdb","pgaudit.log":"ddl"}}}`, 400, "auto_suspend.idle_minutes")
	expect("PUT", "", b.full, `{"engine_config":{"pg":{"cron.database_name":"defaultdb","pgaudit.log":"ddl"}}}`, 400, "has no library pgaudit here")
	expect("PUT", "", b.full, `{"engine_config":{"pg":{"cron.database_name":"defaultdb"}}}`, 200, `"cron.database_name":"defaultdb"`)
	events := b.send("GET", "/v4/account/events", b.full, "").body
	for _, action := range []string{"database_extension_create", "database_extension_update", "database_extension_delete"} {
		if !strings.Contains(events, `"action":"`+action+`","status":"finished"`) {
			t.Errorf("no event %s: %s", action, events)
		}
	}
}
