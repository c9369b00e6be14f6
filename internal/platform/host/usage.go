package host

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"steward/internal/platform/host/state"
)

// usageFresh is how long a measurement counts when the disk is far from full;
// a nearly full one is measured each time.
const usageFresh = 10 * time.Second

// used is the disk in use by the node's files.
func (d *Driver) used(ns *nodeState, rec *state.Node) int64 {
	now := d.o.Now()
	ns.mu.Lock()
	used, at := ns.used, ns.usedAt
	ns.mu.Unlock()
	nearlyFull := rec.Applied != nil && used > rec.Applied.Plan.DiskBytes()/10*8
	if !at.IsZero() && now.Sub(at) < usageFresh && !nearlyFull {
		return used
	}
	used = treeSize(d.layout.node(rec.Cluster, rec.Ordinal))
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.used, ns.usedAt = used, now
	return used
}

// treeSize is the disk that a folder's files take. Files may vanish meanwhile;
// those with several names count once.
func treeSize(dir string) int64 {
	const block = 512
	var size int64
	seen := map[uint64]bool{}
	// Errors are those of files that have just been removed.
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Nlink > 1 && !e.IsDir() && seen[st.Ino] {
			return nil
		}
		if st.Nlink > 1 && !e.IsDir() {
			seen[st.Ino] = true
		}
		size += st.Blocks * block
		return nil
	})
	return size
}
