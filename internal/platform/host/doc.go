// Package host runs clusters as server processes of this machine.
//
// What a cluster is lives in three places: the store, which says what is
// wanted; the node's folder, whose record says what was done; and the kernel,
// which says what runs. A clusterReconciler brings its nodes in line, each by a
// nodeReconciler: it compares what is there with what is wanted (node.go), has plan
// list the steps that are missing, and carries them out (steps.go); each can be
// repeated. A healthMonitor watches clusters of several nodes, and failover decides
// what to do about a dead primary. Servers outlive this process: Close leaves them
// running, New finds them again.
//
// The packages below know nothing of this one: plan, failover and build decide,
// purely; state keeps files; template keeps clones ready; archive exchanges archived
// files with servers.
package host
