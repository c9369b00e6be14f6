package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"steward/internal/platform/memplatform"
)

// TestConnectionPools: pools in Linode's shape, all that is wrong at once, and what stands in their way.
func TestConnectionPools(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	expect := b.expecting(t, one)
	done := func() {
		t.Helper()
		if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = 'active', host_primary = '127.0.0.1', host_secondary = '127.0.0.2' WHERE id = $1", id); err != nil {
			t.Fatal(err)
		}
	}
	const good = `{"label":"app","database":"defaultdb","mode":"transaction","size":10}`
	expect("GET", "/connection-pools", b.readOnly, "", 200, `"data":[]`)
	expect("POST", "/connection-pools", b.full, good, 400, "provisioning")
	b.behind(id, func(*memplatform.Cluster) {})
	done()
	expect("POST", "/connection-pools", b.readOnly, good, 401, "not authorized")
	expect("POST", "/connection-pools", b.full, `{}`, 400, `"field":"label"`, `"field":"database"`, `"field":"mode"`, `"field":"size"`)
	expect("POST", "/connection-pools", b.full, `{"label":"../a b","database":"a\nb","mode":"fast","size":0,"username":"a\"b"}`, 400,
		`"field":"label"`, `"field":"database"`, `"field":"mode"`, `"field":"size"`, `"field":"username","reason":"Must not contain control characters`)
	expect("POST", "/connection-pools", b.full, `{"label":"PgBouncer","database":"defaultdb","mode":"session","size":1}`, 400, `"field":"label","reason":"This name is reserved"`)
	expect("POST", "/connection-pools", b.full, `{"label":"app","database":"none","mode":"session","size":1}`, 400, `"field":"database","reason":"There is no database none"`)
	expect("POST", "/connection-pools", b.full, `{"label":"app","database":"defaultdb","mode":"session","size":95}`, 400, `"field":"size"`, "may add up to 94, and would to 95")
	if body := expect("GET", "", b.full, "", 200, `"status":"active"`); strings.Contains(body, "connection-pool") {
		t.Errorf("an endpoint without pools: %s", body)
	}

	expect("POST", "/connection-pools", b.full, good, 200, `{"label":"app","database":"defaultdb","mode":"transaction","size":10,"username":null,"prepared_statements":false}`)
	var port int
	if err := b.store.Pool().QueryRow(t.Context(), "SELECT pool_port FROM clusters WHERE id = $1", id).Scan(&port); err != nil {
		t.Fatal(err)
	}
	expect("POST", "/connection-pools", b.full, `{"label":"two","database":"defaultdb","mode":"session","size":1}`, 400, "updating")
	done()
	expect("GET", "", b.full, "", 200, fmt.Sprintf(`{"role":"primary-connection-pool","address":"127.0.0.1","port":%d,"public_access":true}`, port))
	expect("POST", "/connection-pools", b.full, `{"label":"APP","database":"defaultdb","mode":"session","size":1}`, 400, `"field":"label"`, "taken")
	expect("POST", "/connection-pools", b.full, `{"label":"two","database":"defaultdb","mode":"session","size":85,"username":null}`, 400, "may add up to 94, and would to 95")
	expect("POST", "/connection-pools", b.full, `{"label":"two","database":"defaultdb","mode":"session","size":4,"username":null}`, 200, `"prepared_statements":true`)
	done()
	expect("GET", "/connection-pools", b.readOnly, "", 200, `"results":2`, `"label":"two"`)
	expect("GET", "/connection-pools/two", b.readOnly, "", 200, `"size":4`)
	expect("GET", "/connection-pools/three", b.full, "", 404, "Not found")

	expect("PUT", "/connection-pools/three", b.full, `{"size":1}`, 404, "Not found")
	expect("PUT", "/connection-pools/two", b.full, `{"label":"x","size":0,"mode":"","username":""}`, 400, `"field":"label"`, `"field":"size"`, `"field":"mode"`, `"field":"username"`)
	expect("PUT", "/connection-pools/two", b.full, `{"username":"nobody","database":"none"}`, 400, `"field":"username","reason":"There is no user nobody"`, `"field":"database"`)
	expect("PUT", "/connection-pools/two", b.full, `{"size":85}`, 400, "may add up to 94")
	expect("PUT", "/connection-pools/two", b.full, `{"label":"two","size":84,"mode":"transaction"}`, 200, `"mode":"transaction","size":84,"username":null,"prepared_statements":false`)
	done()
	expect("PUT", "", b.full, `{"auto_suspend":{"idle_minutes":10}}`, 400, `"field":"auto_suspend.idle_minutes"`, "delete them first")

	expect("GET", "/connection-pools", b.restricted, "", 404, "Not found")
	b.grant(id, "read_only")
	expect("GET", "/connection-pools", b.restricted, "", 200, `"label":"app"`)
	expect("POST", "/connection-pools", b.restricted, good, 403, "Unauthorized")
	expect("PUT", "/connection-pools/app", b.restricted, `{"size":1}`, 403, "Unauthorized")
	expect("DELETE", "/connection-pools/app", b.restricted, "", 403, "Unauthorized")

	expect("DELETE", "/connection-pools/three", b.full, "", 404, "Not found")
	expect("DELETE", "/connection-pools/two", b.full, "", 200, "{}")
	done()
	expect("DELETE", "/connection-pools/app", b.full, "", 200, "{}")
	done()
	if body := expect("GET", "", b.full, "", 200, `"status":"active"`); strings.Contains(body, "connection-pool") {
		t.Errorf("an endpoint after the last pool: %s", body)
	}
	events := b.send("GET", "/v4/account/events", b.full, "").body
	for _, action := range []string{"database_pool_create", "database_pool_update", "database_pool_delete"} {
		if !strings.Contains(events, `"action":"`+action+`"`) {
			t.Errorf("no event %s: %s", action, events)
		}
	}
	expect("PUT", "", b.full, `{"auto_suspend":{"idle_minutes":10}}`, 200, `"idle_minutes":10`)
	done()
	expect("POST", "/connection-pools", b.full, good, 400, "falls asleep can't have connection pools")
	// The port is the pools' for good, and nobody else's.
	for range 3 {
		var other struct{ Port int }
		b.decode(b.send("POST", "/v4/databases/postgresql/instances", b.full, fmt.Sprintf(`{"label":"other-%d","engine":"postgresql/15","region":"local","type":"g6-nanode-1"}`, port)), &other)
		if other.Port == port {
			t.Errorf("port %d is given out twice", port)
		}
		port++
	}
}

// TestNoPooler: where PgBouncer is missing, that is said, and what is there is shown.
func TestNoPooler(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	b.behind(id, func(*memplatform.Cluster) {})
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = 'active' WHERE id = $1", id); err != nil {
		t.Fatal(err)
	}
	b.api.Control.Pools.Deps.Pools.Missing = errors.New("not installed")
	path := fmt.Sprintf("/v4/databases/postgresql/instances/%d/connection-pools", id)
	if r := b.send("POST", path, b.full, `{"label":"app","database":"defaultdb","mode":"transaction","size":1}`); r.StatusCode != 400 || !strings.Contains(r.body, "PgBouncer isn't installed on this server") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", "/v4/regions", b.full, ""); strings.Contains(r.body, "Database Connection Pools") {
		t.Errorf("regions: %s", r.body)
	}
	if r := b.send("GET", path, b.full, ""); r.StatusCode != 200 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}
