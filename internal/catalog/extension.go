package catalog

// Extension is one that a series of PostgreSQL comes with on this host.
type Extension struct {
	Name, Version, Comment string
	// Missing is why customers can't create it, "" when they can.
	Missing string
	// Parameter is the one of engine_config that has it loaded when the server starts, without which it can't be created; "" for none.
	Parameter string
}
