package host_test

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"syscall"
	"testing"

	gopsutil "github.com/shirou/gopsutil/v4/process"
	"golang.org/x/sys/unix"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/measure"
	"steward/internal/platform"
	"steward/internal/testdir"
	"steward/internal/testnet"
)

// onBlockDevice is a folder whose files the kernel reads from a device and writes to it. In memory it counts no bytes.
func onBlockDevice(t *testing.T) string {
	t.Helper()
	dir := testdir.OnDisk(t, "hd")
	var info unix.Stat_t
	if err := unix.Stat(dir, &info); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(info.Dev), unix.Minor(info.Dev))); err != nil {
		t.Fatalf("%s isn't on a block device, of which the kernel counts what is read and written: set TMPDIR to a folder on one (%v)", dir, err)
	}
	return dir
}

// storage is what processes had the kernel read from devices and write to them, in bytes.
func storage(pids []int) (read, written float64) {
	for _, pid := range pids {
		if p, err := gopsutil.NewProcess(int32(pid)); err == nil {
			if io, err := p.IOCounters(); err == nil {
				read, written = read+float64(io.DiskReadBytes), written+float64(io.DiskWriteBytes)
			}
		}
	}
	return read, written
}

// forgetFiles has the kernel keep nothing of a folder's files in memory.
func forgetFiles(t *testing.T, dir string) {
	t.Helper()
	err := testdir.Walk(dir, func(path string, e fs.DirEntry) error {
		if !e.Type().IsRegular() {
			return nil
		}
		return forgetFile(path)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func forgetFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// TestMeasureDisk has a database on a real disk write, and read what nobody has in memory any more, and compares what is measured with what the kernel counts.
func TestMeasureDisk(t *testing.T) { onEach(t, measureDisk, engine.FlavourPostgreSQL) }

func TestMeasureDiskThorough(t *testing.T) { onEach(t, measureDisk, engine.FlavourMariaDB) }

func measureDisk(t *testing.T, flavour engine.Flavour) {
	t.Helper()
	testdir.NeedsServers(t)
	s := newSiteIn(t, distributionOf(t, flavour), testnet.Inside(), onBlockDevice(t))
	m := &measuredNode{t: t, s: s, d: s.started(t), want: s.wanted(t, 1)}
	m.want.Engine, m.want.Series = s.o.Installations[0].Family(), s.o.Installations[0].Series
	if m.want.Engine == cluster.MySQL {
		m.want.Commit = ""
	}
	m.want.Hosts = settle(t, m.d, m.want).Hosts
	const least = 15 << 20 // of the 20 MB that are written, in pages
	moved := m.moves()
	queries := bulk(m.want.Engine)
	m.exec(queries[:len(queries)-1]...)
	moved("writing", measure.WriteBytes, least)

	// What is read next isn't in the server's memory: it ends in order, which waits for no session, and then at once. MariaDB loads again
	// by itself what it had in memory, before it is asked or meanwhile: all that the next server reads counts.
	if m.want.Engine == cluster.PostgreSQL {
		m.ends(syscall.SIGINT)
		m.ends(syscall.SIGKILL)
		forgetFiles(t, s.o.DataDir)
		moved = m.moves()
	} else {
		m.ends(syscall.SIGTERM)
		forgetFiles(t, s.o.DataDir)
		m.ends(syscall.SIGKILL)
		moved = m.movesSince(0, 0, platform.NodeReading{})
	}
	m.exec("SELECT count(*) FROM bulk WHERE t < 'x'")
	moved("reading", measure.ReadBytes, least)
}

// exec has a session of a customer's carry out statements.
func (m *measuredNode) exec(statements ...string) {
	m.t.Helper()
	db := m.s.customerDB(m.t, m.want.Cluster)
	defer db.Close()
	for _, q := range statements {
		if _, err := db.ExecContext(m.t.Context(), q); err != nil {
			m.t.Fatalf("%s: %v", q, err)
		}
	}
}

// ends has the server end by a signal, and waits for the next.
func (m *measuredNode) ends(by syscall.Signal) {
	m.t.Helper()
	life := m.read().Life
	if err := syscall.Kill(m.s.pid(m.t, m.want.ID), by); err != nil {
		m.t.Fatal(err)
	}
	await.True(m.t, "another server", func() bool { r := m.read(); return r.Life != life && r.Values[measure.Up] == 1 })
}

// moves begins to compare: what is returned waits until a metric has grown by as much as the kernel's count, and demands that it is as much as is known to be moved.
func (m *measuredNode) moves() func(what string, metric measure.Metric, least float64) {
	m.t.Helper()
	read, written := storage(m.s.processes(m.t))
	return m.movesSince(read, written, m.read())
}

// movesSince is moves since the kernel's counts and the reading of a moment.
func (m *measuredNode) movesSince(readBefore, writtenBefore float64, before platform.NodeReading) func(what string, metric measure.Metric, least float64) {
	return func(what string, metric measure.Metric, least float64) {
		m.t.Helper()
		await.NoError(m.t, what+" to be measured as the kernel counts", func() error { // both go on meanwhile
			read, written := storage(m.s.processes(m.t))
			now := m.read()
			measured, kernel := now.Values[metric]-before.Values[metric], written-writtenBefore
			if metric == measure.ReadBytes {
				kernel = read - readBefore
			}
			if !(measured >= least) || math.Abs(measured-kernel) > kernel/5+1<<20 {
				return fmt.Errorf("%s: %v bytes measured, the kernel says %v, at least %v were moved", metric.Definition().Name, measured, kernel, least)
			}
			return nil
		})
	}
}
