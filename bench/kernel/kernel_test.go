// Package kernel compares the kernel's gateway with the way straight to the server, in a network of its
// own and in the same run. `go test -run '^$' -bench . -benchtime 1x ./bench/kernel` runs it, as root; nothing here asserts a time.
package kernel

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/testnet"
	"steward/test/harness"
)

func TestMain(m *testing.M) {
	code := testnet.Run(m)
	harness.RemoveBinaries()
	os.Exit(code)
}

const (
	rounds  = 5
	clients = 8
	// network is the one that the servers' addresses are from, machine the one of the gateway's own: clients
	// keep their address then, as those on other machines do, which those on loopback can't.
	network = "10.77.0.0/16"
	machine = "10.88.0.0/16"
)

// machines counts the addresses given to gateways.
var machines byte

// newServer gives a database to measure with, and the address of its server. This machine's own addresses may connect.
func newServer(b *testing.B, engine string) (s *harness.Server, d harness.Database, server string) {
	testnet.Need(b)
	s = harness.Prepare(b, harness.WithConfig("isolation: {network: "+network+"}"))
	for _, end := range []string{"PRIMARY", "SECONDARY"} {
		machines++
		address := netip.AddrFrom4([4]byte{10, 88, 0, machines})
		testnet.Address(b, "lo", netip.PrefixFrom(address, 32))
		s.Env = append(s.Env, "STEWARD_GATEWAY__"+end+"_ADDRESS="+address.String())
	}
	s.Start()
	spec := harness.Small("bench", engine)
	spec["type"], spec["allow_list"] = "g6-standard-2", []string{machine, network}
	d = s.CreateActive(spec)
	return s, d, s.NodeAddress(d)
}

// report prints one line for people and one metric for benchstat.
func report(b *testing.B, name string, value float64, unit, goal string) {
	b.ReportMetric(value, unit)
	fmt.Printf("%-78s %8.3f goal %s\n", name, value, goal)
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// alternate measures both ways in turns, so that what else the machine does hits both, and returns the medians.
func alternate(through, straight func() float64) (a, b float64) {
	var first, second []float64
	for range rounds {
		second = append(second, straight())
		first = append(first, through())
	}
	return median(first), median(second)
}

func BenchmarkPostgreSQL(b *testing.B) {
	s, d, server := newServer(b, "postgresql/15")
	pgbench := harness.NewPgBench(b, d, s.Credentials(d), 10)
	rates := func(args ...string) (through, straight float64) {
		return alternate(
			func() float64 { return pgbench.Rate(d.Hosts.Primary, args...) },
			func() float64 { return pgbench.Rate(server, args...) })
	}
	reads := []string{"-S", "-M", "prepared", "-c", strconv.Itoa(clients), "-j", "2", "-T", "4"}
	through, straight := rates(reads...)
	report(b, fmt.Sprintf("pgbench -S, %.0f tps / straight, %.0f tps", through, straight), through/straight, "ratio-select", "≥ 0.9")
	half := straight / 2
	slow, quick := alternate(
		func() float64 { return pgbench.Latency(d.Hosts.Primary, half, 0.99, reads...).Seconds() },
		func() float64 { return pgbench.Latency(server, half, 0.99, reads...).Seconds() })
	report(b, fmt.Sprintf("p99 at half of that, %.3f ms / straight, %.3f ms", 1e3*slow, 1e3*quick), slow/quick, "ratio-p99", "≤ 1.05")
	through, straight = rates("-C", "-S", "-c", "4", "-j", "2", "-T", "4")
	report(b, fmt.Sprintf("pgbench -C, %.0f tps / straight, %.0f tps", through, straight), through/straight, "ratio-connect", "≥ 0.95")
	through, straight = rates("-N", "-M", "prepared", "-c", "4", "-j", "2", "-T", "4")
	report(b, fmt.Sprintf("pgbench -N, %.0f tps / straight, %.0f tps", through, straight), through/straight, "ratio-write", "≥ 0.9")
}

// BenchmarkMySQL reads single rows by their keys, as sysbench's point selects do.
func BenchmarkMySQL(b *testing.B) {
	s, d, server := newServer(b, "mysql/10.11")
	c := s.Credentials(d)
	var dialer net.Dialer
	connect := func(host string) *sql.DB {
		db, err := harness.ConnectBy(b.Context(), d, c, func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, net.JoinHostPort(host, strconv.Itoa(d.Port)))
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { db.Close() })
		db.SetMaxIdleConns(clients)
		return db
	}
	gateway, direct := connect(d.Hosts.Primary), connect(server)
	for _, statement := range []string{
		"CREATE TABLE points (id int PRIMARY KEY, k int NOT NULL, c char(120) NOT NULL)",
		"INSERT INTO points SELECT seq, seq * 7919 % 100000, REPEAT('c', 120) FROM seq_1_to_100000",
	} {
		if _, err := gateway.ExecContext(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	through, straight := alternate(func() float64 { return selects(b, gateway) }, func() float64 { return selects(b, direct) })
	report(b, fmt.Sprintf("MariaDB's rows by key, %.0f a second / straight, %.0f", through, straight), through/straight, "ratio-points", "≥ 0.9")
	connects := func(db *sql.DB) func() float64 {
		db.SetMaxIdleConns(0)
		return func() float64 { return selects(b, db) }
	}
	through, straight = alternate(connects(gateway), connects(direct))
	report(b, fmt.Sprintf("the same by a connection for each, %.0f a second / straight, %.0f", through, straight), through/straight, "ratio-connect", "≥ 0.95")
}

// selects is how many rows a second come by their keys.
func selects(b *testing.B, db *sql.DB) float64 {
	db.SetMaxOpenConns(clients)
	var found atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for range clients {
		all.Go(func() {
			for time.Since(begun) < 4*time.Second {
				var text string
				if err := db.QueryRowContext(b.Context(), fmt.Sprintf("SELECT c FROM points WHERE id = %d", 1+rand.IntN(100_000))).Scan(&text); err != nil {
					b.Error(err)
					return
				}
				found.Add(1)
			}
		})
	}
	all.Wait()
	return float64(found.Load()) / time.Since(begun).Seconds()
}
