package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"steward/internal/cluster"
)

// layout knows where everything is. What isn't below data is derived from it
// by the caller, so that a new process finds what an older one left.
type layout struct{ data, run, keys string }

func (l layout) clusters() string  { return filepath.Join(l.data, "clusters") }
func (l layout) templates() string { return filepath.Join(l.data, "templates") }
func (l layout) trash() string     { return filepath.Join(l.data, "trash") }

func (l layout) cluster(id cluster.ID) string {
	return filepath.Join(l.clusters(), strconv.FormatInt(int64(id), 10))
}

// node is the folder of a node: it belongs to steward, its parts partly to the server.
func (l layout) node(id cluster.ID, ordinal int) string {
	return filepath.Join(l.cluster(id), fmt.Sprintf("node-%d", ordinal))
}

// dataOf is a node's data folder.
func (l layout) dataOf(id cluster.ID, ordinal int) string {
	return filepath.Join(l.node(id, ordinal), "data")
}

func (l layout) runNode(id cluster.ID, ordinal int) string {
	return filepath.Join(l.run, nodeName(id, ordinal))
}

func (l layout) keysNode(id cluster.ID, ordinal int) string {
	return filepath.Join(l.keys, nodeName(id, ordinal))
}

func (l layout) scratches() string { return filepath.Join(l.data, "scratch") }

// scratch is where a backup of a cluster is tried.
func (l layout) scratch(id cluster.ID) string {
	return filepath.Join(l.scratches(), strconv.FormatInt(int64(id), 10))
}

// nodeName names a node in paths, control groups and marks.
func nodeName(id cluster.ID, ordinal int) string { return fmt.Sprintf("%d-%d", id, ordinal) }

// clusterOf reads the cluster from a node's name.
func clusterOf(name string) (cluster.ID, bool) {
	text, ordinal, ok := strings.Cut(name, "-")
	id, err := strconv.ParseInt(text, 10, 64)
	if _, errOrdinal := strconv.Atoi(ordinal); !ok || err != nil || errOrdinal != nil {
		return 0, false
	}
	return cluster.ID(id), true
}

// make makes the folders that everything else is in.
func (l layout) make() error {
	for _, dir := range []string{l.data, l.clusters(), l.templates(), l.trash(), l.run, l.keys} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
	}
	return nil
}

// topology is the file that says which node is the primary.
func (l layout) topology(id cluster.ID) string { return filepath.Join(l.cluster(id), "cluster.json") }
