// Package failpoint marks the moments at which a test build kills the process,
// so that the crash suite can stop steward at every commit and every external
// step. In ordinary builds Here does nothing and no environment variable is
// read: only `-tags failpoint` arms it. Such builds can also have their clock
// moved, to where a maintenance window opens, and take more readings of databases than
// they keep, so that a benchmark sees what one costs.
package failpoint
