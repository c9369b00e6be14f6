// Package watch checks services, all the time: it picks those that are due, has
// them probed, judges what was found and records what follows from it.
//
// What costs is not the probing but waking up and writing for every check. So
// services wait on one wheel of ticks instead of timers of their own; servers
// that share a store lease shards of services, not single checks; and a check
// that finds what is known touches memory only.
package watch
