package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/alert"
	"steward/internal/cluster"
	"steward/internal/store/dbsqlc"
)

// alertLease is the class of the lease of who judges databases by the rules of alerts.
const alertLease = 7030

// LeaseAlerts makes the caller the only one of all servers that judges databases. Writes are as with Lease.
func (s *Store) LeaseAlerts(ctx context.Context) (leased context.Context, release func(), ok bool, err error) {
	return s.leaseFenced(ctx, leaseKey(alertLease, 0))
}

// AlertSubject is a database as it is judged.
type AlertSubject struct {
	alert.Subject
	Account account.ID
	Label   string
	// Rests reports whether it has no servers to judge: it is being made, suspended or asleep.
	Rests bool
	// Proven is when the newest backup began that can be relied on; without any, when the database was made.
	Proven time.Time
}

// AlertSubjects are all databases that aren't deleted. With verified a backup counts once it was proven to restore,
// otherwise when it is complete.
func (q queries) AlertSubjects(ctx context.Context, verified bool) ([]AlertSubject, error) {
	rows, err := q.q.AlertSubjects(ctx, verified)
	all := make([]AlertSubject, len(rows))
	for i, r := range rows {
		all[i] = AlertSubject{
			Subject: alert.Subject{ID: cluster.ID(r.ID), Engine: cluster.Engine(r.Engine), Region: r.Region},
			Account: account.ID(r.AccountID), Label: r.Label, Rests: r.Rests, Proven: r.Proven,
		}
	}
	return all, classify(err)
}

// AlertRules are the rules that an account made, and the defaults that it changed as they are for it.
func (q queries) AlertRules(ctx context.Context, of account.ID) ([]alert.Rule, error) {
	rows, err := q.q.AlertRulesOf(ctx, int64(of))
	if err != nil {
		return nil, classify(err)
	}
	all := make([]alert.Rule, len(rows))
	for i, r := range rows {
		if all[i], err = toRule(r); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// AllAlertRules are those of all accounts.
func (q queries) AllAlertRules(ctx context.Context) (map[account.ID][]alert.Rule, error) {
	rows, err := q.q.AlertRulesAll(ctx)
	if err != nil {
		return nil, classify(err)
	}
	all := map[account.ID][]alert.Rule{}
	for _, r := range rows {
		rule, err := toRule(r)
		if err != nil {
			return nil, err
		}
		all[account.ID(r.AccountID)] = append(all[account.ID(r.AccountID)], rule)
	}
	return all, nil
}

// LockAlertRule is one of the account's, kept from others' changes until the transaction ends.
func (t *Tx) LockAlertRule(ctx context.Context, of account.ID, id alert.ID) (alert.Rule, error) {
	r, err := t.q.AlertRuleLock(ctx, int64(of), int64(id))
	if err != nil {
		return alert.Rule{}, classify(err)
	}
	return toRule(r)
}

// SaveAlertRule adds a rule, with an id of its own when it has none, or writes over it. It sets its times.
func (t *Tx) SaveAlertRule(ctx context.Context, of account.ID, r alert.Rule) (alert.Rule, error) {
	if r.ID == 0 {
		id, err := t.q.AlertRuleID(ctx)
		if err != nil {
			return r, classify(err)
		}
		r.ID = alert.ID(id)
	}
	r.Updated = t.now()
	if r.Created.IsZero() {
		r.Created = r.Updated
	}
	criteria, err := json.Marshal(r.Criteria)
	if err != nil {
		return r, fmt.Errorf("encode criteria: %w", err)
	}
	err = t.q.AlertRuleSave(ctx, dbsqlc.AlertRuleSaveParams{
		AccountID: int64(of), ID: int64(r.ID), Label: r.Label, Description: r.Description, Severity: int16(r.Severity), Enabled: r.Enabled, Criteria: criteria,
		Period: int32(r.Trigger.Period / time.Second), Polling: int32(r.Trigger.Polling / time.Second), Occurrences: int32(r.Trigger.Occurrences),
		Scope: string(r.Scope), Clusters: numbers(r.Entities), Regions: append([]string{}, r.Regions...), Channels: numbers(r.Channels),
		Created: r.Created, CreatedBy: r.CreatedBy, Updated: r.Updated, UpdatedBy: r.UpdatedBy,
	})
	return r, classify(err)
}

// DeleteAlertRule removes a rule; a default is as it was before it was changed.
func (t *Tx) DeleteAlertRule(ctx context.Context, of account.ID, id alert.ID) error {
	return oneRow(t.q.AlertRuleDelete(ctx, int64(of), int64(id)))
}

func toRule(r dbsqlc.AlertRule) (alert.Rule, error) {
	rule := alert.Rule{
		ID: alert.ID(r.ID), Label: r.Label, Description: r.Description, Severity: alert.Severity(r.Severity), Enabled: r.Enabled,
		Trigger: alert.Trigger{Period: time.Duration(r.Period) * time.Second, Polling: time.Duration(r.Polling) * time.Second, Occurrences: int(r.Occurrences)},
		Scope:   alert.Scope(r.Scope), Regions: r.Regions, Created: r.Created, CreatedBy: r.CreatedBy, Updated: r.Updated, UpdatedBy: r.UpdatedBy,
	}
	for _, id := range r.Clusters {
		rule.Entities = append(rule.Entities, cluster.ID(id))
	}
	for _, id := range r.Channels {
		rule.Channels = append(rule.Channels, alert.ChannelID(id))
	}
	if err := json.Unmarshal(r.Criteria, &rule.Criteria); err != nil {
		return rule, fmt.Errorf("decode the criteria of rule %d: %w", r.ID, err)
	}
	return rule, nil
}

// OpenAlert is the cause of an open issue that a rule opened.
type OpenAlert struct {
	Account account.ID
	Cause   string
}

// OpenAlerts are those of all accounts.
func (q queries) OpenAlerts(ctx context.Context) ([]OpenAlert, error) {
	rows, err := q.q.AlertsOpen(ctx)
	all := make([]OpenAlert, len(rows))
	for i, r := range rows {
		all[i] = OpenAlert{account.ID(r.AccountID), r.Cause}
	}
	return all, classify(err)
}

// SlicesSince are the slices of some databases that began in [since, until), oldest first.
func (q queries) SlicesSince(ctx context.Context, ids []cluster.ID, since, until time.Time) ([]Slice, error) {
	rows, err := q.q.SlicesSince(ctx, dbsqlc.SlicesSinceParams{Clusters: numbers(ids), Since: since, Until: until})
	all := make([]Slice, len(rows))
	for i, r := range rows {
		all[i] = Slice{Cluster: cluster.ID(r.ClusterID), Node: int(r.Node), Started: r.Started.UTC(), Packed: r.Packed}
	}
	return all, classify(err)
}
