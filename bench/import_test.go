package bench

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"steward/test/harness"
)

// importedRows make a database of about 200 MB.
const importedRows = 1_000_000

// BenchmarkImport brings a PostgreSQL of about 200 MB over, and does the same by hand into the same server, each in turn.
func BenchmarkImport(b *testing.B) {
	src := harness.PostgreSQLByHand(b)
	if _, err := src.Open(b, "postgres").ExecContext(b.Context(), "CREATE DATABASE shop"); err != nil {
		b.Fatal(err)
	}
	shop := src.Open(b, "shop")
	for t := range 4 {
		for _, statement := range []string{
			fmt.Sprintf("CREATE TABLE t%d AS SELECT g AS n, md5(g::text) || md5((g + 1)::text) || md5((g + 2)::text) || md5((g + 3)::text) AS word FROM generate_series(1, %d) g", t, importedRows/4),
			fmt.Sprintf("ALTER TABLE t%d ADD PRIMARY KEY (n)", t),
		} {
			if _, err := shop.ExecContext(b.Context(), statement); err != nil {
				b.Fatal(err)
			}
		}
	}
	s := harness.New(b, harness.WithConfig("imports:\n  networks: [127.0.0.0/8]\npool: {size: 0}"))
	d := s.CreateActive(harness.Spec{"label": "import", "engine": "postgresql/15", "region": "local", "type": "g6-standard-2", "allow_list": []string{"127.0.0.0/8"}})
	c := s.Credentials(d)
	ca := b.TempDir() + "/ca.crt"
	if err := os.WriteFile(ca, c.CA, 0o600); err != nil {
		b.Fatal(err)
	}
	var ours, byHand time.Duration
	for round := range b.N {
		began := time.Now()
		bringOver(b, s, d, src, fmt.Sprintf("ours%d", round))
		ours += time.Since(began)
		name := fmt.Sprintf("hand%d", round)
		if status, body := s.Call("POST", d.Path()+"/databases", map[string]any{"name": name}, nil); status != http.StatusOK {
			b.Fatal(body)
		}
		began = time.Now()
		cmd := exec.CommandContext(b.Context(), "/bin/sh", "-c", `PGPASSWORD="$P1" pg_dump --no-owner -h 127.0.0.1 -p "$2" -U mover shop | PGPASSWORD="$P2" psql -q -v ON_ERROR_STOP=1 -o /dev/null "$1"`, "sh",
			fmt.Sprintf("host=%s port=%d user=%s dbname=%s sslmode=verify-full sslrootcert=%s", d.Hosts.Primary, d.Port, c.Username, name, ca), fmt.Sprint(src.Port))
		cmd.Env = append(os.Environ(), "P1="+src.Password, "P2="+c.Password)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("by hand: %v\n%s", err, out)
		}
		byHand += time.Since(began)
	}
	b.ReportMetric(ours.Seconds()/float64(b.N), "ours_s")
	b.ReportMetric(byHand.Seconds()/float64(b.N), "by_hand_s")
	b.ReportMetric(ours.Seconds()/byHand.Seconds(), "ratio")
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
