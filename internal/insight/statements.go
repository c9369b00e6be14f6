package insight

import "time"

// StatementOrder is what statements are ordered by, the greatest first.
type StatementOrder string

// The orders.
const (
	ByTotalTime StatementOrder = "total_time"
	ByCalls     StatementOrder = "calls"
	ByMean      StatementOrder = "mean"
	ByRows      StatementOrder = "rows"
)

// Statement is what a server has counted of statements that differ in their values only.
type Statement struct {
	// ID is the server's own for the statement.
	ID             string
	User, Database string
	Calls, Rows    int64
	Total, Mean    time.Duration
	// Share is its part of the time of all statements, 0 to 1.
	Share float64
	Text  string
}

// Statements are a part of those that a server has counted, and how many there are.
type Statements struct {
	Sleeping bool
	List     []Statement
	Count    int
	// Missing says why nothing is counted, for customers; "" when it is.
	Missing string
}

// MostPlanned is how long a statement may be whose plan is asked for, in bytes.
const MostPlanned = 32 << 10

// MostPlan is how long a plan may be that is shown, in bytes.
const MostPlan = 512 << 10

// Plan is how a server would carry out a statement.
type Plan struct {
	// JSON is the server's own description.
	JSON []byte
	// Refused is what the server says against the statement, for whoever sent it; "" when it has a plan.
	Refused string
}
