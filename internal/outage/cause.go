package outage

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/alert"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/monitor"
	"steward/internal/store"
)

// Cause is what is at fault when that isn't a service. One cause has one open
// issue at most. A cause may have others below it.
type Cause string

// OfDatabase is all that can be wrong with a database.
func OfDatabase(id cluster.ID) Cause { return Cause(fmt.Sprintf("database/%d", id)) }

// OfDisk is a database whose disk is full.
func OfDisk(id cluster.ID) Cause { return OfDatabase(id) + "/disk" }

// OfBackup is a backup that doesn't restore.
func OfBackup(id cluster.ID, b backup.ID) Cause {
	return OfDatabase(id) + Cause(fmt.Sprintf("/backup/%d", b))
}

// OfAlert is what a rule finds wrong with a database.
func OfAlert(id cluster.ID, rule alert.ID) Cause {
	return OfDatabase(id) + alertPart + Cause(strconv.FormatInt(int64(rule), 10))
}

const alertPart = "/alert/"

// Alert is the database and the rule of a cause that OfAlert made.
func (c Cause) Alert() (id cluster.ID, rule alert.ID, ok bool) {
	database, number, ok := strings.Cut(strings.TrimPrefix(string(c), "database/"), alertPart)
	of, err := strconv.ParseInt(database, 10, 64)
	by, wrong := strconv.ParseInt(number, 10, 64)
	return cluster.ID(of), alert.ID(by), ok && err == nil && wrong == nil
}

// Database is whose cause it is, whatever is wrong with it; ok is false of what isn't about a database.
func (c Cause) Database() (id cluster.ID, ok bool) {
	rest, ok := strings.CutPrefix(string(c), "database/")
	number, _, _ := strings.Cut(rest, "/")
	of, err := strconv.ParseInt(number, 10, 64)
	return cluster.ID(of), ok && err == nil
}

// Audience is who is told of an issue beside the operator's channels.
type Audience struct {
	// Contacts are all of the account's.
	Contacts bool
	// Channels are the account's.
	Channels []alert.Channel
}

// Raise opens an issue of the cause, unless one is open. about names what is at
// fault, and found says what is wrong with it. All contacts are told.
func (t IssueTracker) Raise(ctx context.Context, tx *store.Tx, of account.ID, cause Cause, about, found string, at time.Time) error {
	return t.RaiseTo(ctx, tx, of, cause, about, found, at, Audience{Contacts: true})
}

// RaiseTo is Raise that tells an audience.
func (t IssueTracker) RaiseTo(ctx context.Context, tx *store.Tx, of account.ID, cause Cause, about, found string, at time.Time, told Audience) error {
	if err := tx.LockIssues(ctx, of); err != nil {
		return err
	}
	open, err := tx.IssuesOfCause(ctx, of, string(cause))
	if err != nil {
		return fmt.Errorf("issues of %s: %w", cause, err)
	}
	if slices.ContainsFunc(open, func(i monitor.Issue) bool { return i.Cause == string(cause) }) {
		return nil
	}
	summary := about + ": " + found
	issue, err := tx.OpenIssue(ctx, monitor.Issue{Account: of, Cause: string(cause), About: about, Contacts: told.Contacts, Created: at, Ticket: monitor.Ticket{Summary: summary}})
	if err != nil {
		return fmt.Errorf("open issue of %s: %w", cause, err)
	}
	return t.opened(ctx, tx, issue, opening{summary: summary, channels: told.Channels})
}

// Settle closes the open issues of the cause and of those below it: all is well
// again.
func (t IssueTracker) Settle(ctx context.Context, tx *store.Tx, of account.ID, cause Cause, why string, at time.Time) error {
	return t.settle(ctx, tx, of, cause, monitor.Recovered, why, at)
}

// Drop closes them because what they are about is gone.
func (t IssueTracker) Drop(ctx context.Context, tx *store.Tx, of account.ID, cause Cause, why string, at time.Time) error {
	return t.settle(ctx, tx, of, cause, monitor.Unwatched, why, at)
}

func (t IssueTracker) settle(ctx context.Context, tx *store.Tx, of account.ID, cause Cause, how monitor.ReplyKind, why string, at time.Time) error {
	if err := tx.LockIssues(ctx, of); err != nil {
		return err
	}
	issues, err := tx.IssuesOfCause(ctx, of, string(cause))
	if err != nil {
		return fmt.Errorf("issues of %s: %w", cause, err)
	}
	for _, issue := range issues {
		if err := t.note(ctx, tx, issue, how, at, why); err != nil {
			return err
		}
		if err := t.close(ctx, tx, issue, how, at); err != nil {
			return err
		}
	}
	return nil
}
