package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLoadConfig(t *testing.T) {
	tests := []struct {
		name, file string
		env        map[string]string
		want       func(*Config)
		wantErrs   []string
	}{
		{name: "nothing set", want: func(*Config) {}},
		{
			name: "file over default, environment over file",
			file: "gateway:\n  ports: 30000-30010\n  hostnames: [db.example]\npool:\n  size: 2\n",
			env:  map[string]string{"STEWARD_POOL__SIZE": "7", "STEWARD_URL": "http://elsewhere"},
			want: func(c *Config) {
				c.Gateway.Ports, c.Gateway.Hostnames, c.Pool.Size = "30000-30010", []string{"db.example"}, 7
			},
		},
		{
			name:     "unknown keys are named",
			file:     "gateway:\n  prots: 1-2\nsmtp:\n  uri: smtp://x\n",
			wantErrs: []string{`"gateway.prots"`, `"smtp.uri"`},
		},
		{
			name:     "unknown keys are named beside bad values, whatever the case of their letters",
			file:     "Gateway:\n  ports: 9-5\naudit:\n  keep: often\n  until: now\n",
			env:      map[string]string{"STEWARD_POOL__SIZES": "7"},
			wantErrs: []string{`"Gateway"`, `"audit.until"`, `"pool.sizes"`, "audit.keep"},
		},
		{name: "the console behind TLS", file: "console:\n  url: https://steward.example.org/\n", want: func(c *Config) { c.Console.URL = "https://steward.example.org/" }},
		{name: "no console", file: "console:\n  enabled: false\n", want: func(c *Config) { c.Console.Enabled = false }},
		{name: "the console without TLS", file: "console:\n  url: http://steward.example.org\n", wantErrs: []string{"console.url: must begin with https://"}},
		{name: "the console at a path", file: "console:\n  url: https://example.org/steward\n", wantErrs: []string{"console.url", "without a path"}},
		{name: "days", file: "backups:\n  keep_after_delete: 30d\n", want: func(c *Config) { c.Backups.KeepAfterDelete = 720 * time.Hour }},
		{
			name: "the gateway's driver, and networks",
			file: "gateway:\n  driver: kernel\n  hold: 5s\nisolation:\n  network: 10.9.0.0/20\n  internet: true\n",
			want: func(c *Config) {
				c.Gateway.Driver, c.Gateway.Hold = GatewayKernel, 5*time.Second
				c.Isolation.Network, c.Isolation.Internet = "10.9.0.0/20", true
			},
		},
		{
			name:     "an unknown driver is named",
			file:     "gateway:\n  driver: nginx\n  hold: 1ms\nisolation:\n  network: 8.8.0.0/16\n",
			wantErrs: []string{`gateway.driver: "nginx" must be auto, kernel or haproxy`, "gateway.hold", "isolation.network"},
		},
		{
			name: "every bad value is named at once",
			file: "gateway:\n  primary_address: nowhere\n  ports: 9-5\nisolation:\n  cgroups: maybe\n  uid_base: 0\npool:\n  size: -1\ncatalog:\n  file: /no/such/file\n",
			wantErrs: []string{
				"gateway.primary_address", "gateway.ports", "isolation.cgroups", "isolation.uid_base", "pool.size", "catalog.file",
			},
		},
		{name: "auto_suspend", file: "auto_suspend: {idle_minutes: 30}\n", want: func(c *Config) { c.AutoSuspend.IdleMinutes = 30 }},
		{name: "a bad value about auto_suspend", file: "auto_suspend: {idle_minutes: 10081}\n", wantErrs: []string{"auto_suspend.idle_minutes"}},
		{
			name: "maintenance",
			file: "maintenance:\n  at_once: 5\n  notify: true\n",
			want: func(c *Config) { c.Maintenance = Maintenance{AtOnce: 5, Notify: true} },
		},
		{name: "maintenance notices from the environment", env: map[string]string{"STEWARD_MAINTENANCE__NOTIFY": "true"}, want: func(c *Config) { c.Maintenance.Notify = true }},
		{name: "bad values about maintenance", file: "maintenance:\n  at_once: 0\n  notify: often\n", wantErrs: []string{"maintenance.at_once", "maintenance.notify"}},
		{
			name: "backups",
			file: "backups:\n  url: s3://bucket\n  keep: 30\n  verify: false\n  continuous: true\n  keep_after_delete: 720h\nrestore:\n  credentials: reapply\n",
			want: func(c *Config) {
				c.Backups.URL, c.Backups.Keep, c.Backups.Verify, c.Backups.KeepAfterDelete = "s3://bucket", 30, false, 720*time.Hour
				c.Backups.Continuous = new(true)
				c.Restore.Credentials = "reapply"
			},
		},
		{
			name:     "bad values about backups",
			file:     "backups:\n  schedule: never\n  keep: 0\n  keep_after_delete: -1h\nrestore:\n  credentials: guess\n",
			wantErrs: []string{"backups.schedule", "backups.keep", "backups.keep_after_delete", "restore.credentials"},
		},
		{
			name: "where checks may go",
			file: "monitor:\n  forbidden_networks: [10.0.0.0/24, 'fd00:1::/32']\n  abuse_contact: https://example.com/abuse\n",
			env:  map[string]string{"STEWARD_MONITOR__FORBIDDEN_PORTS": "25,6667"},
			want: func(c *Config) {
				c.Monitor.ForbiddenNetworks, c.Monitor.ForbiddenPorts = []string{"10.0.0.0/24", "fd00:1::/32"}, []int{25, 6667}
				c.Monitor.AbuseContact = "https://example.com/abuse"
			},
		},
		{
			name:     "bad values about checks",
			file:     "monitor:\n  forbidden_networks: [10.0.0.1/24, '::ffff:10.0.0.0/104', inside]\n  forbidden_ports: [0]\n  ca_file: /no/such/file\n  abuse_contact: \"a\\r\\nb\"\n",
			wantErrs: []string{"10.0.0.1/24", "::ffff:10.0.0.0/104", "inside", "monitor.forbidden_ports", "monitor.ca_file", "monitor.abuse_contact"},
		},
		{
			name: "mail and channels",
			file: "smtp:\n  from: Steward <alerts@example.org>\n  hello: steward.example.org\nnotify:\n  channels:\n    chat: generic+https://example.org/hook\n",
			env:  map[string]string{"STEWARD_SMTP__URL": "smtp://u:hunter2@mail.example.org", "STEWARD_NOTIFY__CHANNELS__OPS": "ntfy://ntfy.sh/topic"},
			want: func(c *Config) {
				c.SMTP = SMTP{URL: "smtp://u:hunter2@mail.example.org", From: "Steward <alerts@example.org>", Hello: "steward.example.org"}
				c.Notify.Channels = map[string]string{"chat": "generic+https://example.org/hook", "ops": "ntfy://ntfy.sh/topic"}
			},
		},
		{
			name:     "bad values about mail and channels",
			file:     "smtp:\n  url: smtp://u:hunter2@mail.example.org?tls=none\n  ca_file: /no/such/file\nnotify:\n  channels:\n    email: ntfy://ntfy.sh/topic\n    ops: https://hunter2\n    A b: ntfy://ntfy.sh/topic\n",
			wantErrs: []string{"smtp.url: a password", "smtp.from: must", "smtp.ca_file: open", "notify.channels.email: a", "notify.channels.ops must", "notify.channels.A b: a"},
		},
		{name: "a sender without a server", file: "smtp:\n  from: alerts@example.org\n", wantErrs: []string{"smtp.url: is required"}},
		{
			name:     "one address for both roles",
			file:     "gateway:\n  primary_address: 10.0.0.1\n  secondary_address: 10.0.0.1\n",
			wantErrs: []string{"two different addresses"},
		},
		{
			name: "a database with the store's user", file: "isolation:\n  uid_base: 678900\n", wantErrs: []string{"store's user id"},
		},
		{name: "not YAML", file: "gateway: [", wantErrs: []string{"read configuration"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for key, value := range test.env {
				t.Setenv(key, value)
			}
			path := ""
			if test.file != "" {
				path = filepath.Join(t.TempDir(), "steward.yaml")
				if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Load(path)
			if len(test.wantErrs) > 0 {
				if err == nil {
					t.Fatal("accepted")
				}
				for _, want := range test.wantErrs {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("the error doesn't say %s:\n%v", want, err)
					}
				}
				if strings.Contains(err.Error(), "hunter2") {
					t.Errorf("the error shows a secret:\n%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := Default()
			test.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestTrustedProxies(t *testing.T) {
	t.Setenv("STEWARD_SERVER__TRUSTED_PROXIES", "10.0.0.0/8,192.0.2.1,2001:db8::/32")
	c, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	proxies, err := c.Server.Proxies()
	if err != nil || fmt.Sprint(proxies) != "[10.0.0.0/8 192.0.2.1/32 2001:db8::/32]" {
		t.Errorf("%v, %v", proxies, err)
	}
	for _, bad := range []string{"proxy", "10.0.0.1/8", "::ffff:10.0.0.0/104", "fe80::1%eth0"} {
		t.Setenv("STEWARD_SERVER__TRUSTED_PROXIES", bad)
		if _, err := Load(""); err == nil || !strings.Contains(err.Error(), "server.trusted_proxies") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestUserAgent(t *testing.T) {
	agent := Monitor{AbuseContact: "abuse@example.com"}.UserAgent()
	if !strings.HasPrefix(agent, "steward") || !strings.HasSuffix(agent, " (+abuse@example.com)") || strings.Count(agent, "(") != 1 {
		t.Errorf("%q", agent)
	}
}
