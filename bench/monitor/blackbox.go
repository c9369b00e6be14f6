package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"steward/test/harness"
)

// blackboxChecker is Debian's blackbox_exporter, scraped by its Prometheus.
type blackboxChecker struct{ pids []int }

const blackboxModule = `modules:
  http_2xx:
    prober: http
    timeout: 10s
    http: {preferred_ip_protocol: ip4, follow_redirects: true}
`

func startBlackbox(o *harness.Outside, s settings, t *targets) checker {
	dir := o.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			o.Fatal(err)
		}
		return path
	}
	exporter, prometheus := freeAddress(o), freeAddress(o)
	var list strings.Builder
	for i := range s.services {
		fmt.Fprintf(&list, "        - %s\n", t.address(i))
	}
	config := fmt.Sprintf(`global: {scrape_interval: %s, scrape_timeout: %s}
scrape_configs:
  - job_name: services
    metrics_path: /probe
    params: {module: [http_2xx]}
    static_configs:
      - targets:
%s
    relabel_configs:
      - {source_labels: [__address__], target_label: __param_target}
      - {source_labels: [__param_target], target_label: instance}
      - {target_label: __address__, replacement: %q}
`, s.interval, min(s.interval, 10e9), list.String(), exporter)
	c := &blackboxChecker{}
	c.run(o, "prometheus-blackbox-exporter", "--config.file="+write("blackbox.yml", blackboxModule), "--web.listen-address="+exporter)
	c.run(o, "prometheus", "--config.file="+write("prometheus.yml", config), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+prometheus)
	return c
}

func (c *blackboxChecker) run(o *harness.Outside, name string, args ...string) {
	cmd := exec.CommandContext(context.Background(), name, args...)
	if err := cmd.Start(); err != nil {
		o.Fatalf("%v (scripts/bench-peers installs it)", err)
	}
	o.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	c.pids = append(c.pids, cmd.Process.Pid)
}

func (c *blackboxChecker) processes() (own, store []int)  { return c.pids, nil }
func (*blackboxChecker) mails() int                       { return 0 }
func (*blackboxChecker) suffer(ctx context.Context) error { <-ctx.Done(); return nil }

func (*blackboxChecker) known(context.Context, *targets) (known, error) { return known{}, nil }
