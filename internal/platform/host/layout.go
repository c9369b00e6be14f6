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

// pooler is the folder of a cluster's pooler: it belongs to steward, its parts partly to the pooler.
func (l layout) pooler(id cluster.ID) string { return filepath.Join(l.cluster(id), "pooler") }

// poolerRecord is the file that says what pools there are; without it there is no pooler.
func (l layout) poolerRecord(id cluster.ID) string {
	return filepath.Join(l.cluster(id), "pooler.json")
}

func (l layout) runPooler(id cluster.ID) string  { return filepath.Join(l.run, poolerName(id)) }
func (l layout) keysPooler(id cluster.ID) string { return filepath.Join(l.keys, poolerName(id)) }

// poolerEnding is the file with the users whose sessions a pooler is still to end; without it there are none. It is in memory, as
// the sessions are: a full disk doesn't keep it from being written.
func (l layout) poolerEnding(id cluster.ID) string {
	return filepath.Join(l.keysPooler(id), "ending.json")
}

func (l layout) scratches() string { return filepath.Join(l.data, "scratch") }

// scratch is where a backup of a cluster is tried.
func (l layout) scratch(id cluster.ID) string {
	return filepath.Join(l.scratches(), strconv.FormatInt(int64(id), 10))
}

// nodeName names a node in paths, control groups and marks.
func nodeName(id cluster.ID, ordinal int) string { return fmt.Sprintf("%d-%d", id, ordinal) }

// poolerSuffix takes the place of an ordinal in the name of a cluster's pooler.
const poolerSuffix = "pool"

// poolerName names a cluster's pooler in paths, control groups and marks.
func poolerName(id cluster.ID) string { return fmt.Sprintf("%d-%s", id, poolerSuffix) }

// clusterOf reads the cluster from a node's or a pooler's name.
func clusterOf(name string) (cluster.ID, bool) {
	text, ordinal, ok := strings.Cut(name, "-")
	id, err := strconv.ParseInt(text, 10, 64)
	if _, errOrdinal := strconv.Atoi(ordinal); !ok || err != nil || errOrdinal != nil && ordinal != poolerSuffix {
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
