package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/testdir"
	"steward/test/harness"
)

// What the dashboards ask that people know best, with their variables filled in: PostgreSQL Database (9628) and MySQL
// Overview (7362), whose expressions the MySQL Exporter Quickstart (14057) shares; and the names that the dashboards ask besides which the exporters'
// own sources bring, PostgreSQL Overview (455) and MySQL Overview (11323).
var (
	postgresDashboard = []string{
		`pg_postmaster_start_time_seconds{instance="$instance"} * 1000`,
		`SUM(pg_stat_database_tup_fetched{datname=~"defaultdb", instance=~"$instance"})`,
		`SUM(pg_stat_database_tup_inserted{datname=~"defaultdb", instance=~"$instance"})`,
		`SUM(pg_stat_database_tup_updated{datname=~"defaultdb", instance=~"$instance"})`,
		`pg_settings_max_connections{instance="$instance"}`,
		`pg_settings_shared_buffers_bytes{instance="$instance"}`,
		`pg_settings_effective_cache_size_bytes{instance="$instance"}`,
		`pg_settings_maintenance_work_mem_bytes{instance="$instance"}`,
		`pg_settings_work_mem_bytes{instance="$instance"}`,
		`pg_settings_max_wal_size_bytes{instance="$instance"}`,
		`pg_settings_random_page_cost{instance="$instance"}`,
		`pg_settings_seq_page_cost`,
		`pg_settings_max_worker_processes{instance="$instance"}`,
		`pg_settings_max_parallel_workers{instance="$instance"}`,
		`avg(rate(process_cpu_seconds_total{instance="$instance"}[5m]) * 1000)`,
		`avg(rate(process_resident_memory_bytes{instance="$instance"}[5m]))`,
		`pg_static{instance="$instance", short_version!=""}`,
		`pg_stat_activity_count{datname=~"defaultdb", instance=~"$instance", state="idle"} != 0`,
		`irate(pg_stat_database_xact_commit{instance="$instance", datname=~"defaultdb"}[5m])`,
		`irate(pg_stat_database_xact_rollback{instance="$instance", datname=~"defaultdb"}[5m])`,
		`pg_stat_database_tup_fetched{datname=~"defaultdb", instance=~"$instance"} != 0`,
		`pg_stat_database_tup_returned{datname=~"defaultdb", instance=~"$instance"} != 0`,
		`pg_locks_count{datname=~"defaultdb", instance=~"$instance", mode=~"accesssharelock"}`,
		`pg_stat_database_blks_hit{instance="$instance", datname=~"defaultdb"} / (pg_stat_database_blks_read{instance="$instance", datname=~"defaultdb"} + pg_stat_database_blks_hit{instance="$instance", datname=~"defaultdb"})`,
		`irate(pg_stat_bgwriter_buffers_backend{instance="$instance"}[5m])`,
		`irate(pg_stat_bgwriter_buffers_alloc{instance="$instance"}[5m])`,
		`irate(pg_stat_bgwriter_buffers_backend_fsync{instance="$instance"}[5m])`,
		`irate(pg_stat_bgwriter_buffers_checkpoint{instance="$instance"}[5m])`,
		`irate(pg_stat_bgwriter_buffers_clean_total{instance="$instance"}[5m])`,
		`irate(pg_stat_database_conflicts{instance="$instance", datname=~"defaultdb"}[5m])`,
		`irate(pg_stat_database_deadlocks{instance="$instance", datname=~"defaultdb"}[5m])`,
		`irate(pg_stat_database_temp_bytes{instance="$instance", datname=~"defaultdb"}[5m])`,
		`irate(pg_stat_bgwriter_checkpoint_write_time{instance="$instance"}[5m])`,
		`irate(pg_stat_bgwriter_checkpoint_sync_time{instance="$instance"}[5m])`,
		`pg_database_size_bytes{instance="$instance", datname="defaultdb"}`,
		`pg_replication_lag{instance="$instance"}`,
		`irate(pg_stat_database_tup_deleted{instance="$instance", datname=~"defaultdb"}[5m])`,
		`irate(pg_stat_bgwriter_buffers_alloc_total{instance="$instance"}[5m])`,
		`irate(pg_stat_bgwriter_buffers_backend_total{instance="$instance"}[5m])`,
		`irate(pg_stat_bgwriter_buffers_backend_fsync_total{instance="$instance"}[5m])`,
		`irate(pg_stat_bgwriter_buffers_checkpoint_total{instance="$instance"}[5m])`,
		`irate(pg_stat_bgwriter_buffers_clean_total{instance="$instance"}[5m])`,
		`pg_stat_database_numbackends{instance="$instance", datname=~"defaultdb"} > 0`,
	}
	mysqlDashboard = []string{
		`mysql_global_status_uptime{instance="$host"}`,
		`rate(mysql_global_status_queries{instance="$host"}[5m]) or irate(mysql_global_status_queries{instance="$host"}[5m])`,
		`mysql_global_variables_innodb_buffer_pool_size{instance="$host"}`,
		`(mysql_global_variables_innodb_buffer_pool_size{instance="$host"} * 100) / on (instance) mysql_global_variables_max_connections`,
		`max(max_over_time(mysql_global_status_threads_connected{instance="$host"}[5m]))`,
		`mysql_global_status_max_used_connections{instance="$host"}`,
		`mysql_global_variables_max_connections{instance="$host"}`,
		`avg_over_time(mysql_global_status_threads_running{instance="$host"}[5m])`,
		`rate(mysql_global_status_questions{instance="$host"}[5m])`,
		`mysql_global_variables_thread_cache_size{instance="$host"}`,
		`mysql_global_status_threads_cached{instance="$host"}`,
		`rate(mysql_global_status_threads_created{instance="$host"}[5m])`,
		`rate(mysql_global_status_created_tmp_tables{instance="$host"}[5m])`,
		`rate(mysql_global_status_created_tmp_disk_tables{instance="$host"}[5m])`,
		`rate(mysql_global_status_created_tmp_files{instance="$host"}[5m])`,
		`rate(mysql_global_status_select_full_join{instance="$host"}[5m])`,
		`rate(mysql_global_status_select_scan{instance="$host"}[5m])`,
		`rate(mysql_global_status_sort_rows{instance="$host"}[5m])`,
		`rate(mysql_global_status_slow_queries{instance="$host"}[5m])`,
		`rate(mysql_global_status_aborted_connects{instance="$host"}[5m])`,
		`rate(mysql_global_status_table_locks_immediate{instance="$host"}[5m])`,
		`rate(mysql_global_status_bytes_received{instance="$host"}[5m])`,
		`rate(mysql_global_status_bytes_sent{instance="$host"}[5m])`,
		`mysql_global_status_innodb_page_size{instance="$host"} * on (instance) mysql_global_status_buffer_pool_pages{instance="$host", state="data"}`,
		`mysql_global_variables_innodb_log_buffer_size{instance="$host"}`,
		`mysql_global_variables_key_buffer_size{instance="$host"}`,
		`topk(5, rate(mysql_global_status_commands_total{instance="$host"}[5m]) > 0)`,
		`rate(mysql_global_status_handlers_total{instance="$host", handler!~"commit|rollback|savepoint.*|prepare"}[5m])`,
		`rate(mysql_global_status_handlers_total{instance="$host", handler=~"commit|rollback|savepoint.*|prepare"}[5m])`,
		`mysql_global_status_open_files{instance="$host"}`,
		`mysql_global_variables_open_files_limit{instance="$host"}`,
		`rate(mysql_global_status_opened_tables{instance="$host"}[5m])`,
		`mysql_global_status_open_tables{instance="$host"}`,
		`mysql_global_variables_table_open_cache{instance="$host"}`,
		`mysql_global_status_open_table_definitions{instance="$host"}`,
		`mysql_global_variables_table_definition_cache{instance="$host"}`,
		`max_over_time(mysql_global_status_threads_running{instance="$host"}[5m])`,
		`rate(mysql_global_status_aborted_clients{instance="$host"}[5m])`,
		`rate(mysql_global_status_sort_merge_passes{instance="$host"}[5m])`,
		`rate(mysql_global_status_table_locks_waited{instance="$host"}[5m])`,
		`rate(mysql_global_status_table_open_cache_hits{instance="$host"}[5m])`,
		`mysql_version_info{instance="$host"}`,
		`mysql_up{instance="$host"}`,
	}
)

// prometheus is a real one, from the distribution.
type prometheus struct {
	address string
	log     string
}

// startPrometheus starts one that discovers the databases that the token may see.
func startPrometheus(t *testing.T, s *harness.Server) *prometheus {
	t.Helper()
	dir := t.TempDir()
	p := &prometheus{address: fmt.Sprintf("127.0.0.1:%d", testdir.Ports(t, 1)), log: filepath.Join(dir, "log")}
	// The type is said, since for discovery versions before 2.43 have no default.
	authorization := fmt.Sprintf("authorization: {type: Bearer, credentials: %s}", s.Token)
	config := fmt.Sprintf(`global: {scrape_interval: 2s, scrape_timeout: 2s}
scrape_configs:
  - job_name: databases
    %[1]s
    http_sd_configs:
      - url: %[2]s/v4/monitor/services/dbaas/prometheus-sd
        refresh_interval: 5s
        %[1]s
`, authorization, s.URL)
	path := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("prometheus", "--config.file="+path, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (scripts/setup --build installs it)", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if text, err := os.ReadFile(p.log); err == nil && t.Failed() {
			t.Logf("%s", text)
		}
	})
	return p
}

// query is how many series an expression has, and its values.
func (p *prometheus) query(expression string) (values []string, err error) {
	resp, err := http.Get("http://" + p.address + "/api/v1/query?query=" + url.QueryEscape(expression))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	for _, r := range answer.Data.Result {
		values = append(values, fmt.Sprint(r.Value[1]))
	}
	return values, nil
}

// TestPrometheus has a real one scrape databases of each engine; what well-known dashboards ask finds data.
func TestPrometheus(t *testing.T) {
	s := harness.New(t, ofPostgreSQL, ofMariaDB)
	const each = 1
	var made []harness.Database
	for n := range each {
		made = append(made, s.Create(harness.Small(fmt.Sprintf("shop-%d", n), postgresql)), s.Create(harness.Small(fmt.Sprintf("desk-%d", n), mariadb)))
	}
	for i, d := range made {
		made[i] = s.AwaitStatus(d, "active")
	}
	for _, d := range made { // an idle session, and something that was read
		db := s.MustConnect(d, s.Credentials(d))
		if _, err := db.Exec("CREATE TABLE seen (v int PRIMARY KEY)"); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("INSERT INTO seen VALUES (1)"); err != nil {
			t.Fatal(err)
		}
	}
	p := startPrometheus(t, s)
	s.Eventually("Prometheus scrapes all databases", func() error {
		up, err := p.query(`count(up{job="databases"} == 1)`)
		if err == nil && (len(up) != 1 || up[0] != fmt.Sprint(2*each)) {
			err = fmt.Errorf("%v are up", up)
		}
		return err
	})
	if up, err := p.query("sum(pg_up) + sum(mysql_up)"); err != nil || len(up) != 1 || up[0] != fmt.Sprint(2*each) {
		t.Errorf("%v servers answer, %v", up, err)
	}
	for _, d := range made {
		expressions := postgresDashboard
		if d.Engine == "mysql" {
			expressions = mysqlDashboard
		}
		fill := strings.NewReplacer("$instance", d.Label, "$host", d.Label)
		for _, expression := range expressions {
			expression = fill.Replace(expression)
			s.Eventually(expression, func() error { // rates want a second scrape
				found, err := p.query(expression)
				if err == nil && len(found) == 0 {
					err = errors.New("no data")
				}
				return err
			})
		}
	}
	commandPlots(t, s, made[1])
	// A database that is deleted is a target no longer.
	if status, body := s.Call("DELETE", made[0].Path(), nil, nil); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	s.Eventually("a deleted database is no target", func() error {
		left, err := p.query(`count(up{job="databases"})`)
		if err == nil && (len(left) != 1 || left[0] != fmt.Sprint(2*each-1)) {
			err = fmt.Errorf("%v targets", left)
		}
		return err
	})
}

// commandPlots plots what was measured meanwhile.
func commandPlots(t *testing.T, s *harness.Server, d harness.Database) {
	s.Eventually("a plot of a database", func() error {
		out, err := s.Command("db", "metrics", d.Label, "--metric", "connections_max,queries", "--last", "10m")
		if err == nil && (!strings.Contains(out, "Most connections (connections_max): now ") || !strings.Contains(out, "Queries (queries): now ") || !strings.Contains(out, "┤")) {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
	var shown struct {
		Step    int
		Metrics []struct{ Name string }
	}
	out, err := s.Command("db", "metrics", d.Label, "--json", "--metric", "all")
	if err == nil {
		err = json.Unmarshal([]byte(out), &shown)
	}
	if err != nil || shown.Step != 10 || len(shown.Metrics) < 30 {
		t.Errorf("%+v, %v", shown, err)
	}
	if out, err := s.Command("db", "metrics", d.Label, "--metric", "nothing"); err == nil || !strings.Contains(out, "metric: nothing is no metric") {
		t.Errorf("%s, %v", out, err)
	}
}
