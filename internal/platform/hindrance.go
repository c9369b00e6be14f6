package platform

// Hindrance is returned by Apply and Backup when something of the customer's is in
// the way of it: of a restart, a suspension, a copy, or a replica that has to be
// given one. The database goes on serving. Its reason is for customers.
type Hindrance struct{ Reason string }

func (h *Hindrance) Error() string { return h.Reason }
