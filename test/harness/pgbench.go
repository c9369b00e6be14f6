package harness

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// PgBench runs pgbench of the distribution against a database, over verified TLS.
type PgBench struct {
	t   testing.TB
	dir string
	env []string
}

// NewPgBench fills a database with tables for pgbench, of so much scale.
func NewPgBench(t testing.TB, d Database, c Credentials, scale int) *PgBench {
	t.Helper()
	p := &PgBench{t: t, dir: t.TempDir()}
	ca := filepath.Join(p.dir, "ca.crt")
	if err := os.WriteFile(ca, c.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	p.env = append(os.Environ(), "PGPORT="+strconv.Itoa(d.Port), "PGUSER="+c.Username, "PGPASSWORD="+c.Password,
		"PGDATABASE=defaultdb", "PGSSLMODE=verify-ca", "PGSSLROOTCERT="+ca)
	p.run(d.Hosts.Primary, "-i", "-q", "-s", strconv.Itoa(scale))
	return p
}

// At is the same to another port and database, such as a pool's.
func (p *PgBench) At(port int, database string) *PgBench {
	other := *p
	other.env = append(slices.Clone(p.env), "PGPORT="+strconv.Itoa(port), "PGDATABASE="+database)
	return &other
}

func (p *PgBench) run(host string, args ...string) string {
	p.t.Helper()
	cmd := exec.Command("/usr/lib/postgresql/15/bin/pgbench", args...)
	cmd.Env, cmd.Dir = append(p.env, "PGHOST="+host), p.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("pgbench: %v\n%s", err, out)
	}
	return string(out)
}

var pgBenchRate = regexp.MustCompile(`(?s)number of failed transactions: 0 .*tps = ([0-9.]+)`)

// Rate is how many transactions a second come through to a host, where none may fail.
func (p *PgBench) Rate(host string, args ...string) float64 {
	p.t.Helper()
	out := p.run(host, args...)
	m := pgBenchRate.FindStringSubmatch(out)
	if m == nil {
		p.t.Fatalf("pgbench by %s:\n%s", host, out)
	}
	tps, err := strconv.ParseFloat(m[1], 64)
	if err != nil || tps <= 0 {
		p.t.Fatalf("pgbench by %s: %g transactions a second, %v", host, tps, err)
	}
	return tps
}

// Latency is how long all but a part of the transactions take, at most, when so many are begun a second.
func (p *PgBench) Latency(host string, rate, quantile float64, args ...string) time.Duration {
	p.t.Helper()
	logs, err := os.MkdirTemp(p.dir, "log")
	if err != nil {
		p.t.Fatal(err)
	}
	p.run(host, append(args, fmt.Sprintf("--rate=%.0f", rate), "--log", "--log-prefix="+filepath.Join(logs, "log"))...)
	files, _ := filepath.Glob(filepath.Join(logs, "log*"))
	var took []int
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			p.t.Fatal(err)
		}
		for scan := bufio.NewScanner(f); scan.Scan(); { // client, transaction, µs, …
			if fields := strings.Fields(scan.Text()); len(fields) > 2 {
				if us, err := strconv.Atoi(fields[2]); err == nil {
					took = append(took, us)
				}
			}
		}
		f.Close()
	}
	if len(took) == 0 {
		p.t.Fatalf("pgbench by %s wrote nothing about its transactions", host)
	}
	slices.Sort(took)
	return time.Duration(took[min(int(quantile*float64(len(took))), len(took)-1)]) * time.Microsecond
}
