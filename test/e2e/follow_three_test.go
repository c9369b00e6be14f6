package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/test/harness"
)

// TestFollowOntoThreeNodesThorough brings two logical databases over in one migration, with rows that are large enough to take turns, and another node becomes the
// primary while they follow. The source lets nobody in any more when they are cut over: all rows are here once, and its owner is told what to do there.
func TestFollowOntoThreeNodesThorough(t *testing.T) {
	t.Parallel()
	src := harness.PostgreSQLByHand(t, "wal_level=logical")
	owner := src.Open(t, "postgres")
	exec1(t, owner, "CREATE ROLE leaver SUPERUSER LOGIN PASSWORD '"+strings.ReplaceAll(src.Password, "'", "''")+"'")
	s := harness.New(t, importing, ofPostgreSQL)
	spec := harness.Small("followed", postgresql)
	spec["cluster_size"], spec["replication_commit_type"] = 3, "on"
	d := s.CreateActive(spec)
	request := from(src, src.Password, map[string]any{"name": "shop"}, map[string]any{"name": "books"})
	request["mode"] = "replicate"
	request["source"].(map[string]any)["username"] = "leaver"

	sources := map[string]*sql.DB{}
	stop, all := make(chan struct{}), &sync.WaitGroup{}
	for _, name := range []string{"shop", "books"} {
		exec1(t, owner, "CREATE DATABASE "+name)
		db := src.Open(t, name)
		exec1(t, db, "CREATE TABLE sales (id bigserial PRIMARY KEY, note text); INSERT INTO sales (note) SELECT md5(g::text) FROM generate_series(1, 2000) g")
		sources[name] = db
		all.Go(func() { sell(t.Context(), db, stop) })
	}
	m := beginFollowing(t, s, d, request)
	killed := s.Primary(d).Pid
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d = s.AwaitHealthy(d, 3, killed)
	here := map[string]*sql.DB{}
	for name, db := range sources {
		c := s.Credentials(d)
		c.Logical = name
		here[name] = s.MustConnect(d, c)
		now := one(t, db, "SELECT max(id)::text FROM sales")
		s.Eventually("what was written after the failover is here", func() error {
			if n := one(t, here[name], "SELECT count(*)::text FROM sales WHERE id = "+now); n != "1" {
				return fmt.Errorf("%s isn't there", now)
			}
			return nil
		})
	}
	exec1(t, owner, "ALTER ROLE leaver NOLOGIN")
	close(stop)
	all.Wait()
	if status, body := s.Call("POST", fmt.Sprintf("%s/migrations/%d/cutover", d.Path(), m.ID), nil, nil); status != http.StatusOK {
		t.Fatalf("cutover: %d %s", status, body)
	}
	if m = awaitMigrated(t, s, d, m.ID); m.Status != "finished" {
		t.Fatalf("it ended as %s, %s", m.Status, *orNothing(m.Problem))
	}
	const sum = "SELECT count(*) || ' ' || md5(string_agg(id || md5(note), ',' ORDER BY id)) FROM sales"
	for name, db := range sources {
		if got, want := one(t, here[name], sum), one(t, db, sum); got != want {
			t.Errorf("%s: %s here, %s at the source", name, got, want)
		}
	}
	told := regexp.MustCompile(`in (shop|books), (SELECT pg_drop_replication_slot\('steward_[0-9a-f]+'\); DROP PUBLICATION steward_[0-9a-f]+;)`).FindAllStringSubmatch(*orNothing(m.Problem), -1)
	if len(told) != len(sources) {
		t.Fatalf("the source's owner is told %q", *orNothing(m.Problem))
	}
	for _, do := range told {
		exec1(t, sources[do[1]], do[2])
	}
	for _, db := range sources {
		nothingLeft(t, db)
	}
}

// sell writes rows, one in a hundred of which is large, changes some and removes others, until stop is closed.
func sell(ctx context.Context, db *sql.DB, stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(8 * time.Millisecond): // what customers do between two purchases
		}
		statement := []string{
			"INSERT INTO sales (note) VALUES ('small')", "UPDATE sales SET note = note || 'u' WHERE id = %d", "DELETE FROM sales WHERE id = %d", "UPDATE sales SET id = -id WHERE id = %d",
		}[n%4]
		if strings.Contains(statement, "%d") {
			statement = fmt.Sprintf(statement, 1+n%2000)
		}
		const large = 100
		if n%large == 0 {
			statement = "INSERT INTO sales (note) VALUES (repeat(md5(random()::text), 100000))" // 3 MB
		}
		_, _ = db.ExecContext(ctx, statement) // what isn't written there isn't to be here
	}
}
