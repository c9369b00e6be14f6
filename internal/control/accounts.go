package control

import (
	"context"
	"errors"
	"strings"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/store"
)

// Accounts are the operator's use cases of accounts. Each leaves a line in the audit
// trail: by is that line without the account.
type Accounts struct{ Deps }

// AccountChange is what an account is made of or changed to; nil fields stay.
type AccountChange struct {
	Email *string
	// Quotas that are nil stay; those in Reset become the operator's default.
	Quotas account.Quotas
	Reset  ResetQuotas
}

// ResetQuotas are those that are left to the operator's default again.
type ResetQuotas struct{ Databases, Nodes, MemoryGB, DiskGB, Services bool }

func (in AccountChange) apply(a account.Account) (account.Account, fault.Faults) {
	var faults fault.Faults
	if in.Email != nil {
		if *in.Email != "" {
			faults = ValidateEmail(*in.Email)
		}
		a.Email = *in.Email
	}
	for _, q := range []struct {
		name  string
		of    **int
		asked *int
		reset bool
	}{
		{"max_databases", &a.Quotas.Databases, in.Quotas.Databases, in.Reset.Databases},
		{"max_nodes", &a.Quotas.Nodes, in.Quotas.Nodes, in.Reset.Nodes},
		{"max_memory_gb", &a.Quotas.MemoryGB, in.Quotas.MemoryGB, in.Reset.MemoryGB},
		{"max_disk_gb", &a.Quotas.DiskGB, in.Quotas.DiskGB, in.Reset.DiskGB},
		{"max_services", &a.Quotas.Services, in.Quotas.Services, in.Reset.Services},
	} {
		switch {
		case q.reset:
			*q.of = nil
		case q.asked != nil:
			if *q.asked != account.Unlimited && (*q.asked < 0 || *q.asked > account.MostQuota) {
				faults = append(faults, fault.Range(q.name, 0, account.MostQuota))
			}
			*q.of = q.asked
		}
	}
	return a, faults
}

// ValidateAccountName wants 2..64 of ASCII letters, digits, '-', '_' and '.', starting
// and ending with a letter or a digit.
func ValidateAccountName(name string) fault.Faults {
	if len(name) < 2 || len(name) > 64 {
		return fault.Faults{fault.Length("name", 2, 64)}
	}
	letter := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }
	ends := letter(rune(name[0])) && letter(rune(name[len(name)-1]))
	if !ends || strings.ContainsFunc(name, func(r rune) bool { return !letter(r) && !strings.ContainsRune("-_.", r) }) {
		return fault.Faults{fault.NewInvalid("name", "May only contain letters, digits, -, _ and ., and must start and end with a letter or a digit")}
	}
	return nil
}

// Create adds an account, without users.
func (s *Accounts) Create(ctx context.Context, name string, in AccountChange, door fault.Faults, by account.Audit) (account.Account, error) {
	a, faults := in.apply(account.Account{Name: name})
	if err := combine(door, append(ValidateAccountName(name), faults...)).Err(); err != nil {
		return a, err
	}
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if a, err = tx.CreateAccount(ctx, a); err != nil {
			return err
		}
		return record(ctx, tx, by, a)
	})
	return a, err
}

func record(ctx context.Context, tx *store.Tx, by account.Audit, a account.Account) error {
	by.Account, by.Path = a.ID, a.Name
	return tx.AddAudit(ctx, by)
}

// AccountShown is an account with what it has.
type AccountShown struct {
	account.Account
	Used  account.Amounts
	Users int
	// Leftovers are databases that are being removed, or of which backups are kept.
	Leftovers int
}

// List is all accounts, oldest first.
func (s *Accounts) List(ctx context.Context) ([]AccountShown, error) {
	accounts, err := s.Store.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]AccountShown, len(accounts))
	for i, a := range accounts {
		if all[i], err = s.show(ctx, a); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// View is one account.
func (s *Accounts) View(ctx context.Context, name string) (AccountShown, error) {
	a, err := s.Store.AccountByName(ctx, name)
	if err != nil {
		return AccountShown{}, err
	}
	return s.show(ctx, a)
}

func (s *Accounts) show(ctx context.Context, a account.Account) (shown AccountShown, err error) {
	shown.Account = a
	if shown.Used, err = s.Store.Used(ctx, a.ID, s.Catalog.Size); err != nil {
		return shown, err
	}
	if _, shown.Users, err = s.Store.CountServicesAndUsers(ctx, a.ID); err != nil {
		return shown, err
	}
	all, err := s.Store.AccountClusters(ctx, a.ID)
	shown.Leftovers = len(all) - shown.Used.Databases
	return shown, err
}

// Update changes e-mail address and quotas. A quota below what is used takes nothing
// away: nothing more is given.
func (s *Accounts) Update(ctx context.Context, name string, in AccountChange, door fault.Faults, by account.Audit) (account.Account, error) {
	return s.change(ctx, name, by, func(a account.Account) (account.Account, error) {
		after, faults := in.apply(a)
		return after, combine(door, faults).Err()
	})
}

// Suspend has an account no longer served: from the next second on its requests are
// refused and its services aren't checked. Upkeep stops its databases.
func (s *Accounts) Suspend(ctx context.Context, name string, by account.Audit) (account.Account, error) {
	return s.become(ctx, name, account.Suspended, by)
}

// Resume has a suspended account served again. Upkeep starts those of its databases
// that were stopped with it.
func (s *Accounts) Resume(ctx context.Context, name string, by account.Audit) (account.Account, error) {
	return s.become(ctx, name, account.Active, by)
}

// Delete ends an account: from the next second on its tokens are none. Upkeep deletes
// its databases and then all else. There is no way back.
func (s *Accounts) Delete(ctx context.Context, name string, by account.Audit) (account.Account, error) {
	if name == account.First {
		return account.Account{}, fault.NewPrecondition("The account %s can't be deleted: this machine belongs to it, and the server makes it at each start. It can be suspended.", name)
	}
	return s.become(ctx, name, account.Deleting, by)
}

// become gives an account a status, unless it has it.
func (s *Accounts) become(ctx context.Context, name string, status account.Status, by account.Audit) (account.Account, error) {
	return s.change(ctx, name, by, func(a account.Account) (account.Account, error) {
		if a.Status == status {
			return a, errUnchanged
		}
		a.Status = status
		return a, nil
	})
}

// change runs what changes an account. One that is being deleted stays so.
func (s *Accounts) change(ctx context.Context, name string, by account.Audit, do func(account.Account) (account.Account, error)) (after account.Account, err error) {
	defer s.principals.forget()
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		found, err := tx.AccountByName(ctx, name)
		if err != nil {
			return err
		}
		before, err := tx.HoldAccount(ctx, found.ID)
		if err != nil {
			return err
		}
		if after, err = do(before); err != nil {
			return err
		}
		if before.Status == account.Deleting {
			return fault.NewPrecondition("The account %s is being deleted.", name)
		}
		if err := tx.UpdateAccount(ctx, after); err != nil {
			return err
		}
		if err := Happened(ctx, tx, "", ofAccount(after)); err != nil {
			return err
		}
		return record(ctx, tx, by, after)
	})
	if errors.Is(err, errUnchanged) {
		return after, nil
	}
	return after, err
}

// Unsettled is how many databases of an account upkeep has yet to bring in line with
// its status.
func (s *Accounts) Unsettled(ctx context.Context, of account.ID) (int, error) {
	return s.Store.AccountUnsettled(ctx, of)
}
