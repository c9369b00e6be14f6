package converge

import (
	"maps"

	"steward/internal/cluster"
	"steward/internal/platform"
)

// grain is by how much the disk in use must differ before it is written down:
// idle servers move a little all the time, and the API shows gigabytes.
const grain = 32 << 20

// worthRecording reports whether what was seen differs from the row by enough to
// be written down.
func worthRecording(c cluster.Cluster, seen platform.Observed) bool {
	k := keep(c, seen)
	return k.Hosts != c.Hosts || !maps.Equal(k.Members, c.Members) || k.Installation != c.Installation ||
		sleepChanged(c, seen) ||
		k.ServerVersion != c.ServerVersion || k.ReadOnly != c.ReadOnly || differs(c.UsedBytes, k.UsedBytes)
}

func differs(known, seen *int64) bool {
	if known == nil || seen == nil {
		return known != seen
	}
	return cluster.Gigabytes(*known) != cluster.Gigabytes(*seen) || max(*known-*seen, *seen-*known) >= grain
}

// keep fills in what can't be seen of a database that is down: its addresses
// are the customer's for good.
func keep(c cluster.Cluster, seen platform.Observed) platform.Observed {
	if seen.Hosts.Primary == "" {
		seen.Hosts, seen.Members = c.Hosts, c.Members
	}
	if seen.Installation == "" {
		seen.Installation = c.Installation
	}
	if seen.ServerVersion == "" {
		seen.ServerVersion = c.ServerVersion
	}
	if seen.UsedBytes == nil {
		seen.UsedBytes = c.UsedBytes
	}
	return seen
}
