package outage

import (
	"context"
	"fmt"
	"time"

	"steward/internal/cluster"
	"steward/internal/monitor"
	"steward/internal/store"
)

// TellWindow tells all contacts of a database's account, and the operator's channels,
// how far the work of its maintenance window is. Nobody is told anything when the
// operator doesn't want it, nor the same of a window twice.
func (t IssueTracker) TellWindow(ctx context.Context, tx *store.Tx, kind monitor.NoticeKind, c cluster.Cluster, w monitor.NoticeWindow) error {
	if !t.Maintenance {
		return nil
	}
	w.Database = c.Label
	return t.tellEverybody(ctx, tx, monitor.Notice{Account: c.Account, Database: c.ID, Window: w.Start, Kind: kind, Content: monitor.Content{Maintenance: &w}})
}

// TellGrowth tells all contacts of a database's account, and the operator's channels, that it filled up at a time and what comes of it: it
// moves to a type, or stays as it is when that is "", of which they are told once a day.
func (t IssueTracker) TellGrowth(ctx context.Context, tx *store.Tx, c cluster.Cluster, at time.Time, to, note string) error {
	told := monitor.Notice{Account: c.Account, Database: c.ID, Window: at, Kind: monitor.NoticeGrown}
	if to == "" {
		told.Kind, told.Window = monitor.NoticeFull, at.UTC().Truncate(24*time.Hour)
	}
	told.Content.Growth = &monitor.NoticeGrowth{Database: c.Label, Type: to, Note: note}
	return t.tellEverybody(ctx, tx, told)
}

// tellEverybody tells the same to all contacts of an account and to the operator's channels.
func (t IssueTracker) tellEverybody(ctx context.Context, tx *store.Tx, told monitor.Notice) error {
	contacts, err := tx.ContactsOfGroup(ctx, told.Account, "")
	if err != nil {
		return fmt.Errorf("contacts of account %d: %w", told.Account, err)
	}
	var notices []monitor.Notice
	for _, contact := range contacts {
		n := told
		n.Channel, n.Recipient, n.Name = monitor.EmailChannel, contact.Email, contact.Name
		notices = append(notices, n)
	}
	for _, channel := range t.Channels {
		n := told
		n.Channel = channel
		notices = append(notices, n)
	}
	return tx.CreateNotices(ctx, notices)
}
