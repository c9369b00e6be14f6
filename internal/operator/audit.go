package operator

import (
	"context"
	"net/http"
	"os/user"
	"time"

	"steward/internal/account"
)

// Audit calls f with the lines of the audit trail since a time, oldest first; of
// one user when username isn't empty.
func (x *Access) Audit(ctx context.Context, since time.Time, username string, f func(account.Audit) error) error {
	return x.store.Audit(ctx, since, username, f)
}

// operatorDid is the line for a command that an operator gave, and whom it was about.
func operatorDid(command string, whom account.User) account.Audit {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return account.Audit{
		At: time.Now(), Account: whom.Account, Username: "operator:" + name, Address: "local", Action: command, Path: whom.Username, Status: http.StatusOK,
	}
}
