package logkeeper_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/platform/host/logkeeper"
)

// server holds a file open as a server does.
func server(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// TestKeep: what is too much is kept as a file of its own, so many of them, and what comes at once after that is left out
// and told.
func TestKeep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := logkeeper.File{Path: filepath.Join(dir, "out"), Kept: filepath.Join(dir, "out")}
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	k := logkeeper.New(logkeeper.Bounds{Most: 99, Files: 2, Pause: time.Minute}, func() time.Time { return now })
	out := server(t, f.Path)
	write := func(letter string, pause time.Duration) {
		t.Helper()
		now = now.Add(pause)
		if _, err := out.WriteString(strings.Repeat(letter, 100)); err != nil {
			t.Fatal(err)
		}
		if err := k.Keep(f); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	for _, letter := range []string{"a", "b", "c"} {
		write(letter, time.Minute)
	}
	write("d", time.Second)
	write("e", time.Second)
	if kept := read("out.1") + read("out.2"); kept != strings.Repeat("c", 100)+strings.Repeat("b", 100) {
		t.Errorf("kept: %s", kept)
	}
	at, bytes, ok := logkeeper.LeftOut(strings.TrimSuffix(read("out"), "\n"))
	if !ok || !at.Equal(now) || bytes < 200 || bytes > 300 {
		t.Errorf("left out: %v, %d, %v of %q", at, bytes, ok, read("out"))
	}
	for _, line := range []string{"", "steward: ", "steward: 2026-11-23T12:00:00Z, x bytes before this were left out", read("out") + "more"} {
		if _, _, ok := logkeeper.LeftOut(line); ok {
			t.Errorf("%q is a mark", line)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestALinkLeadsNowhere: a server's user owns the folder of its log.
func TestALinkLeadsNowhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	content := bytes.Repeat([]byte("x"), 1000)
	if err := os.WriteFile(victim, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, make := range []func(path string) error{
		func(path string) error { return os.Symlink(victim, path) },
		func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		f := logkeeper.File{Path: filepath.Join(dir, fmt.Sprint("log-", i)), Kept: filepath.Join(dir, "kept")}
		if err := make(f.Path); err != nil {
			t.Fatal(err)
		}
		if err := logkeeper.New(logkeeper.Bounds{Most: 10, Files: 1}, time.Now).Keep(f); err == nil {
			t.Errorf("%d: nobody minds", i)
		}
	}
	if after, err := os.ReadFile(victim); err != nil || !bytes.Equal(after, content) {
		t.Errorf("%d bytes are left, %v", len(after), err)
	}
}

// TestAFloodIsSmall: servers that write as fast as they can never have much on the disk, what is kept is bounded, and
// what is made later is seen too.
func TestAFloodIsSmall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const most, files = 64 << 10, 2
	var listed []logkeeper.File
	for i := range 3 {
		listed = append(listed, logkeeper.File{Path: filepath.Join(dir, fmt.Sprint("log-", i)), Kept: filepath.Join(dir, fmt.Sprint("kept-", i))})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	k := logkeeper.New(logkeeper.Bounds{Most: most, Files: files, Pause: 300 * time.Millisecond}, time.Now)
	running.Go(func() {
		k.Run(ctx, 50*time.Millisecond, func() []logkeeper.File { return listed }, func(err error) { t.Error(err) })
	})
	line := []byte(strings.Repeat("x", 99) + "\n")
	var written atomic.Int64
	for _, f := range listed[:2] {
		out := server(t, f.Path)
		running.Go(func() {
			for range time.NewTicker(time.Millisecond).C { // some megabytes a second
				if ctx.Err() != nil {
					return
				}
				for range 50 {
					n, _ := out.Write(line)
					written.Add(int64(n))
				}
			}
		})
	}
	largest := int64(0)
	await.True(t, "much is written", func() bool {
		for _, f := range listed {
			largest = max(largest, sizeOf(f.Path))
		}
		return written.Load() > 16<<20 && sizeOf(listed[1].Kept+".2") > 0
	})
	if largest > 4<<20 {
		t.Errorf("a file had %d bytes", largest)
	}
	for _, f := range listed[:2] {
		for n := range files + 2 {
			if size := sizeOf(fmt.Sprintf("%s.%d", f.Kept, n+1)); size > most*9/8 || n >= files && size > 0 {
				t.Errorf("%d of %s is %d bytes", n+1, f.Kept, size)
			}
		}
	}
	late := server(t, listed[2].Path)
	await.True(t, "a new file is seen", func() bool {
		_, err := late.Write(bytes.Repeat(line, 100))
		return err == nil && sizeOf(listed[2].Kept+".1") > most
	})
}
