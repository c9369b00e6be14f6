package postgresql

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// replicationSettings are those of a node that isn't alone. Roles differ in
// primary_conninfo only, so that a promotion needs no more than a reload.
func replicationSettings(n engine.Node) []setting {
	if n.ClusterSize <= 1 {
		return nil
	}
	conninfo := ""
	if n.Role == cluster.Replica {
		conninfo = sourceConninfo(n)
	}
	return []setting{
		{name: "hot_standby", value: "on"},
		{name: "hot_standby_feedback", value: "off"},
		// For so long a query on a replica may hold up what it reads.
		{name: "max_standby_streaming_delay", value: "30s"},
		{name: "max_standby_archive_delay", value: "30s"},
		{name: "primary_conninfo", value: conninfo},
		{name: "recovery_target_timeline", value: "latest"},
		{name: "synchronous_standby_names", value: synchronousNames(n)},
		// A replica that was away comes back without a copy as long as it missed
		// no more; there are no slots that could fill the disk instead.
		{name: "wal_keep_size", value: megabytes(within(256, n.Plan.DiskMB/20, 16384))},
		{name: "wal_receiver_status_interval", value: "1s"},
		{name: "wal_receiver_timeout", value: "20s"},
		{name: "wal_sender_timeout", value: "20s"},
	}
}

// synchronousNames are the nodes of which one has to confirm a commit. The
// primary is among them and never confirms to itself.
func synchronousNames(n engine.Node) string {
	switch commit(n) {
	case cluster.CommitLocal, cluster.CommitOff:
		return ""
	}
	names := make([]string, n.ClusterSize)
	for i := range names {
		names[i] = standbyName(i)
	}
	return "ANY 1 (" + strings.Join(names, ", ") + ")"
}

func standbyName(ordinal int) string { return "node" + strconv.Itoa(ordinal) }

// sourceConninfo is how a replica reaches its source: by the unix socket, which
// no customer can come by. The password is in a file of its own, since the server
// logs what a setting is changed to.
func sourceConninfo(n engine.Node) string {
	return fmt.Sprintf("host=%s port=%d user=%s passfile=%s application_name=%s connect_timeout=10",
		conninfoValue(n.Source.Run), n.Source.Listen.Port(), adminRole,
		conninfoValue(filepath.Join(n.Run, passFile)), standbyName(n.Ordinal))
}

// conninfoValue quotes for libpq.
func conninfoValue(s string) string {
	return "'" + strings.NewReplacer(`'`, `\'`, `\`, `\\`).Replace(s) + "'"
}

// renderPassword is a password file of libpq's, for any address.
func renderPassword(password string) []byte {
	return []byte("*:*:*:" + adminRole + ":" + strings.NewReplacer(`:`, `\:`, `\`, `\\`).Replace(password) + "\n")
}
