package parameter_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/parameter"
)

var (
	postgresql = parameter.Server{Family: "postgresql", Series: "15", MemoryMB: 1024, DiskMB: 25600, VCPUs: 1, Type: "small"}
	mariadb    = parameter.Server{Family: "mysql", Series: "10.11", MemoryMB: 1024, DiskMB: 25600, VCPUs: 1, Type: "small"}
	newMariaDB = parameter.Server{Family: "mysql", Series: "11.8", MemoryMB: 1024, DiskMB: 25600, VCPUs: 1, Type: "small"}
	mysql      = parameter.Server{Family: "mysql", Series: "9.7", MemoryMB: 1024, DiskMB: 25600, VCPUs: 1, Type: "small"}
)

func words(faults fault.Faults) []string {
	var all []string
	for _, f := range faults {
		all = append(all, strings.TrimPrefix(f.Field, "engine_config.")+": "+f.Reason)
	}
	slices.Sort(all)
	return all
}

// object is what a request has.
func object(t *testing.T, text string) map[string]any {
	t.Helper()
	var asked map[string]any
	if err := json.Unmarshal([]byte(text), &asked); err != nil {
		t.Fatal(err)
	}
	return asked
}

func unlogged(s parameter.Server) parameter.Server {
	s.Unlogged = "No"
	return s
}

func loading(s parameter.Server) parameter.Server {
	s.Libraries = parameter.Libraries()
	return s
}

func TestSlowThreshold(t *testing.T) {
	for _, c := range []struct {
		family string
		config parameter.Config
		want   time.Duration
		on     bool
	}{
		{"postgresql", nil, 0, false},
		{"postgresql", parameter.Config{"pg.log_min_duration_statement": int64(-1)}, 0, false},
		{"postgresql", parameter.Config{"pg.log_min_duration_statement": int64(0)}, 0, true},
		{"postgresql", parameter.Config{"pg.log_min_duration_statement": int64(250)}, 250 * time.Millisecond, true},
		{"mysql", parameter.Config{"mysql.long_query_time": 0.5}, 0, false},
		{"mysql", parameter.Config{"mysql.slow_query_log": true}, 10 * time.Second, true},
		{"mysql", parameter.Config{"mysql.slow_query_log": true, "mysql.long_query_time": 0.5}, 500 * time.Millisecond, true},
		{"mysql", parameter.Config{"mysql.slow_query_log": true, "mysql.long_query_time": int64(2)}, 2 * time.Second, true},
	} {
		got, on := c.config.SlowThreshold(c.family)
		if on != c.on || on && got != c.want {
			t.Errorf("%v: %v, %v", c.config, got, on)
		}
	}
}

func TestValuesAreJudged(t *testing.T) {
	for _, c := range []struct {
		name   string
		server parameter.Server
		asked  string
		want   []string
	}{
		{"all is well", postgresql, `{"pg":{"jit":false,"autovacuum_vacuum_scale_factor":0.25,"timezone":"UTC","bgwriter_flush_after":0},"work_mem":14}`, nil},
		{"a whole number for any", postgresql, `{"shared_buffers_percentage":30,"pg":{"bgwriter_lru_multiplier":3.0}}`, nil},
		{"no whole number", postgresql, `{"work_mem":4.5}`, []string{"work_mem: Must be a whole number"}},
		{"no number", postgresql, `{"work_mem":"4","shared_buffers_percentage":true}`, []string{"shared_buffers_percentage: Must be a number", "work_mem: Must be a whole number"}},
		{"out of bounds", postgresql, `{"pg":{"wal_writer_delay":201,"autovacuum_analyze_scale_factor":1.01}}`, []string{
			"pg.autovacuum_analyze_scale_factor: Must be from 0 to 1", "pg.wal_writer_delay: Must be from 10 to 200",
		}},
		{"too much for the plan", postgresql, `{"pg":{"max_parallel_workers":10,"temp_file_limit":9999999}}`, []string{
			"pg.max_parallel_workers: Must be at most 9 with the type small", "pg.temp_file_limit: Must be at most 2621440 with the type small",
		}},
		{"no multiple", postgresql, `{"pg":{"bgwriter_flush_after":9}}`, []string{"pg.bgwriter_flush_after: Must be a multiple of 8"}},
		{"no such zone", postgresql, `{"pg":{"timezone":"Mars/Olympus"}}`, []string{"pg.timezone: Must be one of those that GET /v4/databases/postgresql/config lists"}},
		{"none of ours", postgresql, `{"mysql":{"jit":true},"nonsense":{},"pg":{"fsync":false}}`, []string{
			"mysql: There is no such parameter; GET /v4/databases/postgresql/config lists those there are",
			"nonsense: There is no such parameter; GET /v4/databases/postgresql/config lists those there are",
			"pg.fsync: There is no such parameter; GET /v4/databases/postgresql/config lists those there are",
		}},
		{"what has to be loaded", loading(postgresql), `{"pg":{"cron":{}}}`, []string{"pg.cron: There is no such parameter; GET /v4/databases/postgresql/config lists those there are"}},
		{"libraries that are there", loading(postgresql), `{"pg":{"cron.database_name":"shop","pgaudit.log":"ddl,-misc_set","pg_partman_bgw.dbname":"shop","pg_partman_bgw.interval":60}}`, nil},
		{"libraries that aren't", postgresql, `{"pg":{"cron.database_name":"shop","pgaudit.log":"all"}}`, []string{
			"pg.cron.database_name: PostgreSQL 15 has no library pg_cron here", "pg.pgaudit.log: PostgreSQL 15 has no library pgaudit here",
		}},
		{"a worker that isn't loaded", loading(postgresql), `{"pg":{"pg_partman_bgw.interval":60}}`, []string{
			"pg.pg_partman_bgw.interval: Needs engine_config.pg.pg_partman_bgw.dbname, which has pg_partman_bgw loaded",
		}},
		{"databases that others are made of", loading(postgresql), `{"pg":{"cron.database_name":"template1","pg_partman_bgw.dbname":"a,b"}}`, []string{
			"pg.cron.database_name: Must be a logical database of yours", "pg.pg_partman_bgw.dbname: Must be the name of a logical database, without commas and quotes",
		}},
		{"no such class", loading(postgresql), `{"pg":{"pgaudit.log":"ddl, write"}}`, []string{
			"pg.pgaudit.log: Must be classes separated by commas, of read, write, function, role, ddl, misc, misc_set, all, none, each with or without a minus",
		}},
		{"an audit logs statements", unlogged(loading(postgresql)), `{"pg":{"pgaudit.log":"ddl"}}`, []string{"pg.pgaudit.log: No"}},
		{"an audit of none", unlogged(loading(postgresql)), `{"pg":{"pgaudit.log":"none"}}`, nil},
		{"not to be chosen", postgresql, `{"pg_stat_monitor_enable":true,"pglookout":{"max_failover_replication_time_lag":60}}`, []string{
			"pg_stat_monitor_enable: Can't be chosen: the extension isn't loaded",
			"pglookout.max_failover_replication_time_lag: Can't be chosen: the replica that has most of the data takes over, at once",
		}},
		{"what later releases of a series raise", mariadb, `{"mysql":{"innodb_ft_min_token_size":0}}`, []string{"mysql.innodb_ft_min_token_size: Must be from 1 to 16"}},
		{"MariaDB's", mariadb, `{"mysql":{"innodb_change_buffer_max_size":30,"sql_mode":"NO_AUTO_CREATE_USER,ANSI"},"binlog_retention_period":600}`, nil},
		{"newer MariaDB's", newMariaDB, `{"mysql":{"innodb_change_buffer_max_size":30}}`, []string{
			"mysql.innodb_change_buffer_max_size: MariaDB 11.8 doesn't have this parameter: it is for MariaDB up to 10 and MySQL",
		}},
		{"MySQL's on MariaDB", mariadb, `{"mysql":{"sql_require_primary_key":true}}`, []string{
			"mysql.sql_require_primary_key: MariaDB 10.11 doesn't have this parameter: it is for MySQL",
		}},
		{"statements aren't logged where nobody could read them", unlogged(postgresql), `{"pg":{"log_min_duration_statement":0}}`, []string{"pg.log_min_duration_statement: No"}},
		{"statements aren't logged in the clear", unlogged(mariadb), `{"mysql":{"slow_query_log":true,"long_query_time":0.5}}`, []string{"mysql.slow_query_log: No"}},
		{"not to log them can be asked for anywhere", unlogged(postgresql), `{"pg":{"log_min_duration_statement":-1}}`, nil},
		{"nor with MariaDB", unlogged(mariadb), `{"mysql":{"slow_query_log":false}}`, nil},
		{"MySQL's", mysql, `{"mysql":{"sql_require_primary_key":true,"innodb_change_buffer_max_size":30,"internal_tmp_mem_storage_engine":"MEMORY","sql_mode":""}}`, nil},
		{"no such mode", mysql, `{"mysql":{"sql_mode":"ANSI,NO_AUTO_CREATE_USER"}}`, []string{
			"mysql.sql_mode: MySQL 9.7 doesn't take NO_AUTO_CREATE_USER; it takes ALLOW_INVALID_DATES, ANSI, ANSI_QUOTES, ERROR_FOR_DIVISION_BY_ZERO, " +
				"HIGH_NOT_PRECEDENCE, IGNORE_SPACE, NO_AUTO_VALUE_ON_ZERO, NO_BACKSLASH_ESCAPES, NO_DIR_IN_CREATE, NO_ENGINE_SUBSTITUTION, NO_UNSIGNED_SUBTRACTION, " +
				"NO_ZERO_DATE, NO_ZERO_IN_DATE, ONLY_FULL_GROUP_BY, PAD_CHAR_TO_FULL_LENGTH, PIPES_AS_CONCAT, REAL_AS_FLOAT, STRICT_ALL_TABLES, STRICT_TRANS_TABLES, " +
				"TIME_TRUNCATE_FRACTIONAL, TRADITIONAL",
		}},
		{"what would end the line", mysql, `{"mysql":{"sql_mode":"ANSI\nload_file=x","default_time_zone":"+25:00"}}`, []string{
			"mysql.default_time_zone: Must match ^(SYSTEM|[+-](0[0-9]|1[0-2]):[0-5][0-9]|\\+13:00)$", "mysql.sql_mode: Must match ^([A-Z_]+(,[A-Z_]+)*)?$",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, faults := parameter.Config(nil).Merge(object(t, c.asked), c.server)
			faults = append(faults, config.Fits(c.server)...)
			if got := words(faults); !slices.Equal(got, c.want) {
				t.Errorf("%q, wanted %q", got, c.want)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	have := parameter.Config{"pg.jit": true, "pg.deadlock_timeout": int64(900), "work_mem": int64(8)}
	for asked, want := range map[string]string{
		`{}`: `{"pg.deadlock_timeout":900,"pg.jit":true,"work_mem":8}`,
		`{"pg":{"jit":null,"track_functions":"pl"}}`:       `{"pg.deadlock_timeout":900,"pg.track_functions":"pl","work_mem":8}`,
		`{"pg":null,"work_mem":null}`:                      ``,
		`{"pglookout":{},"pg":{"no":null},"no":null}`:      `{"pg.deadlock_timeout":900,"pg.jit":true,"work_mem":8}`,
		`{"work_mem":8.0,"shared_buffers_percentage":2e1}`: `{"pg.deadlock_timeout":900,"pg.jit":true,"shared_buffers_percentage":20,"work_mem":8}`,
	} {
		got, faults := have.Merge(object(t, asked), postgresql)
		if got.Text() != want || len(faults) > 0 {
			t.Errorf("%s: %s %q, wanted %s", asked, got.Text(), words(faults), want)
		}
	}
	if have.Text() != `{"pg.deadlock_timeout":900,"pg.jit":true,"work_mem":8}` {
		t.Errorf("it was changed: %s", have.Text())
	}
	// What is there already stays, also when it couldn't be chosen today.
	old := parameter.Config{"work_mem": int64(5000)}
	if _, faults := old.Merge(map[string]any{"work_mem": 5000.0}, postgresql); len(faults) > 0 {
		t.Errorf("the same again: %q", words(faults))
	}
}

func TestMemoryIsThePlans(t *testing.T) {
	small, large := postgresql, postgresql
	large.MemoryMB = 16384
	config := parameter.Config{"work_mem": int64(40), "pg.autovacuum_max_workers": int64(3)}
	if got := words(config.Fits(large)); got != nil {
		t.Errorf("with 16 GB: %q", got)
	}
	const why = "shared_buffers (256 MB), work_mem for 33 sessions at once (1320 MB) and 3 autovacuum workers (192 MB) must fit into 921 MB"
	want := []string{
		"pg.autovacuum_max_workers: Needs more memory than the type small has: 1768 MB of 921 MB with all that is chosen",
		"work_mem: Must be at most 14 with the type small: " + why,
	}
	if got := words(config.Fits(small)); !slices.Equal(got, want) {
		t.Errorf("with 1 GB: %q", got)
	}
	tables := parameter.Config{"mysql.tmp_table_size": int64(512 << 20)}
	if got := words(tables.Fits(mariadb)); len(got) != 1 || !strings.HasPrefix(got[0], "mysql.tmp_table_size: Must be at most ") {
		t.Errorf("%q", got)
	}
}

// TestBoundsOfMemoryAreTrue: what is named as the most is taken, and one more isn't.
func TestBoundsOfMemoryAreTrue(t *testing.T) {
	for name, server := range map[string]parameter.Server{"work_mem": postgresql, "mysql.sort_buffer_size": mysql} {
		server.MemoryMB = 2048
		p := of(t, server, name)
		least, most := int64(p.Minimum), int64(p.Maximum)
		for least < most {
			middle := (least + most + 1) / 2
			if len((parameter.Config{name: middle}).Fits(server)) == 0 {
				least = middle
			} else {
				most = middle - 1
			}
		}
		faults := (parameter.Config{name: least + 1}).Fits(server)
		if len(faults) != 1 || !strings.Contains(faults[0].Reason, "Must be at most "+json64(least)+" ") {
			t.Errorf("%s: up to %d is taken, and said is %q", name, least, words(faults))
		}
	}
}

func json64(n int64) string {
	text, _ := json.Marshal(n)
	return string(text)
}

func of(t *testing.T, s parameter.Server, name string) parameter.Parameter {
	t.Helper()
	for _, p := range parameter.Of(s.Family) {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no %s", name)
	return parameter.Parameter{}
}

// TestWhatFollowsFromThePlanFits: whoever chooses something harmless isn't told of memory.
func TestWhatFollowsFromThePlanFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, s := range []parameter.Server{postgresql, mariadb, mysql} {
			s.MemoryMB = rapid.IntRange(512, 262144).Draw(t, "memory")
			harmless := parameter.Config{"pg.jit": true, "mysql.wait_timeout": int64(100)}
			if got := words(harmless.Fits(s)); got != nil {
				t.Errorf("%s with %d MB: %q", s.Series, s.MemoryMB, got)
			}
		}
	})
}

// TestTables: every parameter can be shown and chosen, and its example is one.
func TestTables(t *testing.T) {
	for _, s := range []parameter.Server{postgresql, mariadb, newMariaDB, mysql} {
		s.MemoryMB, s.DiskMB = 65536, 1<<20
		names := map[string]bool{}
		for _, p := range parameter.Of(s.Family) {
			if names[p.Name] || p.Description == "" || !strings.HasSuffix(p.Description, ".") || parameter.Refused(s.Family)[p.Name] != "" {
				t.Errorf("%s stands twice or says nothing", p.Name)
			}
			names[p.Name] = true
			value := p.Example
			if n, ok := value.(int); ok {
				value = int64(n)
			}
			if reason := p.Judge(value, s); reason != "" && p.OfferedOn(s) {
				t.Errorf("%s: its example %v: %s", p.Name, value, reason)
			}
			if section, _ := p.Section(); section != "" && !slices.Contains(parameter.Sections(s.Family), section) {
				t.Errorf("%s is in no section", p.Name)
			}
			if p.Type == parameter.Integer && p.Maximum > 1<<53 {
				t.Errorf("%s: clients can't read %v", p.Name, p.Maximum)
			}
		}
	}
}

// TestWhatStewardReliesOnIsNoParameter: none of these may ever be chosen.
func TestWhatStewardReliesOnIsNoParameter(t *testing.T) {
	ours := strings.Fields(`
		archive_command archive_mode archive_timeout authentication_timeout default_transaction_read_only fsync full_page_writes hba_file
		hot_standby listen_addresses log_statement max_connections max_wal_senders password_encryption port
		primary_conninfo restore_command shared_preload_libraries ssl superuser_reserved_connections synchronous_commit synchronous_standby_names wal_level wal_keep_size
		binlog_format bind_address event_scheduler general_log gtid_mode gtid_strict_mode init_connect innodb_buffer_pool_size innodb_flush_log_at_trx_commit
		local_infile log_bin max_connections max_user_connections plugin_dir read_only require_secure_transport secure_file_priv server_id skip_name_resolve
		super_read_only sync_binlog tls_version`)
	for _, family := range []string{"postgresql", "mysql"} {
		for _, p := range parameter.Of(family) {
			if slices.Contains(ours, p.Setting()) {
				t.Errorf("%s can be chosen", p.Name)
			}
		}
	}
}

func TestRestartsAndLowers(t *testing.T) {
	had := parameter.Config{"pg.max_locks_per_transaction": int64(128), "work_mem": int64(4)}
	for _, c := range []struct {
		now      parameter.Config
		restarts []string
		lowers   bool
	}{
		{had, nil, false},
		{nil, []string{"pg.max_locks_per_transaction"}, true},
		{parameter.Config{"pg.max_locks_per_transaction": int64(64)}, []string{"pg.max_locks_per_transaction"}, true},
		{parameter.Config{"pg.max_locks_per_transaction": int64(256), "work_mem": int64(5)}, []string{"pg.max_locks_per_transaction"}, false},
		{parameter.Config{"pg.max_locks_per_transaction": int64(128)}, nil, false},
	} {
		if got := c.now.Restarts(had, "postgresql"); !slices.Equal(got, c.restarts) || had.Lowers(c.now, "postgresql") != c.lowers {
			t.Errorf("%s: %q, %t", c.now.Text(), got, had.Lowers(c.now, "postgresql"))
		}
	}
}

// TestTextKeepsValues: what is written is read again as it was.
func TestTextKeepsValues(t *testing.T) {
	config := parameter.Config{"a": int64(1) << 52, "b": 0.5, "c": true, "d": "x\"y"}
	got, err := parameter.FromText(config.Text())
	if err != nil || !maps.Equal(got, config) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := parameter.FromText(""); got != nil || err != nil {
		t.Errorf("nothing: %v, %v", got, err)
	}
}
