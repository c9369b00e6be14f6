package enginetest

import "testing"

// Part is one of several that share a server.
type Part struct {
	Name string
	Run  func(t *testing.T, s *Server)
}

// Sharing is a check of parts that share one server, since to start one takes longer than most of them do. Each takes away
// what would stand in another's way; one that can't comes last.
func Sharing(name string, parts ...Part) Check {
	var all []part[*Server]
	for _, p := range parts {
		all = append(all, part[*Server]{p.Name, p.Run})
	}
	return Check{name, inTurn(func(t *testing.T, b *Bench) *Server { return b.Started(t) }, all)}
}
