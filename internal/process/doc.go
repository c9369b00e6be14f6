// Package process starts server processes that outlive steward, finds them
// again and ends them.
//
// A server is started in a session of its own, held at a gate until its pid
// file is written: there is never a running server that no file tells of. A
// later steward adopts it by pid, start time and boot id, so that a recycled
// pid is never taken for a server. To end one is to end all its processes,
// however they were forked: by its cgroup where there is one, and by everything
// that carries its mark.
package process
