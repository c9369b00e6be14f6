package outage

import (
	"context"
	"fmt"

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
	contacts, err := tx.ContactsOfGroup(ctx, c.Account, "")
	if err != nil {
		return fmt.Errorf("contacts of account %d: %w", c.Account, err)
	}
	w.Database = c.Label
	told := monitor.Notice{Account: c.Account, Database: c.ID, Window: w.Start, Kind: kind, Content: monitor.Content{Maintenance: &w}}
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
