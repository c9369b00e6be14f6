package platform

// CustomerError is returned by Apply and Backup when something of the customer's
// prevents a restart, a suspension, a backup, or a new copy for a replica. The database
// goes on serving. Its reason is for customers.
type CustomerError struct {
	Reason string
	// Passing reports whether it may be gone after a while, for who has that long.
	Passing bool
}

func (e *CustomerError) Error() string { return e.Reason }
