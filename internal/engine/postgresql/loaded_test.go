package postgresql

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"steward/internal/await"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/fault"
	"steward/internal/insight"
	"steward/internal/parameter"
)

// loadedAttempts are on what the libraries bring, and must be refused.
var loadedAttempts = []string{
	"INSERT INTO cron.job (schedule, command, username) VALUES ('* * * * *', 'SELECT 1', 'steward')",
	"UPDATE cron.job SET username = 'steward'",
	"UPDATE cron.job SET nodename = '192.0.2.1', nodeport = 1",
	"DELETE FROM cron.job",
	"SELECT cron.schedule_in_database('evil', '@reboot', 'SELECT 1', 'postgres')",
	"SELECT cron.schedule_in_database('evil', '@reboot', 'SELECT 1', 'planted', 'steward')",
	"SELECT cron.alter_job(1, username => 'steward')",
	"CREATE TRIGGER evil BEFORE INSERT ON cron.job_run_details FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
	"ALTER TABLE cron.job DISABLE ROW LEVEL SECURITY",
	"CREATE TABLE cron.mine (v int)",
	"DROP EXTENSION pg_cron",
	"DROP SCHEMA cron CASCADE",
	"SET pgaudit.log = 'none'",
	"SET pgaudit.log_catalog = on",
	"ALTER ROLE dbadmin SET pgaudit.log = 'none'",
	"ALTER DATABASE planted SET pgaudit.log = 'none'",
	"ALTER DATABASE planted SET pgaudit.role = 'dbadmin'",
	"ALTER ROLE steward RESET search_path",
	"DROP EXTENSION pg_partman",
	"ALTER EXTENSION pg_partman ADD TABLE public.caught",
}

// plantedJobs are what a customer schedules: each runs as dbadmin, and gets no further than that.
var plantedJobs = []string{
	"INSERT INTO public.caught VALUES ('job ' || session_user || ' ' || current_user)",
	"COPY (SELECT 1) TO PROGRAM 'touch {{tmp}}/owned'",
	"ALTER ROLE dbadmin SUPERUSER",
	"RESET SESSION AUTHORIZATION; SET ROLE steward; ALTER ROLE dbadmin SUPERUSER",
	"SET SESSION AUTHORIZATION steward",
}

// planted is a database in which whatever looks for the server's names comes upon a customer's first.
var planted = []string{
	"CREATE TABLE public.caught (who text)",
	"GRANT ALL ON public.caught TO PUBLIC",
	"CREATE FUNCTION public.evil(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.caught VALUES (current_user); RETURN true; END$$",
	"CREATE FUNCTION public.evil(text, text) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.caught VALUES (current_user); RETURN true; END$$",
	"CREATE OPERATOR public.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = public.evil)",
	"CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = public.evil)",
	"ALTER DATABASE planted SET search_path = public, pg_catalog",
}

// loadedExtensions has a server load what runs jobs and audits, in a database full of traps for whoever works there with our rights.
func loadedExtensions(t *testing.T, b *enginetest.Bench) {
	if b.Installation.Builder != "debian" {
		return // other builds have none of them
	}
	for _, library := range parameter.Libraries() {
		if !b.Installation.Loads(library) {
			t.Fatalf("no %s: run scripts/setup --build", library)
		}
	}
	s := b.Started(t, func(n *engine.Node) {
		n.Config = parameter.Config{"pg.cron.database_name": "planted", "pg.pg_partman_bgw.dbname": "planted", "pg.pgaudit.log": "all,-misc"}
	})
	if err := b.Driver.Fence(t.Context(), s.Node); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "CREATE DATABASE planted")
	login := s.Login()
	login.Database = "planted"
	db := s.DB(t, login)
	exec := func(sql string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for _, sql := range planted {
		exec(sql)
	}
	e := extensions{s.Node, "planted"}
	schedulerMustBePinned(t, s, e)
	refusedFields(t, s, e)
	for _, name := range []string{"pg_cron", "pg_partman"} {
		if err := e.CreateExtension(t.Context(), name, ""); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if found, err := New().Obstacles(t.Context(), s.Node, b.Installation); err != nil || len(found) != 1 || !strings.Contains(found[0], "pg_cron") {
		t.Errorf("what keeps it from being moved: %q, %v", found, err)
	}
	ownsPartitions(t, s, exec)
	for _, job := range plantedJobs {
		exec("SELECT cron.schedule('@reboot', " + quoteText(strings.ReplaceAll(job, "{{tmp}}", s.Node.Tmp)) + ")")
	}
	for _, sql := range loadedAttempts {
		if _, err := db.ExecContext(t.Context(), sql); !refused(err) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	exec("DELETE FROM public.caught")
	s.Stop(t)
	s.Start(t) // jobs of @reboot begin, and pg_partman's worker
	jobsAreDbadmins(t, s)
	runsBehindTheGuard(t, s)
	auditedWithoutValues(t, s)
	if err := e.UpdateExtension(t.Context(), "pg_partman", ""); !fault.IsKind(err, fault.Precondition) {
		t.Errorf("an update of what dbadmin may have changed: %v", err)
	}
	for _, name := range []string{"pg_cron", "pg_partman"} {
		if err := e.DropExtension(t.Context(), name, true); err != nil {
			t.Errorf("drop %s: %v", name, err)
		}
	}
	intact(t, s)
	serves(t, s)
	stopsDuringMaintenance(t, s, e)
}

// stopsDuringMaintenance: the worker that maintains partitions holds up no stop, though its master misses that it should end.
func stopsDuringMaintenance(t *testing.T, s *enginetest.Server, e extensions) {
	t.Helper()
	if err := e.CreateExtension(t.Context(), "pg_partman", "again"); err != nil {
		t.Fatal(err)
	}
	_, err := lookIn(t.Context(), s, "planted", `CREATE OR REPLACE FUNCTION again.run_maintenance(p_parent_table text DEFAULT NULL, p_analyze boolean DEFAULT false, p_jobmon boolean DEFAULT true)
		RETURNS void LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(3600); END$$`)
	if err != nil {
		t.Fatal(err)
	}
	// A round begins with the server. It would with SIGHUP, too, if its master were there for certain: that ends for ten minutes when a worker
	// is done before it has looked (pg_partman_bgw.c, bgw_restart_time), as on a busy machine those before this one may be.
	s.Stop(t)
	s.Start(t)
	await.True(t, "partitions are maintained", func() bool {
		return one(t, s, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'planted' AND wait_event = 'PgSleep'") == "1"
	})
	s.Stop(t)
	if console := s.Console(t); !strings.Contains(console[strings.LastIndex(console, "fast shutdown request"):], "database system is shut down") {
		t.Error("it wasn't a clean stop")
	}
}

// schedulerMustBePinned: no extension for a scheduler that began with the database's search path.
func schedulerMustBePinned(t *testing.T, s *enginetest.Server, e extensions) {
	t.Helper()
	launched := func() {
		await.True(t, "the scheduler runs", func() bool {
			return one(t, s, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pg_cron launcher' AND datname = 'planted'") == "1"
		})
	}
	launched()
	one(t, s, "SELECT 1")
	if _, err := ask(t.Context(), s.Node, "ALTER ROLE steward RESET search_path"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // before it is pinned, and afterwards
		if err := e.CreateExtension(t.Context(), "pg_cron", ""); !fault.IsKind(err, fault.Precondition) {
			t.Fatalf("with a scheduler that isn't pinned: %v", err)
		}
		if err := New().Fence(t.Context(), s.Node); err != nil {
			t.Fatal(err)
		}
	}
	s.Stop(t)
	s.Start(t)
	launched()
}

// refusedFields: what is wrong with a request is said by the field that has it.
func refusedFields(t *testing.T, s *enginetest.Server, e extensions) {
	t.Helper()
	for _, c := range []struct{ name, database, schema, field string }{
		{"pg_cron", "defaultdb", "", "database"},
		{"pg_cron", "planted", "mine", "schema"},
		{"pgaudit", "planted", "", "name"},
		{"pg_repack", "planted", "", "name"},
		{"dblink", "planted", "", "name"},
	} {
		err := extensions{s.Node, c.database}.CreateExtension(t.Context(), c.name, c.schema)
		if named, ok := errors.AsType[*fault.Fault](err); !ok || named.Field != c.field {
			t.Errorf("%+v: %v", c, err)
		}
	}
	all, err := e.Extensions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, x := range all {
		said[x.Name] = x.Missing
	}
	if said["pg_cron"] != "" || said["pgaudit"] == "" || said["pg_repack"] == "" {
		t.Errorf("said of extensions: %q", said)
	}
}

// ownsPartitions: all of pg_partman is dbadmin's, and works.
func ownsPartitions(t *testing.T, s *enginetest.Server, exec func(string)) {
	t.Helper()
	others, err := lookIn(t.Context(), s, "planted", `SELECT 'function ' || p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'partman'::regnamespace AND proowner <> 'dbadmin'::regrole
		UNION ALL SELECT relkind::text || ' ' || c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'partman'::regnamespace AND relowner <> 'dbadmin'::regrole
		UNION ALL SELECT 'type ' || t.oid::regtype FROM pg_type t WHERE t.typnamespace = 'partman'::regnamespace AND typowner <> 'dbadmin'::regrole`)
	if err != nil || len(others) > 0 {
		t.Errorf("not dbadmin's: %v, %v", others, err)
	}
	exec("SET search_path = pg_catalog")
	exec("CREATE TABLE public.events (at timestamptz NOT NULL) PARTITION BY RANGE (at)")
	exec("SELECT partman.create_parent('public.events', 'at', 'native', 'daily')")
	exec("RESET search_path")
	// What the worker calls is dbadmin's to change: it is dbadmin who runs it.
	exec(`CREATE OR REPLACE FUNCTION partman.run_maintenance(p_parent_table text DEFAULT NULL, p_analyze boolean DEFAULT false, p_jobmon boolean DEFAULT true) RETURNS void LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.caught VALUES ('worker ' || session_user || ' ' || current_user); END$$`)
}

// jobsAreDbadmins: what was scheduled ran, as dbadmin, and nothing that was planted ran as anybody else.
func jobsAreDbadmins(t *testing.T, s *enginetest.Server) {
	t.Helper()
	var runs [][]string
	await.True(t, "all jobs have run", func() bool {
		var err error
		runs, err = lookIn(t.Context(), s, "planted", "SELECT command, status, coalesce(return_message, '') FROM cron.job_run_details WHERE status IN ('succeeded', 'failed')")
		if err != nil {
			t.Fatal(err)
		}
		worker, err := lookIn(t.Context(), s, "planted", "SELECT 1 FROM public.caught WHERE who LIKE 'worker %'")
		return err == nil && len(runs) == len(plantedJobs) && len(worker) > 0
	})
	for _, run := range runs {
		if good := strings.HasPrefix(run[0], "INSERT"); good != (run[1] == "succeeded") {
			t.Errorf("the job %q", run)
		}
	}
	rows, err := lookIn(t.Context(), s, "planted", "SELECT DISTINCT who FROM public.caught ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(rows); got != "[[job dbadmin dbadmin] [worker dbadmin dbadmin]]" {
		t.Errorf("ran: %s", got)
	}
}

// runsBehindTheGuard: while the disk guard is on, the scheduler goes on and keeps account of jobs, which can't write.
func runsBehindTheGuard(t *testing.T, s *enginetest.Server) {
	t.Helper()
	s.Stop(t)
	s.Node.ReadOnly = true
	s.WriteFiles(t)
	s.Start(t)
	await.True(t, "all jobs have run again", func() bool {
		failed, err := lookIn(t.Context(), s, "planted", "SELECT count(*) FROM cron.job_run_details WHERE status = 'failed'")
		return err == nil && failed[0][0] == strconv.Itoa(2*len(plantedJobs)-1)
	})
	s.Node.ReadOnly = false
	s.WriteFiles(t)
	if _, err := New().Reload(t.Context(), s.Node); err != nil {
		t.Fatal(err)
	}
}

// auditedWithoutValues: the log has statements of customers', and none of ours; what is shown of them has no values.
func auditedWithoutValues(t *testing.T, s *enginetest.Server) {
	t.Helper()
	const secret = "hunter2"
	s.Exec(t, "CREATE TABLE audited (v text)", "INSERT INTO audited VALUES ('"+secret+"'), (',\"\"x"+secret+"')\n-- "+secret)
	parse := logReader{}
	var shown []string
	var entry *insight.LogLine
	text := ""
	for line := range strings.SplitSeq(s.Console(t)+"2000-01-01 00:00:00.000 UTC [1] LOG:  end", "\n") {
		l, begins := parse.Begin(line)
		if !begins {
			text += "\n" + line
			continue
		}
		if entry != nil && entry.Slow != nil {
			if parse.Complete(entry, text, false); entry.Slow != nil {
				t.Errorf("an audited statement is a slow one: %+v", entry)
			}
			shown = append(shown, entry.Text)
		}
		entry, text = &l, l.Text
	}
	if !slices.Contains(shown, "dbadmin@defaultdb: audited WRITE INSERT: INSERT INTO audited VALUES (?), (?)") || !slices.Contains(shown, "dbadmin@defaultdb: audited DDL CREATE TABLE: CREATE TABLE audited (v text)") {
		t.Errorf("audited: %s", strings.Join(shown, "\n"))
	}
	for _, line := range shown {
		if strings.Contains(line, secret) || strings.Contains(line, "cron.job_run_details") || !strings.HasPrefix(line, "dbadmin@") && !strings.HasPrefix(line, "worker: ") {
			t.Errorf("shown: %s", line)
		}
	}
}
