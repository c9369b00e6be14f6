package account

import "time"

// Audit is one line of the audit trail. It holds no secret and nothing of a
// request's body. What isn't known is zero.
type Audit struct {
	ID      int64
	At      time.Time
	Account ID
	User    UserID
	// Username is as it was then.
	Username string
	Token    TokenID
	// Client is the application that the token was lent to.
	Client ClientID
	// Address is where the request came from; "local" for an operator's command.
	Address string
	// Action is the operation's method and path with its parameters' names, Path
	// the one asked for.
	Action, Path string
	// Status is the HTTP status of the answer.
	Status    int
	RequestID string
}
