// Package archive keeps backups in an object store: compressed, encrypted with
// a key per database, checksummed, and streamed both ways.
//
// A backup is two objects, clusters/N/backups/M/data.zst.age and manifest.json
// beside it. The manifest is written last and is what makes a backup one.
package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"filippo.io/age"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/fileblob"  // file://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/s3blob"    // s3://
	"gocloud.dev/gcerrors"

	"steward/internal/backup"
	"steward/internal/cluster"
)

// Errors that callers act upon.
var (
	// ErrDamaged is what reading a backup ends with that isn't what was written.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrNotFound is returned when there is no such backup, or no complete one.
	ErrNotFound = errors.New("there is no such backup in the archive")
	// ErrFull is returned when the bucket has no room left.
	ErrFull = errors.New("the archive is full")
)

// Options are what an Archive is made of.
type Options struct {
	// URL of the bucket: file:///…, s3://…, gs://…, azblob://…, with the
	// parameters of gocloud.dev/blob.
	URL    string
	Logger *slog.Logger
}

// Archive is an open bucket. It is safe for concurrent use.
type Archive struct {
	bucket *blob.Bucket
	log    *slog.Logger
	// folder is the bucket's own on this machine, "" for others: there, what is
	// written has to be brought to the disk.
	folder string
}

// Open opens the bucket; the folder of a file URL is made.
func Open(ctx context.Context, o Options) (*Archive, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("archive: %q is no URL", o.URL)
	}
	a := &Archive{log: o.Logger}
	if u.Scheme == "file" {
		a.folder = u.Path
		if err := os.MkdirAll(u.Path, 0o700); err != nil {
			return nil, fmt.Errorf("archive: %w", err)
		}
		q := u.Query()
		q.Set("metadata", "skip")
		q.Set("no_tmp_dir", "true") // beside its place: a rename must not cross file systems
		u.RawQuery = q.Encode()
	}
	if a.bucket, err = blob.OpenBucket(ctx, u.String()); err != nil {
		return nil, fmt.Errorf("archive %s: %w", u.Redacted(), err)
	}
	return a, nil
}

// Close ends the connections.
func (a *Archive) Close() error { return a.bucket.Close() }

// NewKey makes a database's key: the text of an age identity.
func NewKey() ([]byte, error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, fmt.Errorf("make a backup key: %w", err)
	}
	return []byte(id.String()), nil
}

// IsKey tells whether a key is one of NewKey's.
func IsKey(key []byte) bool {
	_, err := parseKey(key)
	return err == nil
}

func folderOf(c cluster.ID) string { return fmt.Sprintf("clusters/%d/", c) }

func prefixOf(c cluster.ID, b backup.ID) string { return fmt.Sprintf("%sbackups/%d/", folderOf(c), b) }

const (
	dataName     = "data.zst.age"
	manifestName = "manifest.json"
)

// Delete takes a backup away: first what makes it one, then its data. Nil when
// nothing is there.
func (a *Archive) Delete(ctx context.Context, c cluster.ID, b backup.ID) error {
	for _, name := range []string{manifestName, dataName} {
		if err := a.remove(ctx, prefixOf(c, b)+name); err != nil {
			return fmt.Errorf("delete backup %d of cluster %d: %w", b, c, err)
		}
	}
	// A server that was killed leaves a part of its file in a folder.
	if err := a.each(ctx, prefixOf(c, b), func(o *blob.ListObject) error { return a.remove(ctx, o.Key) }); err != nil {
		return fmt.Errorf("delete what is left of backup %d of cluster %d: %w", b, c, err)
	}
	return nil
}

func (a *Archive) remove(ctx context.Context, key string) error {
	err := a.bucket.Delete(ctx, key)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	}
	return err
}

// DeleteCluster takes everything of a cluster away, manifests first.
func (a *Archive) DeleteCluster(ctx context.Context, c cluster.ID) error {
	var manifests, rest []string
	err := a.each(ctx, folderOf(c), func(o *blob.ListObject) error {
		if path.Base(o.Key) == manifestName {
			manifests = append(manifests, o.Key)
		} else {
			rest = append(rest, o.Key)
		}
		return nil
	})
	for _, key := range append(manifests, rest...) {
		if err == nil {
			err = a.remove(ctx, key)
		}
	}
	if err != nil {
		return fmt.Errorf("delete the backups of cluster %d: %w", c, err)
	}
	return nil
}

// Stored is a backup of which anything is in the archive.
type Stored struct {
	Cluster cluster.ID
	Backup  backup.ID
	// Complete tells that there is a manifest.
	Complete bool
	// Modified is when anything of it was last written.
	Modified time.Time
}

// List tells of all backups, complete or not, in no order.
func (a *Archive) List(ctx context.Context) ([]Stored, error) {
	var list []Stored
	at := map[string]int{}
	err := a.each(ctx, "clusters/", func(o *blob.ListObject) error {
		s, ok := storedOf(o.Key)
		if !ok {
			return nil
		}
		prefix := path.Dir(o.Key)
		i, known := at[prefix]
		if !known {
			i = len(list)
			at[prefix], list = i, append(list, s)
		}
		list[i].Complete = list[i].Complete || path.Base(o.Key) == manifestName
		if o.ModTime.After(list[i].Modified) {
			list[i].Modified = o.ModTime
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	return list, nil
}

// storedOf reads clusters/N/backups/M/….
func storedOf(key string) (Stored, bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 5 || parts[0] != "clusters" || parts[2] != "backups" {
		return Stored{}, false
	}
	c, errCluster := strconv.ParseInt(parts[1], 10, 64)
	b, errBackup := strconv.ParseInt(parts[3], 10, 64)
	return Stored{Cluster: cluster.ID(c), Backup: backup.ID(b)}, errCluster == nil && errBackup == nil
}

func (a *Archive) each(ctx context.Context, prefix string, do func(*blob.ListObject) error) error {
	objects := a.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		o, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(o)
		}
		if err != nil {
			return err
		}
	}
}

// SaveRecovery keeps what a disaster recovery of a cluster needs beside its
// backups: sealed by the caller, nothing of it is read here.
func (a *Archive) SaveRecovery(ctx context.Context, c cluster.ID, sealed []byte) error {
	if err := a.write(ctx, folderOf(c)+"recovery", sealed); err != nil {
		return fmt.Errorf("save what recovers cluster %d: %w", c, err)
	}
	return nil
}

// Recovery is what SaveRecovery kept.
func (a *Archive) Recovery(ctx context.Context, c cluster.ID) ([]byte, error) {
	content, err := a.bucket.ReadAll(ctx, folderOf(c)+"recovery")
	if err != nil {
		return nil, fmt.Errorf("read what recovers cluster %d: %w", c, classify(err))
	}
	return content, nil
}

// classify adds this package's errors to the bucket's.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case gcerrors.Code(err) == gcerrors.NotFound:
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT),
		strings.Contains(err.Error(), "507"), strings.Contains(err.Error(), "XMinioStorageFull"):
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
