package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"

	"filippo.io/age"

	"steward/internal/durable"
	"steward/internal/failpoint"
	"steward/internal/heap"
	"steward/internal/platform"
)

// partBytes is how much of an object of about size bytes is sent at a time to
// buckets that take objects in parts, three of which are in memory: no less than
// S3 takes, and so much that twice the size is less than the 10 000 of them it
// takes. A size that isn't known, 0, is that of a new database.
func partBytes(size int64) int {
	const least, most = 5 << 20, 10_000
	return int(max(least, size*2/most))
}

// Source writes a copy of a database, and tells at its end what restoring it
// takes.
type Source func(w io.Writer) (platform.Copy, error)

// Put stores what write writes as a backup. Before the manifest is there it is
// none; a failure leaves nothing that is taken for one. The manifest's Bytes are
// about how many will come, 0 when nobody knows; it is returned with sizes and
// checksums.
func (a *Archive) Put(ctx context.Context, m Manifest, key []byte, write Source) (Manifest, error) {
	defer heap.Limit()()
	m.Version = version
	m, err := a.put(ctx, m, key, write)
	if err != nil {
		return m, fmt.Errorf("store backup %d of cluster %d: %w", m.Backup, m.Cluster, err)
	}
	return m, nil
}

func (a *Archive) put(ctx context.Context, m Manifest, key []byte, write Source) (Manifest, error) {
	// An earlier attempt's manifest must not speak for this one's data.
	if err := a.Delete(ctx, m.Cluster, m.Backup); err != nil {
		return m, err
	}
	failpoint.Here("archive: before data")
	object := prefixOf(m.Cluster, m.Backup) + dataName
	if err := a.putData(ctx, object, &m, key, write); err != nil {
		return m, errors.Join(err, a.remove(context.WithoutCancel(ctx), object))
	}
	failpoint.Here("archive: before manifest")
	if err := a.writeManifest(ctx, m); err != nil {
		return m, errors.Join(err, a.Delete(context.WithoutCancel(ctx), m.Cluster, m.Backup))
	}
	failpoint.Here("archive: after manifest")
	return m, nil
}

// putData streams through compression, encryption and checksum into the object.
func (a *Archive) putData(ctx context.Context, object string, m *Manifest, key []byte, write Source) error {
	id, err := parseKey(key)
	if err != nil {
		return err
	}
	to, err := a.upload(ctx, object, partBytes(m.Bytes))
	if err != nil {
		return err
	}
	stored, plain := &meter{w: to, h: sha256.New()}, &counter{}
	if m.Copy, err = pipeline(id, stored, plain, write); err != nil {
		return errors.Join(err, to.abandon())
	}
	if err := to.Close(); err != nil {
		return err
	}
	m.StoredBytes, m.SHA256, m.Bytes = stored.n, hex.EncodeToString(stored.h.Sum(nil)), plain.n
	return a.settle(object)
}

func pipeline(id *age.X25519Identity, stored io.Writer, plain *counter, write Source) (c platform.Copy, err error) {
	sealed, err := age.Encrypt(stored, id.Recipient())
	if err != nil {
		return c, fmt.Errorf("encrypt: %w", err)
	}
	packed := newPacker(sealed)
	plain.w = packed
	if c, err = write(plain); err != nil {
		_ = packed.Close() // what it can't write, write was told
		return c, err
	}
	if err := packed.Close(); err != nil {
		return c, fmt.Errorf("compress: %w", err)
	}
	if err := sealed.Close(); err != nil {
		return c, fmt.Errorf("encrypt: %w", err)
	}
	return c, nil
}

func parseKey(key []byte) (*age.X25519Identity, error) {
	id, err := age.ParseX25519Identity(string(bytes.TrimSpace(key)))
	if err != nil {
		return nil, errors.New("the backup key can't be read") // the parser's error might show it
	}
	return id, nil
}

// settle brings an object in a folder to the disk, which the bucket library doesn't,
// and closes it to others, for whom it makes it readable.
func (a *Archive) settle(key string) error {
	if a.folder == "" {
		return nil
	}
	name := filepath.Join(a.folder, filepath.FromSlash(key))
	if err := os.Chmod(name, 0o600); err != nil {
		return fmt.Errorf("close to others: %w", classify(err))
	}
	for _, p := range []string{name, path.Dir(name)} {
		if err := durable.Sync(p); err != nil {
			return classify(err)
		}
	}
	return nil
}

// meter counts and sums what passes.
type meter struct {
	w io.Writer
	n int64
	h hash.Hash
}

func (m *meter) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	m.n += int64(n)
	m.h.Write(p[:n])
	return n, err
}

// counter counts what passes.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
