package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestGrantsKeepAllGlobals: what clients grant is shown as it was granted, what
// isn't named stays, and nothing but add_databases lets anybody do more.
func TestGrantsKeepAllGlobals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const path = "/v4/account/users/limited/grants"
	globals := func(r reply) map[string]any {
		t.Helper()
		var v struct{ Global map[string]any }
		if err := json.Unmarshal([]byte(r.body), &v); err != nil || r.StatusCode != 200 {
			t.Fatalf("%d %s, %v", r.StatusCode, r.body, err)
		}
		return v.Global
	}
	flags := []string{
		"add_buckets", "add_databases", "add_domains", "add_firewalls", "add_images", "add_kubernetes", "add_linodes", "add_longview", "add_nodebalancers",
		"add_stackscripts", "add_volumes", "add_vpcs", "cancel_account", "child_account_access", "longview_subscription",
	}
	want := map[string]any{"account_access": nil}
	for _, flag := range flags {
		want[flag] = false
	}
	check := func(when string) {
		t.Helper()
		for _, r := range []reply{b.send("GET", path, b.full, ""), b.send("GET", "/v4/profile/grants", b.restricted, "")} {
			got := globals(r)
			for flag, value := range want {
				if v, there := got[flag]; !there || v != value {
					t.Errorf("%s: %s is %v, want %v", when, flag, v, value)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%s: %v", when, got)
			}
		}
	}
	check("at first")
	put := func(member string, value any) {
		t.Helper()
		text, err := json.Marshal(map[string]any{"global": map[string]any{member: value}})
		if err != nil {
			t.Fatal(err)
		}
		want[member] = value
		if got := globals(b.send("PUT", path, b.full, string(text))); got[member] != value {
			t.Errorf("answered %v", got)
		}
	}
	for _, flag := range flags {
		put(flag, true) // one after the other: the rest stays
	}
	put("account_access", "read_write")
	check("all granted")
	for _, request := range []string{"GET /v4/account/users", "GET /v4/managed/contacts", "PUT " + path} {
		method, of, _ := strings.Cut(request, " ")
		if r := b.send(method, of, b.restricted, ""); r.StatusCode != 403 {
			t.Errorf("%s with account_access: %d", request, r.StatusCode)
		}
	}
	put("account_access", nil)
	put("add_domains", false)
	check("some taken away")

	all := b.send("GET", path, b.full, "")
	if r := b.send("PUT", path, b.full, all.body); r.StatusCode != 200 || r.body != all.body {
		t.Errorf("sent back as they are: %d %s", r.StatusCode, r.body)
	}
	r := b.send("PUT", path, b.full, `{"global":{"account_access":"all","add_images":1},"linode":[{"id":7,"permissions":"read_only"}],"vpc":[]}`)
	want400 := []string{"global.account_access: Must be one of read_only, read_write", "global.add_images: Must be true or false", "linode.id: 7 is not valid"}
	if got := r.faults(); r.StatusCode != 400 || !slices.Equal(got, want400) {
		t.Errorf("%d %q", r.StatusCode, got)
	}
	check("refused")
}
