package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/archive"
	"steward/internal/archive/archivetest"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/platform"
	"steward/internal/testdir"
)

// bucket is a place that backups are kept in.
type bucket struct {
	name string
	url  string
	// bytes are enough for what happens in parts.
	bytes int
}

func buckets(t *testing.T) []bucket {
	t.Helper()
	return []bucket{{"folder", "file://" + filepath.ToSlash(filepath.Join(t.TempDir(), "backups")), 2 << 20}, {"s3", newBucket(t).URL(), twoParts}}
}

// TestMain lets this process use the tests' buckets, which all take the same key.
func TestMain(m *testing.M) {
	for _, setting := range (*archivetest.Bucket)(nil).Env() {
		name, value, _ := strings.Cut(setting, "=")
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func newBucket(t *testing.T) *archivetest.Bucket {
	t.Helper()
	testdir.NeedsServers(t)
	return archivetest.NewBucket(t)
}

func open(t *testing.T, url string) *archive.Archive {
	t.Helper()
	a, err := archive.Open(t.Context(), archive.Options{URL: url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func newKey(t *testing.T) []byte {
	t.Helper()
	key, err := archive.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func manifest(b backup.ID) archive.Manifest {
	return archive.Manifest{
		Cluster: 7, Backup: b, Label: "one", Type: backup.Snapshot, Engine: cluster.PostgreSQL, Series: "15",
		Created: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC),
	}
}

// content is half noise, half text, as data is.
func content(n int) []byte {
	b := bytes.Repeat([]byte("a row like any other; "), n/22+1)[:n]
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(b[:n/2])
	return b
}

func put(t *testing.T, a *archive.Archive, b backup.ID, key, data []byte) archive.Manifest {
	t.Helper()
	m, err := a.Put(t.Context(), manifest(b), key, func(w io.Writer) (platform.Copy, error) {
		_, err := io.Copy(w, bytes.NewReader(data))
		return platform.Copy{Installation: "postgresql-15.18-debian", ServerVersion: "15.18"}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func get(t *testing.T, a *archive.Archive, b backup.ID, key []byte) ([]byte, error) {
	t.Helper()
	m, r, err := a.Get(t.Context(), 7, b, key)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	content := bytes.NewBuffer(make([]byte, 0, m.Bytes+bytes.MinRead)) // to grow it takes the race detector long
	_, err = content.ReadFrom(r)
	return content.Bytes(), err
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, b := range buckets(t) {
		t.Run(b.name, func(t *testing.T) {
			a, key, data := open(t, b.url), newKey(t), content(b.bytes)
			m := put(t, a, 1, key, data)
			if m.Bytes != int64(len(data)) || m.StoredBytes <= 0 || m.StoredBytes >= m.Bytes*3/4 {
				t.Errorf("%d bytes stored as %d", m.Bytes, m.StoredBytes)
			}
			if got, err := get(t, a, 1, key); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			if read, err := a.Verify(t.Context(), 7, 1); err != nil || read != m {
				t.Errorf("verify: %+v, %v", read, err)
			}
			if _, err := get(t, a, 1, newKey(t)); err == nil || errors.Is(err, archive.ErrDamaged) {
				t.Errorf("with another key: %v", err)
			}
			if _, err := get(t, a, 2, key); !errors.Is(err, archive.ErrNotFound) {
				t.Errorf("one that isn't there: %v", err)
			}
			list, err := a.List(t.Context())
			if err != nil || len(list) != 1 || !list[0].Complete || list[0].Cluster != 7 || list[0].Backup != 1 {
				t.Errorf("list: %+v, %v", list, err)
			}
			for range 2 {
				if err := a.Delete(t.Context(), 7, 1); err != nil {
					t.Error(err)
				}
			}
			put(t, a, 3, key, data[:100])
			if err := a.SaveRecovery(t.Context(), 7, []byte("sealed")); err != nil {
				t.Error(err)
			}
			if got, err := a.Recovery(t.Context(), 7); err != nil || string(got) != "sealed" {
				t.Errorf("recovery: %q, %v", got, err)
			}
			for range 2 {
				if err := a.DeleteCluster(t.Context(), 7); err != nil {
					t.Error(err)
				}
			}
			if list, err := a.List(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("left: %+v, %v", list, err)
			}
		})
	}
}

// TestDamage: whatever byte is changed, and wherever the data is cut, reading
// never comes to a good end.
func TestDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, key, data := open(t, "file://"+dir), newKey(t), content(200<<10)
	put(t, a, 1, key, data)
	file := filepath.Join(dir, "clusters/7/backups/1/data.zst.age")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		damaged := bytes.Clone(whole)
		at := rapid.IntRange(0, len(whole)-1).Draw(r, "at")
		if rapid.Bool().Draw(r, "cut") {
			damaged = damaged[:at]
		} else {
			damaged[at] ^= byte(1 << rapid.IntRange(0, 7).Draw(r, "bit"))
		}
		if err := os.WriteFile(file, damaged, 0o600); err != nil {
			r.Fatal(err)
		}
		if _, err := a.Verify(t.Context(), 7, 1); !errors.Is(err, archive.ErrDamaged) {
			r.Fatalf("verify: %v", err)
		}
		if _, err := get(t, a, 1, key); err == nil {
			r.Fatal("a damaged backup is read to its end")
		}
	})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Verify(t.Context(), 7, 1); !errors.Is(err, archive.ErrDamaged) {
		t.Errorf("without data: %v", err)
	}
}

// TestUnfinished: what was given up is no backup, and an older one under the
// same number isn't either.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	for _, b := range buckets(t) {
		t.Run(b.name, func(t *testing.T) {
			a, key := open(t, b.url), newKey(t)
			put(t, a, 1, key, content(1<<20))
			failure := errors.New("the server died")
			ctx, cancel := context.WithCancel(t.Context())
			for name, write := range map[string]archive.Source{
				"the writer fails": func(w io.Writer) (platform.Copy, error) {
					_, err := w.Write(content(b.bytes))
					return platform.Copy{}, errors.Join(failure, err)
				},
				"cancelled": func(w io.Writer) (platform.Copy, error) {
					if _, err := w.Write(content(b.bytes)); err != nil {
						return platform.Copy{}, err
					}
					cancel()
					_, err := w.Write(content(1 << 20))
					return platform.Copy{}, errors.Join(err, ctx.Err())
				},
			} {
				if _, err := a.Put(ctx, manifest(1), key, write); err == nil {
					t.Errorf("%s: stored", name)
				}
			}
			if _, err := a.Manifest(t.Context(), 7, 1); !errors.Is(err, archive.ErrNotFound) {
				t.Errorf("manifest: %v", err)
			}
			list, err := a.List(t.Context())
			if err != nil || len(list) > 0 && list[0].Complete {
				t.Errorf("list: %+v, %v", list, err)
			}
		})
	}
}

// TestMemory: what passes through isn't kept.
func TestMemory(t *testing.T) {
	a, key, piece := open(t, "file://"+t.TempDir()), newKey(t), content(1<<20)
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, err := a.Put(t.Context(), manifest(1), key, func(w io.Writer) (c platform.Copy, err error) {
		for i := range 100 {
			if _, err := w.Write(piece); err != nil {
				return c, err
			}
			if i == 90 {
				runtime.GC()
				runtime.ReadMemStats(&during)
			}
		}
		return c, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if grown := int64(during.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("%d MiB are held towards the end of 100", grown>>20)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	for url, want := range map[string]string{
		"nowhere://x":               "(s3://)",
		"gs://bucket":               "archive gs://bucket: a bucket is a folder (file://) or speaks the S3 protocol (s3://)",
		"azblob://bucket":           "(s3://)",
		"%":                         "archive",
		"file:///proc/nothing/here": "archive",
	} {
		if _, err := archive.Open(t.Context(), archive.Options{URL: url}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", url, err, want)
		}
	}
}

// TestListWhileFilesComeAndGo: uploads that end while a folder is listed end no listing.
func TestListWhileFilesComeAndGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := open(t, "file://"+dir)
	put(t, a, 1, newKey(t), content(1000))
	stop, ended := make(chan struct{}), make(chan struct{})
	defer func() { close(stop); <-ended }()
	go func() {
		defer close(ended)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Microsecond):
			}
			path := filepath.Join(dir, "clusters", "7", fmt.Sprintf("recovery.%d.tmp", n))
			if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Remove(path)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range 300 {
		if list, err := a.List(t.Context()); err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
	}
}
