package control

import (
	"context"
	"time"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/store"
)

// CheckQuota bounds what is asked of the checks. Whoever watches services could
// otherwise be made to flood somebody else's host: a single account, or many
// together. Requests at the same time may exceed a bound by their number.
type CheckQuota struct {
	// PerAccount and PerHost are checks a minute; 0: unbounded. A host's are those
	// of all accounts.
	PerAccount, PerHost int
	// Interval is between the checks of a service that has none of its own.
	Interval time.Duration
}

// admit says what speaks against having a service checked as it is from now on.
// One that is asked for no more than before goes on when a bound was lowered.
func (q CheckQuota) admit(ctx context.Context, tx *store.Tx, before *monitor.Service, s monitor.Service) (fault.Faults, error) {
	var faults fault.Faults
	wanted := s.ChecksPerMinute(q.Interval)
	if s.Status == monitor.Disabled || before != nil && before.Status != monitor.Disabled && before.Host() == s.Host() && before.ChecksPerMinute(q.Interval) >= wanted {
		return nil, nil
	}
	if q.PerAccount > 0 {
		others, err := tx.ChecksOfAccount(ctx, s.Account, s.ID, q.Interval)
		if err != nil {
			return nil, err
		}
		if others+wanted > float64(q.PerAccount) {
			faults = append(faults, fault.NewPrecondition("The account's services would be checked more than %d times a minute; disable some of them or raise their interval.", q.PerAccount))
		}
	}
	if host := s.Host(); q.PerHost > 0 && host != "" {
		others, err := tx.ChecksOfHost(ctx, host, s.ID, q.Interval)
		if err != nil {
			return nil, err
		}
		if others+wanted > float64(q.PerHost) {
			faults.Add("address", "%s would be checked more than %d times a minute by all who monitor it; raise the interval or monitor it by fewer services", host, q.PerHost)
		}
	}
	return faults, nil
}

// taken is what a database takes of its account's quotas.
func (d Deps) taken(s cluster.Spec) account.Amounts {
	memory, disk := d.Catalog.Size(s.Type)
	return account.Amounts{Databases: 1, Nodes: s.Size, MemoryMB: s.Size * memory, DiskMB: s.Size * disk}
}

// within demands, in the transaction that gives an account more, that no quota is
// exceeded.
func (d Deps) within(ctx context.Context, tx *store.Tx, of account.ID, more account.Amounts) error {
	if !more.Grow() {
		return nil
	}
	faults, err := tx.Exceeded(ctx, of, more, d.Quotas, d.Catalog.Size)
	if err != nil {
		return err
	}
	return faults.Err()
}

// withExceeded adds to a request's faults the quotas that it would exceed.
func (d Deps) withExceeded(ctx context.Context, of account.ID, more account.Amounts, faults fault.Faults) (fault.Faults, error) {
	if !more.Grow() {
		return faults, nil
	}
	var exceeded fault.Faults
	err := d.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		exceeded, err = tx.Exceeded(ctx, of, more, d.Quotas, d.Catalog.Size)
		return err
	})
	return append(faults, exceeded...), err
}
