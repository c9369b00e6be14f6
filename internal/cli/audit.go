package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/filter"
	"steward/internal/operator"
)

type auditCommand struct {
	dataFlag
	jsonFlag
	User  string `help:"Of this user only."`
	Since string `default:"24h" help:"A time such as 2026-01-31T18:04:05 (UTC), or how long ago, such as 24h."`
	Store string `help:"PostgreSQL URL of the store, when it isn't steward's own."`
}

// auditLine is a line of the trail as scripts read it.
type auditLine struct {
	ID        int64     `json:"id"`
	At        time.Time `json:"at"`
	AccountID int64     `json:"account_id"`
	UserID    int64     `json:"user_id"`
	Username  string    `json:"username"`
	TokenID   int64     `json:"token_id"`
	ClientID  string    `json:"client_id"`
	Address   string    `json:"address"`
	Action    string    `json:"action"`
	Path      string    `json:"path"`
	Status    int       `json:"status"`
	RequestID string    `json:"request_id"`
}

func (c *auditCommand) Run(ctx context.Context, s *streams) error {
	since, err := sinceTime(c.Since, time.Now())
	if err != nil {
		return err
	}
	access, err := operator.OpenAccess(ctx, c.Data, c.Store)
	if err != nil {
		return err
	}
	defer access.Close(ctx)
	if c.JSON {
		return access.Audit(ctx, since, c.User, func(a account.Audit) error {
			return printJSONLine(s.out, auditLine{
				a.ID, a.At.UTC(), int64(a.Account), int64(a.User), a.Username, int64(a.Token), string(a.Client), a.Address, a.Action, a.Path, a.Status, a.RequestID,
			})
		})
	}
	var rows [][]string
	err = access.Audit(ctx, since, c.User, func(a account.Audit) error {
		rows = append(rows, []string{
			filter.FormatTime(a.At), cmp.Or(printable(a.Username), "-"), tokenText(a), a.Address, strconv.Itoa(a.Status), what(a),
		})
		return nil
	})
	if err != nil {
		return err
	}
	return printTable(s.out, []string{"time", "user", "token", "from", "status", "what"}, rows)
}

// sinceTime reads a time, or how long before now it was.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if t, ok := filter.ParseTime(text); ok {
		return t, nil
	}
	ago, err := time.ParseDuration(text)
	if err != nil || ago < 0 {
		return time.Time{}, fmt.Errorf("--since %q: neither a time such as 2026-01-31T18:04:05 nor a duration such as 24h", text)
	}
	return now.Add(-ago), nil
}

// what was done: a request's method and the path that was asked for, or an
// operator's command and whom it was about.
func what(a account.Audit) string {
	if method, _, ok := strings.Cut(a.Action, " /"); ok && strings.HasPrefix(a.Path, "/") {
		return method + " " + printable(a.Path)
	}
	return a.Action + " " + printable(a.Path)
}

func tokenText(a account.Audit) string {
	switch {
	case a.Client != "" && a.Token != 0:
		return fmt.Sprintf("%d of client %s", a.Token, a.Client)
	case a.Client != "":
		return "client " + string(a.Client)
	case a.Token != 0:
		return strconv.FormatInt(int64(a.Token), 10)
	}
	return "-"
}
