package control

import (
	"context"
	"crypto/sha256"
	"slices"

	"steward/internal/account"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/operation"
	"steward/internal/store"
)

// Operators are the use cases, by the API, of users who run the installation. Who is one is said on its machine
// alone, by `steward operator add`.
type Operators struct{ Deps }

// Is reports whether the caller is an operator, as the store has it now.
func (s *Operators) Is(ctx context.Context, p account.Principal) (bool, error) {
	if p.User.Restricted {
		return false, nil
	}
	return s.Store.IsOperator(ctx, p.User.ID)
}

// Permit is nil for operators alone. Whatever is said under /v4/operator is asked here first.
func (s *Operators) Permit(ctx context.Context, p account.Principal) error {
	is, err := s.Is(ctx, p)
	if err == nil && !is {
		err = fault.NewForbidden()
	}
	return err
}

// FirstUser makes the first user of an account, and a secret with which that sets its password, once. It can be asked for
// again until the password is set. An account that has users makes others itself: nobody is let in to what is theirs.
func (s *Operators) FirstUser(ctx context.Context, of, name, email string, faults fault.Faults, by account.Audit) (made account.User, secret string, err error) {
	if err := combine(faults, append(ValidateUsername(name), ValidateEmail(email)...)).Err(); err != nil {
		return made, "", err
	}
	if secret, err = newToken(); err != nil {
		return made, "", err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		found, err := tx.AccountByName(ctx, of)
		if err != nil {
			return err
		}
		owner, err := tx.HoldAccount(ctx, found.ID)
		if err != nil {
			return err
		}
		if owner.Status == account.Deleting {
			return fault.NewPrecondition("The account %s is being deleted.", of)
		}
		if made, err = ensureFirst(ctx, tx, account.User{Account: owner.ID, Username: name, Email: email}); err != nil {
			return err
		}
		if err := tx.ReplaceLoginLink(ctx, sha256.Sum256([]byte(secret)), made.ID, s.Now().Add(LinkLifetime)); err != nil {
			return err
		}
		by.Account, by.Path = owner.ID, name
		return tx.AddAudit(ctx, by)
	})
	return made, secret, err
}

// ensureFirst finds or makes the only user of an account.
func ensureFirst(ctx context.Context, tx *store.Tx, want account.User) (account.User, error) {
	there, err := tx.LockUsers(ctx, want.Account)
	if err != nil {
		return want, err
	}
	if len(there) == 0 {
		made, err := tx.CreateUser(ctx, want)
		if err != nil {
			return made, err
		}
		return made, Happened(ctx, tx, "", OfUser(operation.PersonCreate, made))
	}
	has, err := tx.Password(ctx, there[0].ID)
	if err != nil {
		return want, err
	}
	if len(there) > 1 || there[0].Username != want.Username || has != "" {
		return want, fault.NewPrecondition("The account has users: they make others. Where none can log in any more, `steward user link` on the server's machine helps.")
	}
	return there[0], nil
}

// EffectiveQuotas are those that hold for an account that has these; nil for no bound.
func (s *Operators) EffectiveQuotas(own account.Quotas) account.Quotas {
	held := own.Or(s.Quotas)
	bound := func(n *int) *int {
		if n == nil || *n == account.Unlimited {
			return nil
		}
		return n
	}
	return account.Quotas{
		Databases: bound(held.Databases), Nodes: bound(held.Nodes), MemoryGB: bound(held.MemoryGB), DiskGB: bound(held.DiskGB), Services: bound(held.Services),
	}
}

// RegionUse is a region, and what is planned there for the databases of all accounts.
type RegionUse struct {
	catalog.Region
	// Away is why it can't be reached; "" when it can.
	Away string
	Used account.Amounts
}

// Regions are those of the catalog, in its order.
func (s *Operators) Regions(ctx context.Context) ([]RegionUse, error) {
	groups, err := s.Store.RegionGroups(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]RegionUse, len(s.Catalog.Regions))
	for i, r := range s.Catalog.Regions {
		all[i] = RegionUse{Region: r, Away: s.Catalog.Abilities(r.ID).Away}
		for _, g := range groups {
			if g.Region == r.ID {
				all[i].Used = all[i].Used.Plus(g.Amounts(s.Catalog.Size))
			}
		}
	}
	return all, nil
}

// Names are what databases and their accounts are called, by the databases' ids.
func (s *Operators) Names(ctx context.Context) (map[cluster.ID]DatabaseName, error) {
	clusters, err := s.Store.ClustersForWork(ctx)
	if err != nil {
		return nil, err
	}
	accounts, err := s.Store.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	names := make(map[cluster.ID]DatabaseName, len(clusters))
	for _, c := range clusters {
		at := slices.IndexFunc(accounts, func(a account.Account) bool { return a.ID == c.Account })
		if at >= 0 {
			names[c.ID] = DatabaseName{c.Label, accounts[at].Name}
		}
	}
	return names, nil
}

// DatabaseName is what a database and its account are called.
type DatabaseName struct{ Label, Account string }

// Notices are those of all accounts, or those that couldn't be delivered, newest first.
func (s *Operators) Notices(ctx context.Context, failed bool) ([]monitor.Notice, error) {
	of := store.NoticeQuery{}
	if failed {
		of.State = monitor.NoticeFailed
	}
	return s.Store.Notices(ctx, of)
}

// RetryNotices has a notice tried again at once, or with id 0 all that failed, and tells how many; NotFound where the
// one neither waits nor failed.
func (s *Operators) RetryNotices(ctx context.Context, id monitor.NoticeID) (retried int, err error) {
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		retried, err = tx.RetryNotices(ctx, id)
		return err
	})
	if err == nil && retried == 0 && id != 0 {
		err = fault.NewNotFound()
	}
	return retried, err
}

// TestNotice sends a message by the mail server to an address, or by a channel of the configuration. A message that isn't
// taken is a fault of the field that names where it went.
func (s *Operators) TestNotice(ctx context.Context, to, channel string, faults fault.Faults) error {
	field := "to"
	switch {
	case channel != "" && to != "":
		faults.Add("channel", "Must be left out when to is given")
	case channel != "":
		field = "channel"
	case !account.IsEmail(to):
		faults.Add("to", "Must be an e-mail address, or left out when channel is given")
	}
	if err := faults.Err(); err != nil {
		return err
	}
	if channel == monitor.AccountChannel {
		return fault.Faults{fault.NewInvalid(field, "Must be a channel of the configuration")}.Err()
	}
	if err := notify.Test(ctx, s.Senders, to, channel, s.Now()); err != nil {
		return fault.Faults{fault.NewInvalid(field, "%s", notify.AsError(err).Problem)}.Err()
	}
	return nil
}

// By is the line that an operator's change leaves in the audit trail of the account that it is about.
func (s *Operators) By(p account.Principal, action, address, request string) account.Audit {
	return account.Audit{
		At: s.Now(), Username: "operator:" + p.User.Username, Address: address, Action: action, Status: 200, RequestID: request,
	}
}
