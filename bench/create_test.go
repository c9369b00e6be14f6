package bench

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/test/harness"
)

// rounds of floor and product, interleaved.
var rounds = flag.Int("rounds", 9, "how often each create is measured; the median counts")

// BenchmarkCreate compares POST to the first SELECT over verified TLS through
// the gateway with a template clone, start and SELECT by hand.
func BenchmarkCreate(b *testing.B) {
	for _, engine := range []string{"postgresql/15", "mysql/10.11"} {
		b.Run(strings.ReplaceAll(engine, "/", "-"), func(b *testing.B) {
			s := harness.New(b)
			floor := newFloor(b, engine)
			warm(b, s, engine)
			var byHand, product []time.Duration
			for range *rounds {
				byHand = append(byHand, floor.create(b))
				product = append(product, createAndSelect(b, s, engine, 1)...)
				removeAll(b, s)
			}
			ten := createAndSelect(b, s, engine, 10)
			tenByHand := floor.createMany(b, 10)
			fmt.Printf("%s: by hand p50 %v (ten at once p95 %v), steward p50 %v, ten at once p50 %v p95 %v\n", engine,
				quantile(byHand, .5).Round(time.Millisecond), quantile(tenByHand, .95).Round(time.Millisecond),
				quantile(product, .5).Round(time.Millisecond), quantile(ten, .5).Round(time.Millisecond), quantile(ten, .95).Round(time.Millisecond))
			report(b, engine+" create p50 / by hand p50", ratio(quantile(product, .5), quantile(byHand, .5)), "ratio-p50", "≤ 1.5")
			report(b, engine+" ten at once p95 / one by hand p50", ratio(quantile(ten, .95), quantile(byHand, .5)), "ratio-p95", "≤ 3")
			report(b, engine+" ten at once p95 / ten by hand p95", ratio(quantile(ten, .95), quantile(tenByHand, .95)), "ratio-p95-same", "≤ 3")
			removeAll(b, s)
		})
	}
}

// BenchmarkCreateThree compares three nodes, both replicas streaming, with one.
func BenchmarkCreateThree(b *testing.B) {
	for _, engine := range []string{"postgresql/15", "mysql/10.11"} {
		b.Run(strings.ReplaceAll(engine, "/", "-"), func(b *testing.B) {
			s := harness.New(b)
			warm(b, s, engine)
			var one, three []time.Duration
			for range *rounds {
				one = append(one, createSized(b, s, engine, 1, 1)...)
				three = append(three, createSized(b, s, engine, 3, 1)...)
				removeAll(b, s)
				time.Sleep(time.Second) // the pool refills; there is no API for it
			}
			name := fmt.Sprintf("%s three nodes p50 (%v) / one node p50 (%v)", engine, quantile(three, .5).Round(time.Millisecond), quantile(one, .5).Round(time.Millisecond))
			report(b, name, ratio(quantile(three, .5), quantile(one, .5)), "ratio-three", "≤ 2")
		})
	}
}

// BenchmarkGrow compares two more nodes for a database that is there with the
// creation of three: from the request until all are active.
func BenchmarkGrow(b *testing.B) {
	for _, engine := range []string{"postgresql/15", "mysql/10.11"} {
		b.Run(strings.ReplaceAll(engine, "/", "-"), func(b *testing.B) {
			s := harness.New(b)
			warm(b, s, engine)
			var three, grown []time.Duration
			for range *rounds {
				three = append(three, createSized(b, s, engine, 3, 1)...)
				spec := harness.Small("bench-grow", engine)
				grown = append(grown, grow(b, s, s.CreateActive(spec)))
				removeAll(b, s)
			}
			name := fmt.Sprintf("%s 1 → 3 p50 (%v) / three nodes p50 (%v)", engine, quantile(grown, .5).Round(time.Millisecond), quantile(three, .5).Round(time.Millisecond))
			report(b, name, ratio(quantile(grown, .5), quantile(three, .5)), "ratio-grow", "≤ 2")
		})
	}
}

// grow gives a database of one node two more.
func grow(b *testing.B, s *harness.Server, d harness.Database) time.Duration {
	b.Helper()
	begun := time.Now()
	if status, body := s.Call("PUT", d.Path(), map[string]any{"cluster_size": 3}, nil); status != 200 {
		b.Fatalf("cluster_size: %d %s", status, body)
	}
	d.Members = nil // an answer's are added to what is there
	d = s.AwaitStatus(d, "active")
	took := time.Since(begun)
	if len(d.Members) != 3 {
		b.Fatalf("%s has the members %v", d.Label, d.Members)
	}
	return took
}

// warm waits for templates and pool, as a server that has been up for a while has them.
func warm(b *testing.B, s *harness.Server, engine string) {
	createAndSelect(b, s, engine, 1)
	removeAll(b, s)
	time.Sleep(2 * time.Second) // the pool refills; there is no API for it
}

func createAndSelect(b *testing.B, s *harness.Server, engine string, n int) []time.Duration {
	return createSized(b, s, engine, 1, n)
}

// createSized makes databases of so many nodes at the same time.
func createSized(b *testing.B, s *harness.Server, engine string, nodes, n int) []time.Duration {
	took := make([]time.Duration, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			begun := time.Now()
			spec := harness.Small(fmt.Sprintf("bench-%d-%d", nodes, i), engine)
			spec["cluster_size"] = nodes
			d := s.CreateActive(spec)
			if err := selectOne(d, s.Credentials(d)); err != nil {
				b.Error(err)
				return
			}
			took[i] = time.Since(begun)
			if len(d.Members) != nodes {
				b.Errorf("%s has the members %v, want %d of them", d.Label, d.Members, nodes)
			}
		})
	}
	wg.Wait()
	if b.Failed() {
		b.FailNow() // a time of what wasn't made is none
	}
	return took
}

// selectOne asks a database something through the gateway, over verified TLS.
func selectOne(d harness.Database, c harness.Credentials) error {
	db, err := harness.Connect(context.Background(), d, c, "127.0.0.1")
	if err != nil {
		return err
	}
	defer db.Close()
	var one int
	if err := db.QueryRow("SELECT 1").Scan(&one); err != nil || one != 1 {
		return fmt.Errorf("SELECT 1 of %s: %d, %w", d.Label, one, err)
	}
	return nil
}

func removeAll(b *testing.B, s *harness.Server) {
	var list struct {
		Data []harness.Database `json:"data"`
	}
	if status, body := s.Call("GET", "/v4/databases/instances", nil, &list); status != 200 || len(list.Data) == 0 {
		b.Fatalf("nothing to delete: %d %s", status, body)
	}
	for _, d := range list.Data {
		if status, body := s.Call("DELETE", d.Path(), nil, nil); status != 200 {
			b.Fatalf("delete: %d %s", status, body)
		}
	}
	s.Eventually("removed", s.Leftovers)
	// Let the pool refill, so that each round starts from the same state.
	time.Sleep(time.Second)
}
