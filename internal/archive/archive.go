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
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"filippo.io/age"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
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
	// ErrBucket marks what went wrong with the bucket, not with what is kept there.
	ErrBucket = errors.New("the archive's bucket failed")
)

// NewKey makes a database's key: the text of an age identity.
func NewKey() ([]byte, error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, fmt.Errorf("make a backup key: %w", err)
	}
	return []byte(id.String()), nil
}

// IsKey reports whether a key is one of NewKey's.
func IsKey(key []byte) bool {
	_, err := parseKey(key)
	return err == nil
}

const allFolders = "clusters/"

func folderOf(c cluster.ID) string { return fmt.Sprintf("%s%d/", allFolders, c) }

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
	// A server that was killed leaves a part of its file in a folder, or of an upload.
	err := a.each(ctx, prefixOf(c, b), func(o *blob.ListObject) error { return a.remove(ctx, o.Key) })
	if err == nil {
		err = a.uploads.abort(ctx, prefixOf(c, b))
	}
	if err != nil {
		return fmt.Errorf("delete what is left of backup %d of cluster %d: %w", b, c, err)
	}
	return nil
}

func (a *Archive) remove(ctx context.Context, key string) error {
	return a.step(ctx, func(ctx context.Context) error {
		err := a.bucket.Delete(ctx, key)
		if gcerrors.Code(err) == gcerrors.NotFound {
			return nil
		}
		return err
	})
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
	if err == nil {
		err = a.uploads.abort(ctx, folderOf(c))
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
	// Complete reports whether there is a manifest.
	Complete bool
	// Modified is when anything of it was last written.
	Modified time.Time
}

// List tells of all backups, complete or not, in no order.
func (a *Archive) List(ctx context.Context) ([]Stored, error) {
	var list []Stored
	at := map[string]int{}
	add := func(key string, modified time.Time) {
		s, ok := storedOf(key)
		if !ok {
			return
		}
		prefix := path.Dir(key)
		i, known := at[prefix]
		if !known {
			i = len(list)
			at[prefix], list = i, append(list, s)
		}
		list[i].Complete = list[i].Complete || path.Base(key) == manifestName
		if modified.After(list[i].Modified) {
			list[i].Modified = modified
		}
	}
	err := a.each(ctx, allFolders, func(o *blob.ListObject) error { add(o.Key, o.ModTime); return nil })
	if err == nil {
		err = a.uploads.each(ctx, allFolders, func(u types.MultipartUpload) error {
			// Its data only: an upload is never what makes a backup complete.
			add(path.Dir(aws.ToString(u.Key))+"/"+dataName, aws.ToTime(u.Initiated))
			return nil
		})
	}
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
	objects, err := a.list(ctx, prefix)
	// A folder is listed file by file: one that is gone when its turn comes, such as an
	// upload that was just finished under its own name, ends the listing.
	for try := 1; errors.Is(err, ErrNotFound) && try < listTries; try++ {
		objects, err = a.list(ctx, prefix)
	}
	for _, o := range objects {
		if err == nil {
			err = do(o)
		}
	}
	return err
}

// listTries is how often a folder may change under a listing.
const listTries = 20

func (a *Archive) list(ctx context.Context, prefix string) (list []*blob.ListObject, err error) {
	objects := a.bucket.List(&blob.ListOptions{Prefix: prefix})
	for {
		var o *blob.ListObject
		err := a.step(ctx, func(ctx context.Context) (err error) { o, err = objects.Next(ctx); return err })
		switch {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, err
		}
		list = append(list, o)
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
	content, err := a.read(ctx, folderOf(c)+"recovery")
	if err != nil {
		return nil, fmt.Errorf("read what recovers cluster %d: %w", c, err)
	}
	return content, nil
}

// read is a small object.
func (a *Archive) read(ctx context.Context, key string) (content []byte, err error) {
	err = a.step(ctx, func(ctx context.Context) (err error) { content, err = a.bucket.ReadAll(ctx, key); return err })
	return content, err
}

// classify adds this package's errors to the bucket's.
func classify(err error) error {
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, ErrBucket), errors.Is(err, ErrNotFound):
		return err
	case gcerrors.Code(err) == gcerrors.NotFound:
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case full(err):
		return fmt.Errorf("%w: %w: %w", ErrBucket, ErrFull, err)
	}
	return fmt.Errorf("%w: %w", ErrBucket, err)
}

// fullCodes are what stores that speak S3 call it, where the status isn't 507:
// MinIO's disks and quotas, and Ceph's quotas.
var fullCodes = []string{"XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded"}

func full(err error) bool {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || statusOf(err) == http.StatusInsufficientStorage {
		return true
	}
	if named, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err); ok && slices.Contains(fullCodes, named.ErrorCode()) {
		return true
	}
	// An upload that can't be given up either is told of in words alone.
	return strings.Contains(err.Error(), "StatusCode: 507")
}

// statusOf is the bucket's answer, 0 when there was none.
func statusOf(err error) int {
	answer, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err)
	if !ok {
		return 0
	}
	return answer.HTTPStatusCode()
}
