package platform

// Hindrance is returned by Apply and Backup when something of the customer's is in
// the way of it, which goes on serving. Its reason is for customers.
type Hindrance struct{ Reason string }

func (h *Hindrance) Error() string { return h.Reason }
