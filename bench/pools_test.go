package bench

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"steward/test/harness"
)

// pooledClients share pooledConnections. The plan is the smallest whose server takes so many clients without a pool, too.
const (
	pooledClients     = 400
	pooledConnections = 20
	byHandPort        = 6543
)

// BenchmarkPool compares pgbench -S of many clients through a pool in transaction mode with a PgBouncer started by hand, in the same network, before the same
// server and with the same TLS, and with the same clients without a pool: those that keep their connections, and those that open one for each transaction.
func BenchmarkPool(b *testing.B) {
	s := harness.New(b)
	spec := harness.Small("bench-pool", "postgresql/15")
	spec["type"] = "g6-standard-6"
	d := s.CreateActive(spec)
	c := s.Credentials(d)
	if status, body := s.Call("POST", d.Path()+"/connection-pools", map[string]any{"label": "app", "database": "defaultdb", "mode": "transaction", "size": pooledConnections}, nil); status != 200 {
		b.Fatal(body)
	}
	d = s.AwaitStatus(d, "active")
	direct := harness.NewPgBench(b, d, c, 10)
	pool := direct.At(s.PoolPort(d), "app")
	poolerPid := pooler(b, s)
	peer, byHandPid := startByHand(b, s, c)
	hand := direct.At(byHandPort, "app")
	kept := []string{"-S", "-c", fmt.Sprint(pooledClients), "-j", "2", "-t", "200"}
	anew := []string{"-S", "-C", "-c", "40", "-j", "2", "-t", "15"}
	var pooled, byHand, straight, pooledAnew, straightAnew, poolerTime, byHandTime []float64
	spent := func(pid int, do func()) float64 {
		before := harness.CPUSeconds(pid)
		do()
		return harness.CPUSeconds(pid) - before
	}
	for range 5 {
		poolerTime = append(poolerTime, spent(poolerPid, func() { pooled = append(pooled, pool.Rate(d.Hosts.Primary, kept...)) }))
		byHandTime = append(byHandTime, spent(byHandPid, func() { byHand = append(byHand, hand.Rate(peer, kept...)) }))
		straight = append(straight, direct.Rate(d.Hosts.Primary, kept...))
		pooledAnew = append(pooledAnew, pool.Rate(d.Hosts.Primary, anew...))
		straightAnew = append(straightAnew, direct.Rate(d.Hosts.Primary, anew...))
	}
	for _, r := range []struct {
		name        string
		of, against []float64
		unit, goal  string
	}{
		{"PgBouncer by hand", pooled, byHand, "ratio-by-hand", "≥ 0.9"},
		{"the same clients without a pool", pooled, straight, "ratio-direct", "> 5"},
		{"without a pool, a connection for each transaction", pooledAnew, straightAnew, "ratio-direct-anew", "> 5"},
	} {
		report(b, fmt.Sprintf("pool (%.0f tps) / %s (%.0f tps)", middle(r.of), r.name, middle(r.against)), middle(r.of)/middle(r.against), r.unit, r.goal)
	}
	report(b, fmt.Sprintf("processor time of the pooler (%.2f s) / by hand (%.2f s), the same transactions", middle(poolerTime), middle(byHandTime)),
		middle(poolerTime)/middle(byHandTime), "ratio-pooler-time", "≤ 1.1")
}

var poolerServer = regexp.MustCompile(`host=(\S+) port=(\d+)`)

// startByHand starts a PgBouncer as somebody would, in the pooler's network, and returns where it listens.
func startByHand(b *testing.B, s *harness.Server, c harness.Credentials) (address string, pid int) {
	b.Helper()
	found, err := filepath.Glob(filepath.Join(s.Data, "clusters", "*", "pooler"))
	if err != nil || len(found) != 1 {
		b.Fatalf("poolers %v, %v", found, err)
	}
	conf, err := os.ReadFile(filepath.Join(found[0], "conf", "pgbouncer.ini"))
	if err != nil {
		b.Fatal(err)
	}
	server := poolerServer.FindStringSubmatch(string(conf))
	_, address, _ = strings.Cut(string(conf), "\nlisten_addr = ")
	address, _, _ = strings.Cut(address, "\n")
	dir, err := os.MkdirTemp("", "by-hand-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	files := map[string]string{
		"users.txt": fmt.Sprintf("%q %q\n", c.Username, c.Password),
		"pgbouncer.ini": fmt.Sprintf("[databases]\napp = host=%s port=%s dbname=defaultdb pool_mode=transaction pool_size=%d\n[pgbouncer]\nlisten_addr = %s\nlisten_port = %d\n"+
			"unix_socket_dir =\nauth_type = scram-sha-256\nauth_file = %[6]s/users.txt\nmax_client_conn = 2000\nclient_tls_sslmode = require\n"+
			"client_tls_key_file = %[6]s/server.key\nclient_tls_cert_file = %[6]s/server.crt\n", server[1], server[2], pooledConnections, address, byHandPort, dir),
	}
	for _, name := range []string{"server.key", "server.crt"} {
		content, err := os.ReadFile(filepath.Join(found[0], "tls", name))
		if err != nil {
			b.Fatal(err)
		}
		files[name] = string(content)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", pooler(b, s)), "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "pgbouncer", "-q", filepath.Join(dir, "pgbouncer.ini"))
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.Eventually("PgBouncer by hand", func() error {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", address, byHandPort), time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	})
	return address, cmd.Process.Pid
}

// pooler is the process of the one that runs.
func pooler(b *testing.B, s *harness.Server) int {
	b.Helper()
	for pid, line := range s.Processes() {
		if strings.Contains(line, "pgbouncer.ini") && !strings.Contains(line, "bwrap") {
			return pid
		}
	}
	b.Fatal("no pooler runs")
	return 0
}
