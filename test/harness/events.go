package harness

import "net/http"

// Event is something that happened to what an account has.
type Event struct {
	Action, Status, Message string
	Entity                  struct{ ID int64 }
}

// Events are the newest of the account, the last first.
func (s *Server) Events() []Event {
	s.t.Helper()
	var list struct{ Data []Event }
	if status, body := s.Call("GET", "/v4/account/events?page_size=500", nil, &list); status != http.StatusOK {
		s.t.Fatalf("events: %d %s", status, body)
	}
	return list.Data
}
