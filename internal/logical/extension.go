package logical

// Extension is one that a server of PostgreSQL's has, as seen from one of its databases.
type Extension struct {
	Name string
	// Version is the one that is there, Installed the one in the database; "" when it isn't in it.
	Version, Installed string
	// Schema is where its objects are; "" when it isn't in the database.
	Schema  string
	Comment string
	// Offered reports whether customers may create it: the server trusts it, or steward makes it. Missing is why not, where more can be said
	// than that; "" otherwise.
	Offered bool
	Missing string
}
