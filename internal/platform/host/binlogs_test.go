package host_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/measure"
	"steward/internal/platform/host"
)

// TestArchiveBinlogs: a running server's log is uploaded once, also over a restart of
// steward, and is the server's own to let go again when that was switched off.
func TestArchiveBinlogs(t *testing.T) {
	t.Parallel()
	s := newSite(t, distributionOf(t, engine.FlavourMariaDB))
	s.o.Continuous = true
	var ahead atomic.Int64
	s.o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	d := s.started(t)
	want := s.wanted(t, 1)
	want.Engine = cluster.MySQL
	settle(t, d, want)
	load := newLoad(t, s, want.Cluster) // which makes a table
	to := &enginetest.Sink{Refuse: errors.New("the bucket is away")}
	if err := d.Upload(t.Context(), want, to); !errors.Is(err, to.Refuse) {
		t.Errorf("%v", err)
	}
	lag := func(d *host.Driver) time.Duration {
		t.Helper()
		all, err := d.Measure(t.Context(), want.ID)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return time.Duration(all[0].Values[measure.ArchiveLag]) * time.Second
	}
	if l := lag(d); l != 0 {
		t.Errorf("behind by %v when it has just begun", l)
	}
	ahead.Store(int64(20 * time.Minute))
	if l := lag(d); l < 20*time.Minute || l > 30*time.Minute {
		t.Errorf("behind by %v", l)
	}
	to.Refuse = nil
	upload := func(d *host.Driver, names int) {
		t.Helper()
		if err := d.Upload(t.Context(), want, to); err != nil {
			t.Error(err)
		}
		if len(to.Puts) != names || to.Gaps != 0 {
			t.Errorf("uploaded: %v, want %d, and %d gaps", to.Puts, names, to.Gaps)
		}
	}
	upload(d, 1)
	if l := lag(d); l != 0 {
		t.Errorf("behind by %v when all is archived", l)
	}
	if n := len(to.Files["origin 00000000.0000000000000000.0000000000000001"]); n < 300 {
		t.Errorf("uploaded: %v, %d bytes", to.Puts, n)
	}
	upload(d, 1)
	d.Close()
	d = s.started(t)
	settle(t, d, want)
	upload(d, 1)
	conn, err := load.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	expiry := func() int64 {
		t.Helper()
		got, err := conn.numbers(t.Context(), "SELECT @@GLOBAL.binlog_expire_logs_seconds")
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	if got := expiry(); got != 604800 {
		t.Errorf("kept for %d s", got)
	}
	d.Close()
	s.o.Continuous = false
	d = s.started(t)
	settle(t, d, want)
	if got := expiry(); got != 900 {
		t.Errorf("kept for %d s", got)
	}
	if err := conn.exec(t.Context(), "INSERT INTO written VALUES (1, '"+strings.Repeat("x", 90)+"')"); err != nil {
		t.Fatal(err)
	}
	upload(d, 1)
}
