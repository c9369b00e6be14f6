package host_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform/host"
)

// binlogs takes binary logs that are uploaded.
type binlogs struct {
	names  []string
	bytes  int64
	refuse error
}

func (b *binlogs) Put(_ context.Context, archiveID, name string, r io.Reader) error {
	if b.refuse != nil {
		return b.refuse
	}
	n, err := io.Copy(io.Discard, r)
	b.names, b.bytes = append(b.names, archiveID+" "+name), b.bytes+n
	return err
}

func (b *binlogs) ReportGap(context.Context) error { return errors.New("nothing was lost") }

// TestArchiveBinlogs: a running server's log is uploaded once, also over a restart of
// steward, and is the server's own to let go again when that was switched off.
func TestArchiveBinlogs(t *testing.T) {
	t.Parallel()
	s := newSite(t, distributionOf(t, engine.FlavourMariaDB))
	s.o.Continuous = true
	d := s.started(t)
	want := s.wanted(t, 1)
	want.Engine = cluster.MySQL
	settle(t, d, want)
	load := newLoad(t, s, want.Cluster) // which makes a table
	b := &binlogs{refuse: errors.New("the bucket is away")}
	if err := d.Upload(t.Context(), want, b); !errors.Is(err, b.refuse) {
		t.Errorf("%v", err)
	}
	b.refuse = nil
	upload := func(d *host.Driver, names int) {
		t.Helper()
		if err := d.Upload(t.Context(), want, b); err != nil {
			t.Error(err)
		}
		if len(b.names) != names {
			t.Errorf("uploaded: %v, want %d", b.names, names)
		}
	}
	upload(d, 1)
	if b.names[0] != "origin 00000000.0000000000000000.0000000000000001" || b.bytes < 300 {
		t.Errorf("uploaded: %v, %d bytes", b.names, b.bytes)
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
