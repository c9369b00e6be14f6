// Package kubernetes runs clusters on Kubernetes, by the operators that are there: CloudNativePG for PostgreSQL. It writes
// objects by server-side apply, each time all that is ours of them, and never overwrites what somebody else has changed.
// What it sees comes from the objects, from the Pods and from the servers themselves: operators say that all is well
// before it is.
package kubernetes
