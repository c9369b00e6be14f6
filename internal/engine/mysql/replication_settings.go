package mysql

import (
	"slices"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// semiSyncTimeout is how long, in milliseconds, a commit waits for a replica: a
// day. Then semi-sync would degrade, which must not happen unseen.
const semiSyncTimeout = 24 * 60 * 60 * 1000

// clustered reports whether the node is one of several.
func clustered(n engine.Node) bool { return n.ClusterSize > 1 }

func isReplica(n engine.Node) bool { return clustered(n) && n.Role == cluster.Replica }

func semiSync(n engine.Node) bool { return clustered(n) && n.Replication == cluster.SemiSynch }

// replies reports whether semi-sync is enabled on the replica's side. It costs nothing
// where the source waits for nobody; a source that begins to wait while the cluster
// grows is heard by those only who had it when they connected. And a killed primary
// of MariaDB's that starts as a replica cuts from its log and data what its engine
// had not committed yet: with it, it takes that back from the new primary though the
// transactions bear its own number, and silently leaves it out otherwise.
func replies(n engine.Node) bool { return isReplica(n) }

// replicating are the settings of a cluster with several nodes, and of one that may
// get some. Those that
// depend on the role are apart: Follow and Promote set them.
func replicating(n engine.Node, size tuning) []setting {
	f := flavourOf(n.Installation.Flavour)
	r := f.dialect()
	if !clustered(n) {
		return r.plugins
	}
	return slices.Concat(r.plugins, []setting{
		{"relay_log", "relay", apart},
		// A bound that isn't worth a restart: it changes with the next one.
		{"relay_log_space_limit", size.binlogTotalMB * mb, apart},
		{r.source + "_enabled", semiSync(n) && !isReplica(n), apart},
		{r.replica + "_enabled", replies(n), apart},
		{r.source + "_timeout", semiSyncTimeout, live},
		// What was acknowledged to nobody has been seen by nobody either.
		{r.source + "_wait_point", "AFTER_SYNC", live},
	}, f.replicationSettings(n))
}

// durably is a setting that makes commits durable with 1. A flavour whose
// replicas are slow to apply relaxes it there: a server that is killed loses
// nothing by it, and for a machine that goes down there is async_flush.go.
func durably(name string, n engine.Node, lax int) setting {
	if !clustered(n) || !flavourOf(n.Installation.Flavour).dialect().asyncFlush {
		return setting{name, 1, live}
	}
	if isReplica(n) {
		return setting{name, lax, apart}
	}
	return setting{name, 1, apart}
}
