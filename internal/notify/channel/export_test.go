package channel

import "time"

// SetPatience is for tests.
func (s *Sender) SetPatience(d time.Duration) { s.patience = d }
