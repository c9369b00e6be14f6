package barman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// segmentName is that of a file of WAL, before what compression adds to it.
var segmentName = regexp.MustCompile(`^[0-9A-F]{24}`)

// SegmentKey is where a file of WAL, or a timeline's history, lies in a server's folder, but for the end that compression gives it.
func SegmentKey(segment string) string {
	if !segmentName.MatchString(segment) {
		return path.Join("wals", segment)
	}
	return path.Join("wals", segment[:16], segment)
}

// Servers are the names of those that have a folder, and begin with a prefix.
func (s *Store) Servers(ctx context.Context, prefix string) ([]string, error) {
	return s.folders(ctx, prefix)
}

// Backups are the ids of those that there is something of.
func (s *Store) Backups(ctx context.Context, server string) ([]string, error) {
	return s.folders(ctx, server+"/base/")
}

// BackupSize is how many bytes a backup takes; ErrMissing when there is none that is whole.
func (s *Store) BackupSize(ctx context.Context, server, id string) (int64, error) {
	total, whole := int64(0), false
	err := s.each(ctx, server+"/base/"+id+"/", func(o *blob.ListObject) error {
		total += o.Size
		whole = whole || path.Base(o.Key) == "backup.info"
		return nil
	})
	if err == nil && !whole {
		err = fmt.Errorf("%w: backup %s of %s", ErrMissing, id, server)
	}
	return total, err
}

// ErrMissing says that something isn't in the bucket.
var ErrMissing = errors.New("it isn't in the bucket")

// HasSegment reports whether a file of WAL was archived.
func (s *Store) HasSegment(ctx context.Context, server, segment string) (bool, error) {
	found := false
	err := s.each(ctx, server+"/"+SegmentKey(segment), func(o *blob.ListObject) error {
		found = found || whole(path.Base(o.Key), segment)
		return nil
	})
	return found, err
}

// whole reports whether a file is a segment, compressed or not, and not the history or the part of one.
func whole(file, segment string) bool {
	rest, ok := strings.CutPrefix(file, segment)
	return ok && (rest == "" || strings.Count(rest, ".") == 1 && rest != ".partial" && rest != ".backup")
}

// LastArchived is when the last file of WAL was archived; zero when none was.
func (s *Store) LastArchived(ctx context.Context, server string) (last time.Time, err error) {
	err = s.each(ctx, server+"/wals/", func(o *blob.ListObject) error {
		if segmentName.MatchString(path.Base(o.Key)) && o.ModTime.After(last) {
			last = o.ModTime
		}
		return nil
	})
	return last, err
}

// Folder is how many bytes the objects in a server's folder take, and when the last of them was written; zero when there is none.
func (s *Store) Folder(ctx context.Context, server string) (bytes int64, last time.Time, err error) {
	err = s.each(ctx, server+"/", func(o *blob.ListObject) error {
		bytes += o.Size
		if o.ModTime.After(last) {
			last = o.ModTime
		}
		return nil
	})
	return bytes, last, err
}

// DropBackup removes all of a backup. What makes it one goes first, so that half of it is none.
func (s *Store) DropBackup(ctx context.Context, server, id string) error {
	folder := server + "/base/" + id + "/"
	if err := s.remove(ctx, s.Prefix+folder+"backup.info"); err != nil {
		return err
	}
	return s.each(ctx, folder, func(o *blob.ListObject) error { return s.remove(ctx, o.Key) })
}

// DropServer removes all of a server.
func (s *Store) DropServer(ctx context.Context, server string) error {
	return s.each(ctx, server+"/", func(o *blob.ListObject) error { return s.remove(ctx, o.Key) })
}

// DropSegments removes the WAL from before a segment that nothing was written to since a moment, of whatever timeline. Histories of timelines stay.
func (s *Store) DropSegments(ctx context.Context, server, before string, since time.Time) error {
	if !segmentName.MatchString(before) {
		return fmt.Errorf("%q names no file of WAL", before)
	}
	return s.each(ctx, server+"/wals/", func(o *blob.ListObject) error {
		name := path.Base(o.Key)
		if !segmentName.MatchString(name) || name[8:24] >= before[8:24] || !o.ModTime.Before(since) {
			return nil
		}
		return s.remove(ctx, o.Key)
	})
}

// Begun is when the last of a backup's objects was written.
func (s *Store) Begun(ctx context.Context, server, id string) (last time.Time, err error) {
	err = s.each(ctx, server+"/base/"+id+"/", func(o *blob.ListObject) error {
		if o.ModTime.After(last) {
			last = o.ModTime
		}
		return nil
	})
	return last, err
}

func (s *Store) remove(ctx context.Context, key string) error {
	if err := s.Bucket.Delete(ctx, key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("remove %s: %w", key, err)
	}
	return nil
}

// each does something with all objects whose keys begin with a prefix. They are listed before: what is listed while it changes may be
// listed wrong.
func (s *Store) each(ctx context.Context, prefix string, do func(*blob.ListObject) error) error {
	all, err := s.list(ctx, prefix, "")
	if err != nil {
		return err
	}
	for _, o := range all {
		if err := do(o); err != nil {
			return err
		}
	}
	return nil
}

// folders are the names that go on from a prefix to a slash.
func (s *Store) folders(ctx context.Context, prefix string) ([]string, error) {
	all, err := s.list(ctx, prefix, "/")
	var names []string
	for _, o := range all {
		if o.IsDir {
			names = append(names, path.Base(o.Key))
		}
	}
	return names, err
}

func (s *Store) list(ctx context.Context, prefix, delimiter string) ([]*blob.ListObject, error) {
	var all []*blob.ListObject
	for i := s.Bucket.List(&blob.ListOptions{Prefix: s.Prefix + prefix, Delimiter: delimiter}); ; {
		o, err := i.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list %s%s: %w", s.Prefix, prefix, err)
		}
		all = append(all, o)
	}
}
