package api_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"steward/internal/engine"
	"steward/internal/platform/memplatform"
)

// someSources lead to a server that says its version, but for two hosts.
type someSources struct{}

func (someSources) Barrier(host string, _ int) string {
	if host == "10.0.0.1" {
		return "The source's address may not be reached."
	}
	return ""
}

func (someSources) Dial(_ context.Context, host string, _ int) (net.Conn, error) {
	switch host {
	case "nowhere.example.org":
		return nil, &engine.SourceError{Reason: "The source's name leads to no address."}
	case "broken.example.org":
		return nil, errors.New("no route")
	}
	here, there := net.Pipe()
	version := "15.3\n"
	if host == "old.example.org" {
		version = "old\n"
	}
	go func() { _, _ = there.Write([]byte(version)); there.Close() }()
	return here, nil
}

// TestMigrations: what is asked for, all that is wrong at once, one at a time, and no password in any answer.
func TestMigrations(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d/migrations", id)
	send := b.expecting(t, one)
	expect := func(method, path, token, body string, status int, want ...string) string {
		t.Helper()
		answer := send(method, path, token, body, status, want...)
		if strings.Contains(answer, "hunter22") {
			t.Errorf("%s %s answers the password: %s", method, path, answer)
		}
		return answer
	}
	request := func(host, as string) string {
		return fmt.Sprintf(`{"source":{"host":%q,"port":5432,"username":"mover","password":"hunter22"},"databases":[{"name":"shop","as":%q}]}`, host, as)
	}
	expect("POST", "", b.full, request("db.example.org", "shop"), 400, "provisioning")
	b.behind(id, func(c *memplatform.Cluster) {})
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = 'active', host_primary = '127.0.0.1', host_secondary = '127.0.0.2' WHERE id = $1", id); err != nil {
		t.Fatal(err)
	}
	expect("POST", "", b.readOnly, request("db.example.org", "shop"), 401, "not authorized")
	for _, path := range []string{"", "/check"} {
		expect("POST", path, b.full, `{}`, 400, `"field":"source"`, `"field":"databases"`)
		expect("POST", path, b.full, `{"source":{"host":"a b","port":0,"username":"","password":"","tls":"maybe","ca":"x"},"databases":[{"name":"a","as":"postgres"},{"name":"b","as":"x"},{"name":"c","as":"x"}],"mode":"copy"}`, 400,
			`"field":"source.port"`, `"field":"source.username"`, `"field":"source.password"`, `"field":"source.tls"`, `"field":"mode"`, `"field":"databases.as"`)
		expect("POST", path, b.full, request("10.0.0.1", "shop"), 400, `"field":"source.host","reason":"The source's address may not be reached.`)
		expect("POST", path, b.full, strings.Replace(request("db.example.org", "shop"), `"hunter22"`, `"hunter22","ca":"none"`, 1), 400, `"field":"source.ca"`)
	}
	expect("POST", "/check", b.full, request("db.example.org", "shop"), 200, `"possible":true`, `"version":"15.3"`)
	expect("POST", "/check", b.full, request("db.example.org", "defaultdb"), 200, `"possible":false`, "already")
	expect("POST", "/check", b.full, request("old.example.org", "shop"), 200, `"possible":false`, "too old")
	expect("POST", "/check", b.full, request("nowhere.example.org", "shop"), 400, `"field":"source"`, "leads to no address")
	expect("GET", "", b.readOnly, "", 200, `"results":0`) // nothing is kept of checks

	expect("POST", "", b.full, request("db.example.org", "shop"), 200, `"status":"pending"`, `"host":"db.example.org"`, `"tls":"verify"`)
	expect("POST", "", b.full, request("db.example.org", "shop2"), 400, "Another migration")
	expect("GET", "", b.readOnly, "", 200, `"results":1`, `"as":"shop"`)
	var sealed []byte
	if err := b.store.Pool().QueryRow(t.Context(), "SELECT sealed_password FROM migrations").Scan(&sealed); err != nil || strings.Contains(string(sealed), "hunter22") {
		t.Errorf("the password is kept as %q, %v", sealed, err)
	}
	var which int
	if err := b.store.Pool().QueryRow(t.Context(), "SELECT id FROM migrations").Scan(&which); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/%d", which)
	expect("GET", path, b.readOnly, "", 200, `"status":"pending"`)
	expect("DELETE", path, b.readOnly, "", 401, "not authorized")
	expect("DELETE", path, b.full, "", 200, `{}`)
	expect("GET", path, b.full, "", 200, `"status":"canceling"`)
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE migrations SET status = 'canceled', finished = now(), sealed_password = NULL"); err != nil {
		t.Fatal(err)
	}
	expect("DELETE", path, b.full, "", 200, `{}`)
	expect("GET", path, b.full, "", 404, "Not found")
	expect("POST", path+"/cutover", b.full, "", 404, "Not found")
	b.cutOver(t, expect, strings.Replace(request("db.example.org", "shop"), `{`, `{"mode":"replicate",`, 1))
	expect("DELETE", path, b.full, "", 404, "Not found")
}

// cutOver: a cutover can be asked for while a source is followed, again afterwards, and at no other time.
func (b *bench) cutOver(t *testing.T, expect func(method, path, token, body string, status int, want ...string) string, request string) {
	t.Helper()
	set := func(change string) {
		t.Helper()
		if _, err := b.store.Pool().Exec(t.Context(), "UPDATE migrations SET "+change); err != nil {
			t.Fatal(err)
		}
	}
	expect("POST", "", b.full, request, 200, `"mode":"replicate"`, `"lag_bytes":null`, `"cutover":null`)
	var which int
	if err := b.store.Pool().QueryRow(t.Context(), "SELECT id FROM migrations").Scan(&which); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/%d", which)
	expect("POST", path+"/cutover", b.full, "", 400, "only one in the phase following")
	set(`status = 'running', progress = '{"phase": "following", "lag": {"bytes": 5, "seconds": 2}}'`)
	expect("GET", path, b.readOnly, "", 200, `"lag_bytes":5`, `"lag_seconds":2`, `"phase":"following"`)
	expect("POST", path+"/cutover", b.readOnly, "", 401, "not authorized")
	expect("POST", path+"/cutover", b.full, "", 200, `"cutover":"2`)
	set(`progress = '{"phase": "cutting_over", "lag": {"bytes": 5, "seconds": 20}, "waiting": "The source has sent nothing for 20 s."}'`)
	expect("GET", path, b.readOnly, "", 200, `"problem":"The source has sent nothing for 20 s."`)
	set(`progress = '{"phase": "validating"}'`)
	expect("POST", path+"/cutover", b.full, "", 200, `"cutover":"2`, `"lag_bytes":null`)
	expect("DELETE", path, b.full, "", 400, "was cut over")
	set("cutover = NULL, mode = 'dump'")
	expect("POST", path+"/cutover", b.full, "", 400, "has no cutover")
	set("status = 'finished', finished = now(), sealed_password = NULL")
	expect("DELETE", path, b.full, "", 200, `{}`)
}
