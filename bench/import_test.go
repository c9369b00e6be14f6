package bench

import (
	"database/sql"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/test/harness"
)

// importedMB is about how much is brought over.
var importedMB = flag.Int("import-mb", 200, "about how many MB BenchmarkImport brings over")

// rowsPerMB are as many rows as take a megabyte with their index.
const rowsPerMB = 5000

// BenchmarkImport brings databases over, and does the same by hand into the same server, each in turn.
func BenchmarkImport(b *testing.B) {
	b.Run("PostgreSQL", func(b *testing.B) {
		src := harness.PostgreSQLByHand(b)
		importing(b, src, "postgresql/15", "postgres", []string{
			"CREATE TABLE t%d AS SELECT g AS n, md5(g::text) || md5((g + 1)::text) || md5((g + 2)::text) || md5((g + 3)::text) AS word FROM generate_series(1, %d) g",
			"ALTER TABLE t%d ADD PRIMARY KEY (n)",
		}, `PGPASSWORD="$P1" pg_dump --no-owner -h 127.0.0.1 -p "$FROM" -U mover shop |
			PGPASSWORD="$P2" psql -q -v ON_ERROR_STOP=1 -o /dev/null "host=$HOST port=$PORT user=$NAME dbname=$TO sslmode=verify-full sslrootcert=$CA"`)
	})
	b.Run("MariaDB", func(b *testing.B) {
		src := harness.MariaDBByHand(b)
		importing(b, src, "mysql/10.11", "", []string{
			"CREATE TABLE t%d (n int PRIMARY KEY, word text)",
			"INSERT INTO t%d SELECT seq, CONCAT(MD5(seq), MD5(seq + 1), MD5(seq + 2), MD5(seq + 3)) FROM seq_1_to_%d",
		}, `MYSQL_PWD="$P1" mariadb-dump --single-transaction --skip-ssl -h 127.0.0.1 -P "$FROM" -u mover shop |
			MYSQL_PWD="$P2" mariadb --ssl-ca="$CA" --ssl-verify-server-cert -h "$HOST" -P "$PORT" -u "$NAME" "$TO"`)
	})
}

// importing fills four tables of the source by statements, which are given a table's number and how many rows it gets, and measures.
func importing(b *testing.B, src harness.Source, engine, first string, statements []string, byHand string) {
	if _, err := src.Open(b, first).ExecContext(b.Context(), "CREATE DATABASE shop"); err != nil {
		b.Fatal(err)
	}
	shop := src.Open(b, "shop")
	for t := range 4 {
		for _, statement := range statements {
			given := []any{t, *importedMB * rowsPerMB / 4}
			if _, err := shop.ExecContext(b.Context(), fmt.Sprintf(statement, given[:strings.Count(statement, "%d")]...)); err != nil {
				b.Fatal(err)
			}
		}
	}
	s := harness.New(b, harness.WithConfig("imports:\n  networks: [127.0.0.0/8]\npool: {size: 0}"))
	d := s.CreateActive(harness.Spec{"label": "import", "engine": engine, "region": "local", "type": "g6-standard-2", "allow_list": []string{"127.0.0.0/8"}})
	c := s.Credentials(d)
	ca := b.TempDir() + "/ca.crt"
	if err := os.WriteFile(ca, c.CA, 0o600); err != nil {
		b.Fatal(err)
	}
	var ours, hand time.Duration
	for round := range b.N {
		began := time.Now()
		bringOver(b, s, d, src, fmt.Sprintf("ours%d", round))
		ours += time.Since(began)
		name := fmt.Sprintf("hand%d", round)
		if status, body := s.Call("POST", d.Path()+"/databases", map[string]any{"name": name}, nil); status != http.StatusOK {
			b.Fatal(body)
		}
		began = time.Now()
		cmd := exec.CommandContext(b.Context(), "/bin/bash", "-o", "pipefail", "-c", byHand)
		cmd.Env = append(os.Environ(), "P1="+src.Password, fmt.Sprintf("FROM=%d", src.Port),
			"P2="+c.Password, "HOST="+d.Hosts.Primary, fmt.Sprintf("PORT=%d", d.Port), "NAME="+c.Username, "TO="+name, "CA="+ca)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("by hand: %v\n%s", err, out)
		}
		hand += time.Since(began)
	}
	b.ReportMetric(ours.Seconds()/float64(b.N), "ours_s")
	b.ReportMetric(hand.Seconds()/float64(b.N), "by_hand_s")
	b.ReportMetric(ours.Seconds()/hand.Seconds(), "ratio")
}

// bringOver brings the source's database over and waits for the end.
func bringOver(b *testing.B, s *harness.Server, d harness.Database, src harness.Source, as string) {
	b.Helper()
	var m struct {
		ID      int64
		Status  string
		Problem *string
	}
	request := map[string]any{
		"source":    map[string]any{"host": "127.0.0.1", "port": src.Port, "username": "mover", "password": src.Password, "tls": "off"},
		"databases": []map[string]any{{"name": "shop", "as": as}},
	}
	if status, body := s.Call("POST", d.Path()+"/migrations", request, &m); status != http.StatusOK {
		b.Fatal(body)
	}
	s.Eventually("the migration ends", func() error {
		s.Call("GET", fmt.Sprintf("%s/migrations/%d", d.Path(), m.ID), nil, &m)
		if m.Status == "failed" {
			b.Fatal(*m.Problem)
		}
		if m.Status != "finished" {
			return fmt.Errorf("it is %s", m.Status)
		}
		return nil
	})
}

// BenchmarkCutover follows a PostgreSQL that is written to by four clients, stops them, and measures from the last write that they were told of to the
// first one here. They are stopped once what is here is at most a second behind.
func BenchmarkCutover(b *testing.B) {
	b.Run("postgresql", func(b *testing.B) {
		src := harness.PostgreSQLByHand(b, "wal_level=logical")
		benchmarkCutover(b, src, "postgresql/15", "postgres", []string{
			"CREATE DATABASE shop",
		}, fmt.Sprintf(`CREATE TABLE orders (n bigserial PRIMARY KEY, word text); CREATE TABLE lines (n bigserial PRIMARY KEY, o bigint REFERENCES orders);
			INSERT INTO orders (word) SELECT md5(g::text) || md5((g + 1)::text) FROM generate_series(1, %[1]d) g; INSERT INTO lines (o) SELECT g FROM generate_series(1, %[1]d) g`, *importedMB*rowsPerMB/2),
			"WITH o AS (INSERT INTO orders (word) VALUES ('new') RETURNING n) INSERT INTO lines (o) SELECT n FROM o")
	})
	b.Run("mariadb", func(b *testing.B) {
		src := harness.MariaDBByHand(b)
		benchmarkCutover(b, src, "mysql/10.11", "", []string{"SET GLOBAL binlog_format = ROW", "CREATE DATABASE shop"},
			fmt.Sprintf("CREATE TABLE orders (n bigint AUTO_INCREMENT PRIMARY KEY, word text); CREATE TABLE `lines` (n bigint AUTO_INCREMENT PRIMARY KEY, o bigint, FOREIGN KEY (o) REFERENCES orders (n));"+
				"INSERT INTO orders (n, word) SELECT seq, CONCAT(MD5(seq), MD5(seq + 1)) FROM seq_1_to_%[1]d; INSERT INTO `lines` (o) SELECT seq FROM seq_1_to_%[1]d", *importedMB*rowsPerMB/2),
			"START TRANSACTION; INSERT INTO orders (word) VALUES ('new'); INSERT INTO `lines` (o) VALUES (LAST_INSERT_ID()); COMMIT; DO SLEEP(0.001)")
	})
}

// benchmarkCutover has a source's database be written to by a statement while it is brought over.
func benchmarkCutover(b *testing.B, src harness.Source, engine, owner string, before []string, tables, write string) {
	b.Helper()
	for _, statement := range before {
		if _, err := src.Open(b, owner).ExecContext(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	shop := src.Open(b, "shop")
	if _, err := shop.ExecContext(b.Context(), tables); err != nil {
		b.Fatal(err)
	}
	s := harness.New(b, harness.WithConfig("imports:\n  networks: [127.0.0.0/8]\npool: {size: 0}"))
	d := s.CreateActive(harness.Spec{"label": "cutover", "engine": engine, "region": "local", "type": "g6-standard-2", "allow_list": []string{"127.0.0.0/8"}})
	var pauses, writes float64
	for round := range b.N {
		pause, written := cutOver(b, s, d, src, shop, write, fmt.Sprintf("round%d", round))
		pauses, writes = pauses+pause.Seconds(), writes+written
	}
	b.ReportMetric(pauses/float64(b.N), "pause_s")
	b.ReportMetric(writes/float64(b.N), "writes/s")
}

// BenchmarkFollow has a PostgreSQL be followed that was written to while nothing came of it: how much of that is written here each second, and the
// processor time that a row takes, of steward and the server together.
func BenchmarkFollow(b *testing.B) {
	const transactions = 100000
	src := harness.PostgreSQLByHand(b, "wal_level=logical")
	if _, err := src.Open(b, "postgres").ExecContext(b.Context(), "CREATE DATABASE shop"); err != nil {
		b.Fatal(err)
	}
	shop := src.Open(b, "shop")
	if _, err := shop.ExecContext(b.Context(), `CREATE TABLE orders (n bigserial PRIMARY KEY, word text); CREATE TABLE lines (n bigserial PRIMARY KEY, o bigint REFERENCES orders);
		CREATE PROCEDURE sell(times int) LANGUAGE plpgsql AS $$ BEGIN
			FOR i IN 1..times LOOP INSERT INTO orders (word) VALUES ('new'); INSERT INTO lines (o) VALUES (lastval()); COMMIT; END LOOP; END $$`); err != nil {
		b.Fatal(err)
	}
	s := harness.New(b, harness.WithConfig("imports:\n  networks: [127.0.0.0/8]\npool: {size: 0}"))
	d := s.CreateActive(harness.Spec{"label": "follow", "engine": "postgresql/15", "region": "local", "type": "g6-standard-2", "allow_list": []string{"127.0.0.0/8"}})
	var seconds, processor float64
	for round := range b.N {
		quiet, hush, speak := src.Quiet(b)
		as := fmt.Sprintf("round%d", round)
		var m struct {
			ID    int64
			Phase string
		}
		request := map[string]any{
			"source":    map[string]any{"host": "127.0.0.1", "port": quiet.Port, "username": "mover", "password": src.Password, "tls": "off"},
			"databases": []map[string]any{{"name": "shop", "as": as}}, "mode": "replicate",
		}
		if status, body := s.Call("POST", d.Path()+"/migrations", request, &m); status != http.StatusOK {
			b.Fatal(body)
		}
		one := fmt.Sprintf("%s/migrations/%d", d.Path(), m.ID)
		s.Eventually("it follows", func() error {
			if s.Call("GET", one, nil, &m); m.Phase != "following" {
				return fmt.Errorf("it is in the phase %s", m.Phase)
			}
			return nil
		})
		hush()
		if _, err := shop.ExecContext(b.Context(), "CALL sell($1)", transactions); err != nil {
			b.Fatal(err)
		}
		var last int
		if err := shop.QueryRowContext(b.Context(), "SELECT max(n) FROM lines").Scan(&last); err != nil {
			b.Fatal(err)
		}
		c := s.Credentials(d)
		c.Logical = as
		here := s.MustConnect(d, c)
		tree := append(harness.Descendants(s.Primary(d).Pid), s.PID())
		used, began := harness.CPUSeconds(tree...), time.Now()
		speak()
		s.Eventually("all is here", func() error {
			var there bool
			if err := here.QueryRowContext(b.Context(), "SELECT EXISTS (SELECT FROM lines WHERE n = $1)", last).Scan(&there); err != nil || !there {
				return fmt.Errorf("row %d isn't here: %w", last, err)
			}
			return nil
		})
		seconds, processor = seconds+time.Since(began).Seconds(), processor+harness.CPUSeconds(tree...)-used
		if status, body := s.Call("DELETE", one, nil, nil); status != http.StatusOK {
			b.Fatal(body)
		}
		s.Eventually("it has ended", func() error {
			var now struct{ Status string }
			if s.Call("GET", one, nil, &now); now.Status != "canceled" {
				return fmt.Errorf("it is %s", now.Status)
			}
			return nil
		})
	}
	b.ReportMetric(float64(2*transactions*b.N)/seconds, "rows/s")
	b.ReportMetric(processor*1e6/float64(2*transactions*b.N), "cpu_us/row")
}

// cutOver brings the source's database over while it is written to, and returns the pause and how much was written each second.
func cutOver(b *testing.B, s *harness.Server, d harness.Database, src harness.Source, shop *sql.DB, write, as string) (pause time.Duration, perSecond float64) {
	b.Helper()
	var m struct {
		ID            int64
		Status, Phase string
		Problem       *string
		LagSeconds    *int `json:"lag_seconds"`
	}
	stop, began := make(chan struct{}), time.Now()
	var last, written atomic.Int64
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := shop.ExecContext(b.Context(), write); err == nil {
					last.Store(time.Now().UnixNano())
					written.Add(1)
				}
			}
		})
	}
	request := map[string]any{
		"source":    map[string]any{"host": "127.0.0.1", "port": src.Port, "username": "mover", "password": src.Password, "tls": "off"},
		"databases": []map[string]any{{"name": "shop", "as": as}}, "mode": "replicate",
	}
	if status, body := s.Call("POST", d.Path()+"/migrations", request, &m); status != http.StatusOK {
		b.Fatal(body)
	}
	one := fmt.Sprintf("%s/migrations/%d", d.Path(), m.ID)
	await := func(phase string) {
		s.Eventually(phase, func() error {
			s.Call("GET", one, nil, &m)
			if m.Status == "failed" {
				b.Fatal(*m.Problem)
			}
			if m.Phase != phase && m.Status != phase {
				return fmt.Errorf("it is %s", m.Phase)
			}
			return nil
		})
	}
	await("following")
	s.Eventually("it has caught up", func() error {
		if s.Call("GET", one, nil, &m); m.LagSeconds == nil || *m.LagSeconds > 1 {
			return fmt.Errorf("it is behind: %+v", m)
		}
		return nil
	})
	close(stop)
	writers.Wait()
	if status, body := s.Call("POST", one+"/cutover", nil, nil); status != http.StatusOK {
		b.Fatal(body)
	}
	for m.Phase != "validating" {
		if s.Call("GET", one, nil, &m); m.Status == "failed" {
			b.Fatal(*m.Problem)
		}
	}
	c := s.Credentials(d)
	c.Logical = as
	if _, err := s.MustConnect(d, c).ExecContext(b.Context(), "INSERT INTO orders (word) VALUES ('first')"); err != nil {
		b.Fatal(err)
	}
	at := time.Unix(0, last.Load())
	pause, perSecond = time.Since(at), float64(written.Load())/at.Sub(began).Seconds()
	await("finished")
	return pause, perSecond
}
