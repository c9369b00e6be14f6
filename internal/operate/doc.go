// Package operate carries operations out. A run takes the cluster's lease,
// reads everything anew, and takes one bounded pass: steps that can be repeated
// at any time, then one transaction that changes the status and ends the
// operation. A run that dies is repeated by the next; what can't be done is
// given up after bounded time, with a reason for people, and nothing half-made
// is left serving.
package operate
