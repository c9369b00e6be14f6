// Package archivetest is an archive in memory in which things can go wrong, for
// tests of those who use one.
package archivetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/cluster"
)

// ErrInjected is what a call returns that a fault struck.
var ErrInjected = errors.New("injected fault")

// Fault makes calls go wrong.
type Fault struct {
	// Call is the method's name.
	Call string
	// After lets the call do its work before it fails.
	After bool
	// Times is how often the fault strikes; 0 means always.
	Times int
	// Err is what the call then returns; ErrInjected when nil.
	Err error
}

type place struct {
	cluster cluster.ID
	backup  backup.ID
}

type item struct {
	manifest archive.Manifest
	key      []byte
	content  []byte
	complete bool
	modified time.Time
}

// Memory is an archive that keeps everything in memory.
type Memory struct {
	// Now is the clock; time.Now when nil.
	Now func() time.Time

	mu     sync.Mutex
	items  map[place]*item
	wal    map[archive.Segment]*item // by name, without a moment
	faults []*Fault
	// spare are buffers that backups have grown in.
	spare []*bytes.Buffer
}

// New is an empty one.
func New() *Memory { return &Memory{items: map[place]*item{}, wal: map[archive.Segment]*item{}} }

// Inject places a fault.
func (s *Memory) Inject(f Fault) {
	if f.Err == nil {
		f.Err = ErrInjected
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Clear takes all faults away.
func (s *Memory) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Damage makes a backup one that fails its checks.
func (s *Memory) Damage(of cluster.ID, id backup.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[place{of, id}]
	it.content = it.content[:len(it.content)/2]
}

// Leave puts something there that nobody finished.
func (s *Memory) Leave(of cluster.ID, id backup.ID, modified time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[place{of, id}] = &item{modified: modified}
}

// Has reports whether there is anything of a backup.
func (s *Memory) Has(of cluster.ID, id backup.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[place{of, id}] != nil
}

// Len is how many backups there is anything of.
func (s *Memory) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.items)
}

func (s *Memory) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
}

func (s *Memory) strike(call string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.Call != call {
			continue
		}
		if f.Times == 1 {
			s.faults = slices.Delete(s.faults, i, i+1)
		} else if f.Times > 1 {
			f.Times--
		}
		struck := *f
		return &struck
	}
	return nil
}

func (s *Memory) around(ctx context.Context, call string, do func() error) error {
	f := s.strike(call)
	if f != nil && !f.After {
		return f.Err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if f != nil {
		return f.Err
	}
	return nil
}

// Put keeps what is written, complete once all is.
func (s *Memory) Put(ctx context.Context, m archive.Manifest, key []byte, write archive.Source) (archive.Manifest, error) {
	err := s.around(ctx, "Put", func() (err error) {
		it := &item{manifest: m, key: slices.Clone(key), modified: s.now()}
		s.mu.Lock()
		s.items[place{m.Cluster, m.Backup}] = it
		s.mu.Unlock()
		content := s.incoming()
		if m.Copy, err = write(content); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		m.Bytes, m.StoredBytes = int64(content.Len()), int64(content.Len()/2)
		it.manifest, it.content, it.complete = m, bytes.Clone(content.Bytes()), true
		s.spare = append(s.spare, content)
		return nil
	})
	return m, err
}

// incoming is where a backup grows: to grow a new buffer each time takes the race detector a second for every hundred megabytes.
func (s *Memory) incoming() *bytes.Buffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spare) == 0 {
		return &bytes.Buffer{}
	}
	last := s.spare[len(s.spare)-1]
	s.spare = s.spare[:len(s.spare)-1]
	last.Reset()
	return last
}

func (s *Memory) find(of cluster.ID, id backup.ID) (item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.items[place{of, id}]
	if it == nil || !it.complete {
		return item{}, fmt.Errorf("backup %d of cluster %d isn't there: %w", id, of, archive.ErrDamaged)
	}
	return *it, nil
}

// Verify finds a backup whole.
func (s *Memory) Verify(ctx context.Context, of cluster.ID, id backup.ID) (m archive.Manifest, err error) {
	err = s.around(ctx, "Verify", func() error {
		it, err := s.find(of, id)
		if err == nil && int64(len(it.content)) != it.manifest.Bytes {
			err = fmt.Errorf("backup %d of cluster %d: %w", id, of, archive.ErrDamaged)
		}
		m = it.manifest
		return err
	})
	return m, err
}

// Get reads a backup.
func (s *Memory) Get(ctx context.Context, of cluster.ID, id backup.ID, key []byte) (m archive.Manifest, r io.ReadCloser, err error) {
	err = s.around(ctx, "Get", func() error {
		it, err := s.find(of, id)
		if err == nil && !bytes.Equal(key, it.key) {
			err = fmt.Errorf("backup %d of cluster %d: another key: %w", id, of, archive.ErrDamaged)
		}
		m, r = it.manifest, io.NopCloser(&checked{bytes.NewReader(it.content), int64(len(it.content)) == it.manifest.Bytes})
		return err
	})
	return m, r, err
}

// checked ends with an error what isn't whole.
type checked struct {
	io.Reader
	whole bool
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if errors.Is(err, io.EOF) && !c.whole {
		err = archive.ErrDamaged
	}
	return n, err
}

// Delete removes a backup.
func (s *Memory) Delete(ctx context.Context, of cluster.ID, id backup.ID) error {
	return s.around(ctx, "Delete", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.items, place{of, id})
		return nil
	})
}

// DeleteCluster removes all backups of a cluster.
func (s *Memory) DeleteCluster(ctx context.Context, of cluster.ID) error {
	return s.around(ctx, "DeleteCluster", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for p := range s.items {
			if p.cluster == of {
				delete(s.items, p)
			}
		}
		for w := range s.wal {
			if w.Cluster == of {
				delete(s.wal, w)
			}
		}
		return nil
	})
}

// List is what there is.
func (s *Memory) List(ctx context.Context) (all []archive.Stored, err error) {
	err = s.around(ctx, "List", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		for p, it := range s.items {
			all = append(all, archive.Stored{Cluster: p.cluster, Backup: p.backup, Complete: it.complete, Modified: it.modified})
		}
		return nil
	})
	return all, err
}
