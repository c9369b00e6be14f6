package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
	"gocloud.dev/blob"

	"steward/internal/cluster"
	"steward/internal/platform"
)

// What servers write between backups is one object a file,
// clusters/N/wal/ARCHIVE-ID/NAME.zst.age. An object appears whole or not at all,
// and its encryption shows whether it is what was written.

const (
	walFolder = "wal/"
	walSuffix = ".zst.age"
)

// Segment names an archived file of what a server has logged: a segment of PostgreSQL's
// WAL, or a binary log of MySQL's family.
type Segment struct {
	Cluster         cluster.ID
	ArchiveID, Name string
	// Modified is when it was archived; only what is listed has it.
	Modified time.Time
}

var walNames = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.]*$`)

func (w Segment) key() (string, error) {
	if !walNames.MatchString(w.ArchiveID) || !walNames.MatchString(w.Name) {
		return "", fmt.Errorf("%q of %q can't be archived", w.Name, w.ArchiveID)
	}
	return folderOf(w.Cluster) + walFolder + w.ArchiveID + "/" + w.Name + walSuffix, nil
}

// PutSegment archives a file. One that is there already is left as it is: all nodes
// of a database hand over the same.
func (a *Archive) PutSegment(ctx context.Context, w Segment, key []byte, r io.Reader) error {
	if err := a.putSegment(ctx, w, key, r); err != nil {
		return fmt.Errorf("archive %s of cluster %d: %w", w.Name, w.Cluster, err)
	}
	return nil
}

func (a *Archive) putSegment(ctx context.Context, w Segment, key []byte, r io.Reader) error {
	object, err := w.key()
	if err != nil {
		return err
	}
	there := false
	err = a.step(ctx, func(ctx context.Context) (err error) { there, err = a.bucket.Exists(ctx, object); return err })
	if err != nil || there {
		return err
	}
	id, err := parseKey(key)
	if err != nil {
		return err
	}
	to, err := a.upload(ctx, object, partBytes(0))
	if err != nil {
		return err
	}
	_, err = pipeline(id, to, &counter{}, func(out io.Writer) (c platform.Copy, err error) {
		_, err = io.Copy(out, r)
		return c, err
	})
	if err != nil {
		return errors.Join(err, to.abandon())
	}
	if err := to.Close(); err != nil {
		return err
	}
	return a.settle(object)
}

// GetSegment reads an archived file; ErrNotFound when there is none such.
func (a *Archive) GetSegment(ctx context.Context, w Segment, key []byte, out io.Writer) error {
	if err := a.getSegment(ctx, w, key, out); err != nil {
		return fmt.Errorf("read %s of cluster %d: %w", w.Name, w.Cluster, err)
	}
	return nil
}

func (a *Archive) getSegment(ctx context.Context, w Segment, key []byte, out io.Writer) error {
	object, err := w.key()
	if err != nil {
		return err
	}
	id, err := parseKey(key)
	if err != nil {
		return err
	}
	stored, err := a.object(ctx, object)
	if err != nil {
		return err
	}
	defer stored.Close()
	plain, err := age.Decrypt(stored, id)
	if err != nil {
		return stored.blame(err)
	}
	unpacked, err := zstd.NewReader(plain, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return fmt.Errorf("uncompress: %w", err)
	}
	defer unpacked.Close()
	if _, err := unpacked.WriteTo(out); err != nil {
		return stored.blame(err)
	}
	return nil
}

// ListSegments are all archived files of a cluster, in no order.
func (a *Archive) ListSegments(ctx context.Context, c cluster.ID) ([]Segment, error) {
	var all []Segment
	prefix := folderOf(c) + walFolder
	err := a.each(ctx, prefix, func(o *blob.ListObject) error {
		archiveID, name := path.Split(strings.TrimPrefix(o.Key, prefix))
		if name, ok := strings.CutSuffix(name, walSuffix); ok {
			all = append(all, Segment{c, strings.TrimSuffix(archiveID, "/"), name, o.ModTime})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list what was archived of cluster %d: %w", c, err)
	}
	return all, nil
}

// DeleteSegments takes archived files away; nil when they aren't there.
func (a *Archive) DeleteSegments(ctx context.Context, all ...Segment) error {
	for _, w := range all {
		object, err := w.key()
		if err == nil {
			err = a.remove(ctx, object)
		}
		if err != nil {
			return fmt.Errorf("delete %s of cluster %d: %w", w.Name, w.Cluster, err)
		}
	}
	return nil
}
