package platform

// CustomerError is returned by Apply and Backup when something of the customer's
// prevents a restart, a suspension, a backup, or a new copy for a replica. The database
// goes on serving. Its reason is for customers.
type Hindrance struct{ Reason string }

func (e *Hindrance) Error() string { return e.Reason }
