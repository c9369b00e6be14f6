package archive_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/archive"
	"steward/internal/archive/archivetest"
	"steward/internal/platform"
)

func writing(r *http.Request) bool { return r.Method == http.MethodPut || r.Method == http.MethodPost }

func reading(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "data.zst.age")
}

// twoParts is how much is uploaded in two parts, of which a half can't be packed; the second has more than a mebibyte.
const twoParts = 14 << 20

// openWithin is for what is to fail, or may take that long: a busy machine takes
// longer than the shortest of these times for what goes well.
func openWithin(t *testing.T, b *archivetest.Bucket, timeout time.Duration) *archive.Archive {
	t.Helper()
	a, err := archive.Open(t.Context(), archive.Options{URL: b.URL(), Logger: slog.New(slog.DiscardHandler), Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// TestBucketFails: an upload that can't go on is none, whatever befell it and
// where; and once the bucket is back there is one, and nothing else.
func TestBucketFails(t *testing.T) {
	t.Parallel()
	bucketFails(t, map[string]archivetest.Trouble{
		"full in the middle": {Status: http.StatusInsufficientStorage, Match: writing, After: 2},
		"reset in a part":    {Kind: archivetest.Reset, Match: writing, After: 1, Bytes: 1 << 20},
		"hangs":              {Kind: archivetest.Hang, Match: writing, After: 2, Bytes: 1 << 20},
	})
}

// TestBucketFailsThorough: at other moments, and in other ways.
func TestBucketFailsThorough(t *testing.T) {
	t.Parallel()
	bucketFails(t, map[string]archivetest.Trouble{
		"full":               {Status: http.StatusInsufficientStorage, Match: writing},
		"refused at the end": {Status: http.StatusServiceUnavailable, Match: writing, After: 3},
		"broken":             {Status: http.StatusInternalServerError, Match: writing, After: 1},
		"reset and away":     {Kind: archivetest.Reset, After: 4},
	})
}

func bucketFails(t *testing.T, troubles map[string]archivetest.Trouble) {
	t.Helper()
	b := newBucket(t)
	unhurried, key, data := open(t, b.URL()), newKey(t), content(twoParts)
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			timeout := 3 * time.Second // what answers has that long, on a busy machine, too
			if trouble.Kind == archivetest.Hang {
				timeout = 200 * time.Millisecond
			}
			a := openWithin(t, b, timeout)
			b.Break(trouble)
			_, err := a.Put(t.Context(), manifest(1), key, func(w io.Writer) (platform.Copy, error) {
				_, err := w.Write(data)
				if err != nil {
					err = errors.New("broken pipe") // as of a program
				}
				return platform.Copy{}, err
			})
			if !errors.Is(err, archive.ErrBucket) {
				t.Errorf("stored: %v", err)
			}
			if is := errors.Is(err, archive.ErrFull); is != strings.HasPrefix(name, "full") {
				t.Errorf("full: %v: %v", is, err)
			}
			b.Mend()
			if list, err := unhurried.List(t.Context()); err != nil || slices.ContainsFunc(list, func(s archive.Stored) bool { return s.Complete }) {
				t.Errorf("list: %+v, %v", list, err)
			}
			put(t, unhurried, 1, key, data[:1<<20])
			objects, uploads, err := b.Keys()
			if err != nil || len(objects) != 2 || len(uploads) > 0 {
				t.Errorf("objects %v, uploads %v, %v", objects, uploads, err)
			}
		})
	}
}

// TestUploadLeft: what a killed server has begun to upload is listed, and goes
// with the backup.
func TestUploadLeft(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	a, key := openWithin(t, b, 5*time.Second), newKey(t)
	b.Break(archivetest.Trouble{Kind: archivetest.Reset, After: 5})
	_, err := a.Put(t.Context(), manifest(1), key, func(w io.Writer) (platform.Copy, error) {
		_, err := w.Write(content(twoParts))
		return platform.Copy{}, err
	})
	b.Mend()
	if _, uploads, failed := b.Keys(); err == nil || failed != nil || len(uploads) != 1 {
		t.Fatalf("uploads %v (%v); %v", uploads, failed, err)
	}
	if list, err := a.List(t.Context()); err != nil || len(list) != 1 || list[0].Complete || list[0].Backup != 1 || list[0].Modified.IsZero() {
		t.Errorf("list: %+v, %v", list, err)
	}
	if err := a.Delete(t.Context(), 7, 1); err != nil {
		t.Error(err)
	}
	if objects, uploads, err := b.Keys(); err != nil || len(objects)+len(uploads) > 0 {
		t.Errorf("left: %v %v, %v", objects, uploads, err)
	}
}

// TestBucketComesBack: what passes by is waited for, without beginning anew.
func TestBucketComesBack(t *testing.T) {
	t.Parallel()
	bucketComesBack(t, map[string]archivetest.Trouble{
		"reset": {Kind: archivetest.Reset, Match: writing, After: 2, Bytes: 1 << 20},
	}, map[string]archivetest.Trouble{
		"broken off": {Kind: archivetest.Reset, Match: reading, Bytes: 2 << 20},
		"silent":     {Kind: archivetest.Hang, Match: reading, Bytes: 2 << 20},
	})
}

// TestBucketComesBackThorough: what passes by in other ways.
func TestBucketComesBackThorough(t *testing.T) {
	t.Parallel()
	bucketComesBack(t, map[string]archivetest.Trouble{
		"refused": {Status: http.StatusServiceUnavailable, Match: writing, After: 1},
	}, map[string]archivetest.Trouble{
		"refused":       {Status: http.StatusServiceUnavailable, Match: reading},
		"at the end of": {Kind: archivetest.Reset, Match: reading, Bytes: 1 << 30},
	})
}

func bucketComesBack(t *testing.T, puts, gets map[string]archivetest.Trouble) {
	t.Helper()
	b, key, data := newBucket(t), newKey(t), content(twoParts)
	// The bucket answers once it has taken in a whole part, for which it needs seconds on a busy machine. Either trouble lasts
	// for three twentieths of the timeout.
	unhurried, a := openWithin(t, b, 10*time.Second), openWithin(t, b, 2*time.Second)
	for name, trouble := range puts {
		t.Run("put, "+name, func(t *testing.T) {
			trouble.For = 1500 * time.Millisecond
			b.Break(trouble)
			put(t, unhurried, 1, key, data)
			if !b.Struck() {
				t.Error("nothing went wrong")
			}
			b.Mend()
			if _, err := unhurried.Verify(t.Context(), 7, 1); err != nil {
				t.Error(err)
			}
		})
	}
	data = data[:6<<20]
	put(t, unhurried, 2, key, data)
	for name, trouble := range gets {
		t.Run("get, "+name, func(t *testing.T) {
			trouble.For = 300 * time.Millisecond
			b.Break(trouble)
			if got, err := get(t, a, 2, key); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if !b.Struck() {
				t.Error("nothing went wrong")
			}
		})
	}
}

// TestEndOfAnUploadWhoseAnswerIsLost: a copy of hours isn't thrown away because the
// bucket, asked for its end again, knows nothing of the upload any more.
func TestEndOfAnUploadWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	a, key, data := openWithin(t, b, 5*time.Second), newKey(t), content(twoParts)
	ending := func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploadId") }
	b.Break(archivetest.Trouble{Kind: archivetest.Lose, Match: ending, For: 100 * time.Millisecond})
	put(t, a, 1, key, data)
	if !b.Struck() {
		t.Error("no answer was lost")
	}
	b.Mend()
	if got, err := get(t, a, 1, key); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	// What isn't there afterwards isn't stored.
	gone := func() {
		if err := a.Delete(t.Context(), 7, 2); err != nil {
			t.Error(err)
		}
	}
	b.Break(archivetest.Trouble{Kind: archivetest.Lose, Match: ending, For: 100 * time.Millisecond, Struck: gone})
	_, err := a.Put(t.Context(), manifest(2), key, func(w io.Writer) (platform.Copy, error) {
		_, err := w.Write(data)
		return platform.Copy{}, err
	})
	if !errors.Is(err, archive.ErrBucket) {
		t.Errorf("what was taken away is stored: %v", err)
	}
}

// TestUnreadable: a backup that can't be read isn't a damaged one.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	b := newBucket(t)
	a, unhurried, key := openWithin(t, b, 200*time.Millisecond), open(t, b.URL()), newKey(t)
	put(t, unhurried, 1, key, content(8<<20))
	wal := archive.Segment{Cluster: 7, ArchiveID: "1", Name: "000000010000000000000001"}
	if err := unhurried.PutSegment(t.Context(), wal, key, bytes.NewReader(content(8<<20))); err != nil {
		t.Fatal(err)
	}
	for name, trouble := range map[string]archivetest.Trouble{
		"reset":   {Kind: archivetest.Reset, Bytes: 3 << 20},
		"hangs":   {Kind: archivetest.Hang, Bytes: 3 << 20},
		"refused": {Status: http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			trouble.Match = reading
			b.Break(trouble)
			if _, err := get(t, a, 1, key); !errors.Is(err, archive.ErrBucket) || errors.Is(err, archive.ErrDamaged) {
				t.Errorf("get: %v", err)
			}
			b.Break(trouble)
			if _, err := a.Verify(t.Context(), 7, 1); !errors.Is(err, archive.ErrBucket) || errors.Is(err, archive.ErrDamaged) {
				t.Errorf("verify: %v", err)
			}
			trouble.Match = func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/wal/") }
			b.Break(trouble)
			if err := a.GetSegment(t.Context(), wal, key, io.Discard); !errors.Is(err, archive.ErrBucket) || errors.Is(err, archive.ErrDamaged) {
				t.Errorf("wal: %v", err)
			}
		})
	}
	b.Mend()
	if _, err := get(t, unhurried, 1, key); err != nil {
		t.Error(err)
	}
}
