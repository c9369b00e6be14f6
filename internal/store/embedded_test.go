package store_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/pgtest"
	"steward/internal/store"
)

func TestEmbedded(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "steward-embedded-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	options := store.EmbeddedOptions{Dir: filepath.Join(dir, "store"), RunDir: filepath.Join(dir, "run"), Logger: pgtest.Logger(t)}
	ctx := context.Background()
	first, err := store.StartEmbedded(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.StopEmbedded(ctx, options.Dir); err != nil {
			t.Error(err)
		}
	})
	exec := func(sql string) error {
		conn, err := pgx.Connect(ctx, first.URL())
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, sql)
		return err
	}
	if err := exec("CREATE TABLE kept AS SELECT 1 AS n"); err != nil {
		t.Fatal(err)
	}

	first.Leave()
	before := postmaster(t, options.Dir)
	second, err := store.StartEmbedded(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	if after := postmaster(t, options.Dir); after != before {
		t.Errorf("a running store was started again: %d, then %d", before, after)
	}

	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		if postmaster(t, options.Dir) != before {
			if err = exec("SELECT n FROM kept"); err == nil {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("not back after kill -9: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := second.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := exec("SELECT 1"); err == nil {
		t.Error("it answers after Stop")
	}
}

// postmaster is the server's process id, by its own pid file.
func postmaster(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.SplitN(string(text), "\n", 2)[0])
	if err != nil {
		t.Fatal(fmt.Errorf("postmaster.pid: %w", err))
	}
	return pid
}
