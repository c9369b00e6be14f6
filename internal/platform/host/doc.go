// Package host runs clusters as server processes of this machine.
//
// What a cluster is lives in three places: the store, which says what is
// wanted; the node's folder, whose record says what was done; and the kernel,
// which says what runs. Apply compares them (plan.go, pure) and carries out
// what is missing (steps.go); each step can be repeated. Servers outlive this
// process: Close leaves them running, New finds them again.
package host
