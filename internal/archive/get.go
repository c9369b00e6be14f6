package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/heap"
)

// Verify reads what is stored of a backup and compares it with its manifest.
// It needs no key.
func (a *Archive) Verify(ctx context.Context, c cluster.ID, b backup.ID) (Manifest, error) {
	m, err := a.Manifest(ctx, c, b)
	if err != nil {
		return m, err
	}
	r, err := a.object(ctx, prefixOf(c, b)+dataName)
	if err != nil {
		return m, fmt.Errorf("read backup %d of cluster %d: %w", b, c, gone(err))
	}
	defer r.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, r)
	if err != nil {
		return m, fmt.Errorf("read backup %d of cluster %d: %w", b, c, err)
	}
	if n != m.StoredBytes || hex.EncodeToString(sum.Sum(nil)) != m.SHA256 {
		return m, fmt.Errorf("backup %d of cluster %d: %w", b, c, ErrDamaged)
	}
	return m, nil
}

// gone is the error of data which a manifest promises and that isn't there.
func gone(err error) error {
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: its data is gone: %w", ErrDamaged, err)
	}
	return err
}

// Get is a backup's data. The reader's end comes only when all of it was what
// was written, in size and checksum; else it is ErrDamaged.
func (a *Archive) Get(ctx context.Context, c cluster.ID, b backup.ID, key []byte) (Manifest, io.ReadCloser, error) {
	m, err := a.Manifest(ctx, c, b)
	if err != nil {
		return m, nil, err
	}
	id, err := parseKey(key)
	if err != nil {
		return m, nil, err
	}
	stored, err := a.object(ctx, prefixOf(c, b)+dataName)
	if err != nil {
		return m, nil, fmt.Errorf("read backup %d of cluster %d: %w", b, c, gone(err))
	}
	r, err := open(id, stored, m)
	if err != nil {
		stored.Close()
		return m, nil, fmt.Errorf("read backup %d of cluster %d: %w", b, c, err)
	}
	return m, r, nil
}

func open(id *age.X25519Identity, stored *object, m Manifest) (io.ReadCloser, error) {
	c := &checked{stored: stored, want: m, h: sha256.New()}
	plain, err := age.Decrypt(io.TeeReader(stored, c), id)
	if wrong, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return nil, fmt.Errorf("it is encrypted with another key: %w", wrong)
	}
	if err != nil {
		return nil, stored.blame(err)
	}
	c.unpacked, err = zstd.NewReader(plain, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return nil, fmt.Errorf("uncompress: %w", err)
	}
	c.release = heap.Limit()
	return c, nil
}

// checked gives out the data and compares what was read with the manifest at its
// end. The encryption proves that all was written with the key; only the checksum,
// that it is this backup.
type checked struct {
	stored   *object
	unpacked *zstd.Decoder
	want     Manifest
	n        int64
	h        hash.Hash
	release  func()
}

// Write sums what is stored.
func (c *checked) Write(p []byte) (int, error) { return c.h.Write(p) }

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.unpacked.Read(p)
	c.n += int64(n)
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		return n, c.stored.blame(err)
	case c.n != c.want.Bytes || hex.EncodeToString(c.h.Sum(nil)) != c.want.SHA256:
		return n, ErrDamaged
	}
	return n, io.EOF
}

func (c *checked) Close() error {
	c.unpacked.Close()
	c.release()
	return c.stored.Close()
}
