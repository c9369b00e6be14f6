package store

import (
	"context"

	"steward/internal/account"
	"steward/internal/monitor"
	"steward/internal/store/dbsqlc"
)

// EnsureHost makes a steward server's own host one of the account's machines,
// unless it is already.
func (q queries) EnsureHost(ctx context.Context, in account.ID, hostname string) error {
	return classify(q.q.ComputeEnsure(ctx, dbsqlc.ComputeEnsureParams{AccountID: int64(in), Label: hostname, Now: q.now()}))
}

// CreateCompute adds a machine to c.Account, with default SSH settings.
func (q queries) CreateCompute(ctx context.Context, c monitor.Compute) (monitor.Compute, error) {
	row, err := q.q.ComputeCreate(ctx, dbsqlc.ComputeCreateParams{
		AccountID: int64(c.Account), Label: c.Label, GroupName: c.Group, Source: orNull(c.Source), Now: q.now(),
	})
	return toCompute(row), classify(err)
}

// Compute is one machine of the account.
func (q queries) Compute(ctx context.Context, in account.ID, id monitor.ComputeID) (monitor.Compute, error) {
	row, err := q.q.ComputeGet(ctx, int64(in), int64(id))
	return toCompute(row), classify(err)
}

// LockCompute reads a machine and keeps others from changing it until the
// transaction ends.
func (t *Tx) LockCompute(ctx context.Context, in account.ID, id monitor.ComputeID) (monitor.Compute, error) {
	row, err := t.q.ComputeLock(ctx, int64(in), int64(id))
	return toCompute(row), classify(err)
}

// Computes is one page of the account's machines, and how many there are.
func (q queries) Computes(ctx context.Context, in account.ID, page Page) ([]monitor.Compute, int, error) {
	rows, err := q.q.ComputeList(ctx, dbsqlc.ComputeListParams{AccountID: int64(in), Size: page.limit(), Skip: page.offset()})
	if err != nil {
		return nil, 0, classify(err)
	}
	all, total := make([]monitor.Compute, len(rows)), 0
	for i, r := range rows {
		all[i], total = toCompute(r.Compute), int(r.Total)
	}
	if len(rows) == 0 && page.Number > 1 {
		first, total, err := q.Computes(ctx, in, Page{Number: 1, Size: 1})
		return first[:0], total, err
	}
	return all, total, nil
}

// AllComputes are the machines of all accounts: for operators and the sampler.
func (q queries) AllComputes(ctx context.Context) ([]monitor.Compute, error) {
	rows, err := q.q.ComputeAll(ctx)
	all := make([]monitor.Compute, len(rows))
	for i, r := range rows {
		all[i] = toCompute(r)
	}
	return all, classify(err)
}

// UpdateSSH writes a machine's SSH settings.
func (q queries) UpdateSSH(ctx context.Context, c monitor.Compute) error {
	n, err := q.q.ComputeUpdateSSH(ctx, dbsqlc.ComputeUpdateSSHParams{
		AccountID: int64(c.Account), ID: int64(c.ID), Updated: q.now(),
		SshAccess: c.SSH.Access, SshUser: orNull(c.SSH.User), SshIp: c.SSH.IP, SshPort: orNull(int32(c.SSH.Port)), SshHostKey: orNull(c.SSH.HostKey),
	})
	return oneRow(n, err)
}

// DeleteCompute removes a machine with what was known of its load.
func (q queries) DeleteCompute(ctx context.Context, in account.ID, id monitor.ComputeID) error {
	n, err := q.q.ComputeDelete(ctx, int64(in), int64(id))
	return oneRow(n, err)
}

func toCompute(r dbsqlc.Compute) monitor.Compute {
	return monitor.Compute{
		ID: monitor.ComputeID(r.ID), Account: account.ID(r.AccountID), Label: r.Label, Group: r.GroupName, Source: orZero(r.Source),
		SSH: monitor.SSHSettings{
			Access: r.SshAccess, User: orZero(r.SshUser), IP: r.SshIp, Port: int(orZero(r.SshPort)), HostKey: orZero(r.SshHostKey),
		},
		Created: r.Created, Updated: r.Updated,
	}
}
