package store

import (
	"context"
	"fmt"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/store/dbsqlc"
)

func toAccount(r dbsqlc.Account) account.Account {
	return account.Account{
		ID: account.ID(r.ID), Name: r.Name, Email: r.Email, Status: account.Status(r.Status), Created: r.Created,
		Quotas: account.Quotas{
			Databases: wide(r.MaxDatabases), Nodes: wide(r.MaxNodes), MemoryGB: wide(r.MaxMemoryGb), DiskGB: wide(r.MaxDiskGb), Services: wide(r.MaxServices),
		},
	}
}

func wide(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}

func narrow(n *int) *int32 {
	if n == nil {
		return nil
	}
	return new(int32(*n))
}

// CreateAccount adds an account without users.
func (t *Tx) CreateAccount(ctx context.Context, a account.Account) (account.Account, error) {
	row, err := t.q.AccountCreate(ctx, dbsqlc.AccountCreateParams{
		Name: a.Name, Email: a.Email, Created: t.now(), MaxDatabases: narrow(a.Quotas.Databases), MaxNodes: narrow(a.Quotas.Nodes),
		MaxMemoryGb: narrow(a.Quotas.MemoryGB), MaxDiskGb: narrow(a.Quotas.DiskGB), MaxServices: narrow(a.Quotas.Services),
	})
	return toAccount(row), classify(err)
}

// Account is an account by its id.
func (q queries) Account(ctx context.Context, id account.ID) (account.Account, error) {
	row, err := q.q.AccountGet(ctx, int64(id))
	return toAccount(row), classify(err)
}

// AccountByName is an account by its name.
func (q queries) AccountByName(ctx context.Context, name string) (account.Account, error) {
	row, err := q.q.AccountByName(ctx, name)
	return toAccount(row), classify(err)
}

// Accounts are all of them, oldest first.
func (q queries) Accounts(ctx context.Context) ([]account.Account, error) {
	rows, err := q.q.AccountAll(ctx)
	return toAccounts(rows), classify(err)
}

func toAccounts(rows []dbsqlc.Account) []account.Account {
	all := make([]account.Account, len(rows))
	for i, r := range rows {
		all[i] = toAccount(r)
	}
	return all
}

// HoldAccount reads an account whose status, quotas and use nobody else changes
// until the transaction ends: of two who would take the last of a quota the second
// waits for the first. It comes before all other locks.
func (t *Tx) HoldAccount(ctx context.Context, id account.ID) (account.Account, error) {
	row, err := t.q.AccountHold(ctx, int64(id))
	return toAccount(row), classify(err)
}

// UpdateAccount writes e-mail address, status and quotas of an account that
// HoldAccount read. With another status its services are checked, or no longer.
func (t *Tx) UpdateAccount(ctx context.Context, a account.Account) error {
	n, err := t.q.AccountUpdate(ctx, dbsqlc.AccountUpdateParams{
		ID: int64(a.ID), Email: a.Email, Status: string(a.Status), MaxDatabases: narrow(a.Quotas.Databases), MaxNodes: narrow(a.Quotas.Nodes),
		MaxMemoryGb: narrow(a.Quotas.MemoryGB), MaxDiskGb: narrow(a.Quotas.DiskGB), MaxServices: narrow(a.Quotas.Services),
	})
	if err := oneRow(n, err); err != nil {
		return err
	}
	return classify(t.q.AccountTouchShards(ctx, int64(a.ID)))
}

// Group are databases of an account that have as many nodes of one plan.
type Group struct {
	Type            string
	Size, Databases int
}

// Amounts are what quotas bound of them.
func (g Group) Amounts(plans Plans) account.Amounts {
	nodes := g.Size * g.Databases
	memory, disk := plans(g.Type)
	return account.Amounts{Databases: g.Databases, Nodes: nodes, MemoryMB: nodes * memory, DiskMB: nodes * disk}
}

// Groups are all databases of an account but those that were deleted.
func (q queries) Groups(ctx context.Context, of account.ID) ([]Group, error) {
	rows, err := q.q.AccountDatabases(ctx, int64(of))
	groups := make([]Group, len(rows))
	for i, r := range rows {
		groups[i] = Group{r.Type, int(r.Size), int(r.Databases)}
	}
	return groups, classify(err)
}

// CountServicesAndUsers is how many of both an account has.
func (q queries) CountServicesAndUsers(ctx context.Context, of account.ID) (services, users int, err error) {
	r, err := q.q.AccountCounts(ctx, int64(of))
	return int(r.Services), int(r.Users), classify(err)
}

// AccountsToSettle are those whose databases may have to be brought in line with
// their status.
func (q queries) AccountsToSettle(ctx context.Context) ([]account.Account, error) {
	rows, err := q.q.AccountsToSettle(ctx)
	return toAccounts(rows), classify(err)
}

// AccountCluster is what an account's status asks to know of one of its databases.
type AccountCluster struct {
	Status cluster.Status
	// RestsWithAccount reports whether it rests because its account was suspended.
	RestsWithAccount bool
	// Deleted reports whether it is being removed, or there only for its backups.
	Deleted bool
}

// AccountClusters are an account's databases, deleted ones too.
func (q queries) AccountClusters(ctx context.Context, of account.ID) (map[cluster.ID]AccountCluster, error) {
	rows, err := q.q.AccountClusters(ctx, int64(of))
	all := make(map[cluster.ID]AccountCluster, len(rows))
	for _, r := range rows {
		all[cluster.ID(r.ID)] = AccountCluster{cluster.Status(r.Status), r.RestsWithAccount, r.Deleted}
	}
	return all, classify(err)
}

// AccountUnsettled is how many databases aren't yet as the account's status wants
// them: served, at rest, or gone. Of those that failed nothing serves, and what is
// left of deleted ones are kept backups.
func (q queries) AccountUnsettled(ctx context.Context, id account.ID) (int, error) {
	n, err := q.q.AccountUnsettled(ctx, int64(id))
	return int(n), classify(err)
}

// SetRestsWithAccount notes that a database rests because its account is
// suspended, or doesn't any more.
func (t *Tx) SetRestsWithAccount(ctx context.Context, id cluster.ID, rests bool) error {
	n, err := t.q.ClusterRestsWithAccount(ctx, rests, int64(id))
	return oneRow(n, err)
}

// ClearAccount removes all of an account but its databases and their operations.
func (t *Tx) ClearAccount(ctx context.Context, id account.ID) error {
	// Those who check services hold their shards first.
	if err := t.q.AccountTouchShards(ctx, int64(id)); err != nil {
		return fmt.Errorf("tell those who check services: %w", classify(err))
	}
	for _, remove := range []struct {
		what string
		do   func(context.Context, int64) error
	}{
		{"status pages", t.q.AccountDeleteStatusPages},
		{"sums of checks", t.q.AccountDeleteCheckDays},
		{"services", t.q.AccountDeleteServices},
		{"notices", t.q.AccountDeleteNotices},
		{"issues", t.q.AccountDeleteIssues},
		{"tickets", t.q.AccountDeleteTickets},
		{"readings of credentials", t.q.AccountDeleteReveals},
		{"credentials", t.q.AccountDeleteCredentials},
		{"contacts", t.q.AccountDeleteContacts},
		{"keys", t.q.AccountDeleteKeys},
		{"machines", t.q.AccountDeleteComputes},
		{"users", t.q.AccountDeleteUsers},
	} {
		if err := remove.do(ctx, int64(id)); err != nil {
			return fmt.Errorf("remove %s: %w", remove.what, classify(err))
		}
	}
	return nil
}

// RemoveAccount drops the row of an account that is being deleted, with its
// operations and its usage. Whatever else refers to it makes that fail.
func (t *Tx) RemoveAccount(ctx context.Context, id account.ID) error {
	if err := t.q.AccountDeleteOperations(ctx, int64(id)); err != nil {
		return fmt.Errorf("remove operations: %w", classify(err))
	}
	if err := t.q.AccountDeleteUsage(ctx, int64(id)); err != nil {
		return fmt.Errorf("remove usage: %w", classify(err))
	}
	n, err := t.q.AccountDelete(ctx, int64(id))
	return oneRow(n, err)
}

// Plans tells memory and disk of a node of a plan, in MB; none of one that isn't known.
type Plans func(plan string) (memoryMB, diskMB int)

// Used is how much an account has of what quotas bound.
func (q queries) Used(ctx context.Context, of account.ID, plans Plans) (account.Amounts, error) {
	groups, err := q.Groups(ctx, of)
	if err != nil {
		return account.Amounts{}, err
	}
	var used account.Amounts
	for _, g := range groups {
		used = used.Plus(g.Amounts(plans))
	}
	used.Services, _, err = q.CountServicesAndUsers(ctx, of)
	return used, err
}

// Exceeded names the quotas that an account would exceed by having so much more.
// It holds the account until the transaction ends, in which what it allows is to
// be taken. One that isn't served is given nothing. quotas are the operator's
// defaults.
func (t *Tx) Exceeded(ctx context.Context, of account.ID, more account.Amounts, quotas account.Quotas, plans Plans) (fault.Faults, error) {
	a, err := t.HoldAccount(ctx, of)
	if err != nil {
		return nil, err
	}
	if a.Status != account.Active {
		return nil, fault.NewSuspended()
	}
	used, err := t.Used(ctx, of, plans)
	return a.Quotas.Or(quotas).Exceeded(used, more), err
}
