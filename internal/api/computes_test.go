package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/monitor"
)

func (b *bench) machine() monitor.Machine { return b.machineOf("web") }

func (b *bench) machineOf(label string) monitor.Machine {
	b.t.Helper()
	c, err := b.store.CreateMachine(b.t.Context(), monitor.Machine{Account: b.account, Label: label, Group: "shop", Source: "http://192.0.2.1:9100/metrics"})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func TestComputeSettings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.machine()
	const untouched = `{"access":true,"user":null,"ip":"any","port":null}`
	for _, test := range []struct{ name, body, want string }{
		{"nothing", ``, untouched},
		{"one of them", `{"ssh":{"access":false}}`, `{"access":false,"user":null,"ip":"any","port":null}`},
		{"the others", `{"ssh":{"user":"ops","ip":"2001:db8::1","port":2222}}`, `{"access":false,"user":"ops","ip":"2001:db8::1","port":2222}`},
		{"what is left out stays", `{"ssh":{"access":true},"label":"new","group":"new"}`, `{"access":true,"user":"ops","ip":"2001:db8::1","port":2222}`},
		{"null is the default", `{"ssh":{"user":null,"ip":"any","port":null}}`, untouched},
	} {
		for _, path := range []string{"compute-settings", "linode-settings"} {
			one := fmt.Sprintf("/v4/managed/%s/%d", path, c.ID)
			want := fmt.Sprintf(`{"id":%d,"label":"web","group":"shop","ssh":%s}`, c.ID, test.want)
			if r := b.send("PUT", one, b.full, test.body); r.StatusCode != 200 || strings.TrimSpace(r.body) != want {
				t.Errorf("%s: %d %s, want %s", test.name, r.StatusCode, r.body, want)
			}
			if r := b.send("GET", one, b.readOnly, ""); r.StatusCode != 200 || strings.TrimSpace(r.body) != want {
				t.Errorf("%s, read again: %d %s", test.name, r.StatusCode, r.body)
			}
			if r := b.send("GET", "/v4/managed/"+path, b.readOnly, ""); r.StatusCode != 200 || !strings.Contains(r.body, want) || !strings.Contains(r.body, `"results":1`) {
				t.Errorf("%s, in the list: %d %s", test.name, r.StatusCode, r.body)
			}
		}
	}
	for _, test := range []struct {
		name, body string
		want       []string
	}{
		{"all at once", `{"ssh":{"access":"yes","user":"","ip":"here","port":0}}`, []string{
			"ssh.access: Must be true or false", "ssh.ip: Must be an IPv4 or IPv6 address, or any", "ssh.port: Must be 1-65535", "ssh.user: Length must be 1-32 characters",
		}},
		{"null where none is allowed", `{"ssh":{"access":null,"ip":null}}`, []string{"ssh.access: Must not be null", "ssh.ip: Must not be null"}},
		{"another type", `{"ssh":"no"}`, []string{"ssh: Must be an object"}},
		{"an option", `{"ssh":{"user":"-oProxyCommand=x"}}`, []string{"ssh.user: May only contain letters, digits, _, -, . and @, and must start with a letter, a digit or _"}},
	} {
		r := b.send("PUT", fmt.Sprintf("/v4/managed/compute-settings/%d", c.ID), b.full, test.body)
		if diff := cmp.Diff(sortedTexts(test.want), sortedTexts(r.faults())); r.StatusCode != 400 || diff != "" {
			t.Errorf("%s: %d -want +got\n%s", test.name, r.StatusCode, diff)
		}
	}
	if r := b.send("PUT", fmt.Sprintf("/v4/managed/compute-settings/%d", c.ID), b.readOnly, "{}"); r.StatusCode != 401 {
		t.Errorf("changed with a token that may only read: %d", r.StatusCode)
	}
	if r := b.send("GET", "/v4/managed/compute-settings", b.restricted, ""); r.StatusCode != 403 {
		t.Errorf("a restricted user: %d %s", r.StatusCode, r.body)
	}
}

func sortedTexts(texts []string) []string { return slices.Sorted(slices.Values(texts)) }
