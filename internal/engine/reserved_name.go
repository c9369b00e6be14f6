package engine

// ReservedNameError names a database whose name is that of a file of the server's or of the
// program that copies it. Its text is for customers.
type ReservedNameError struct{ Database string }

func (h *ReservedNameError) Error() string {
	return "The database " + h.Database + " has a name that the server needs for files of its own: " +
		"move its tables to a database of another name and drop it, then try again."
}
