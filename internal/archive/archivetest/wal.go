package archivetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"steward/internal/archive"
	"steward/internal/cluster"
)

func bare(w archive.WAL) archive.WAL {
	w.Modified = time.Time{}
	return w
}

// PutWAL keeps a file.
func (s *Memory) PutWAL(ctx context.Context, w archive.WAL, key []byte, r io.Reader) error {
	return s.around(ctx, "PutWAL", func() error {
		content, err := io.ReadAll(r)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil && s.wal[bare(w)] == nil {
			s.wal[bare(w)] = &item{key: key, content: content, modified: s.now()}
		}
		return err
	})
}

// GetWAL reads one.
func (s *Memory) GetWAL(ctx context.Context, w archive.WAL, key []byte, out io.Writer) error {
	return s.around(ctx, "GetWAL", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		it := s.wal[bare(w)]
		if it == nil || !bytes.Equal(it.key, key) {
			return fmt.Errorf("%s: %w", w.Name, archive.ErrNotFound)
		}
		_, err := out.Write(it.content)
		return err
	})
}

// ListWAL is what there is of a cluster.
func (s *Memory) ListWAL(ctx context.Context, of cluster.ID) (all []archive.WAL, err error) {
	err = s.around(ctx, "ListWAL", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for w, it := range s.wal {
			if w.Cluster == of {
				w.Modified = it.modified
				all = append(all, w)
			}
		}
		return nil
	})
	return all, err
}

// DeleteWAL removes files.
func (s *Memory) DeleteWAL(ctx context.Context, all ...archive.WAL) error {
	return s.around(ctx, "DeleteWAL", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, w := range all {
			delete(s.wal, bare(w))
		}
		return nil
	})
}
