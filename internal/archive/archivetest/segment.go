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

func bare(w archive.Segment) archive.Segment {
	w.Modified = time.Time{}
	return w
}

// PutSegment keeps a file.
func (s *Memory) PutSegment(ctx context.Context, w archive.Segment, key []byte, r io.Reader) error {
	return s.around(ctx, "PutSegment", func() error {
		content, err := io.ReadAll(r)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil && s.wal[bare(w)] == nil {
			s.wal[bare(w)] = &item{key: key, content: content, modified: s.now()}
		}
		return err
	})
}

// GetSegment reads one.
func (s *Memory) GetSegment(ctx context.Context, w archive.Segment, key []byte, out io.Writer) error {
	return s.around(ctx, "GetSegment", func() error {
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

// ListSegments is what there is of a cluster.
func (s *Memory) ListSegments(ctx context.Context, of cluster.ID) (all []archive.Segment, err error) {
	err = s.around(ctx, "ListSegments", func() error {
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

// DeleteSegments removes files.
func (s *Memory) DeleteSegments(ctx context.Context, all ...archive.Segment) error {
	return s.around(ctx, "DeleteSegments", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, w := range all {
			delete(s.wal, bare(w))
		}
		return nil
	})
}
