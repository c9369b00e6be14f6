package control

import (
	"context"
	"maps"
	"slices"
	"strings"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

// Users are the use cases of an account's users and their grants. All of them
// are for unrestricted users.
type Users struct{ Deps }

// UserChange is what a user is made of or changed to; nil fields stay.
type UserChange struct {
	Username   *string
	Email      *string
	Restricted *bool
}

// List is a page of the account's users.
func (s *Users) List(ctx context.Context, p account.Principal, q store.ListQuery) ([]account.User, int, error) {
	return unrestrictedPage(ctx, p, q, s.Store.Users)
}

// View is one user. A restricted user may look at itself.
func (s *Users) View(ctx context.Context, p account.Principal, name string) (account.User, error) {
	if name != p.User.Username {
		if err := unrestricted(p); err != nil {
			return account.User{}, err
		}
	}
	return s.find(ctx, p, name)
}

// WaysIn are how users that the caller was shown get in.
func (s *Users) WaysIn(ctx context.Context, p account.Principal, users ...account.User) (map[account.UserID]account.WaysIn, error) {
	ids := make([]account.UserID, len(users))
	for i, u := range users {
		ids[i] = u.ID
	}
	return s.Store.WaysIn(ctx, p.Account, ids...)
}

// find looks a user of the caller's account up. What can't be a name isn't
// there; it doesn't reach the store.
func (s *Users) find(ctx context.Context, p account.Principal, name string) (account.User, error) {
	if len(ValidateUsername(name)) > 0 {
		return account.User{}, fault.NewNotFound()
	}
	return s.Store.User(ctx, p.Account, name)
}

// Create adds a user to the caller's account.
func (s *Users) Create(ctx context.Context, p account.Principal, in UserChange, faults fault.Faults) (account.User, error) {
	if err := unrestricted(p); err != nil {
		return account.User{}, err
	}
	var missing fault.Faults
	if in.Username == nil {
		missing = append(missing, fault.Required("username"))
	}
	if in.Email == nil {
		missing = append(missing, fault.Required("email"))
	}
	if in.Restricted == nil {
		in.Restricted = new(true) // the safer reading of what wasn't said
	}
	u, found := in.apply(account.User{Account: p.Account})
	if err := combine(faults, append(missing, found...)).Err(); err != nil {
		return account.User{}, err
	}
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if u, err = tx.CreateUser(ctx, u); err != nil {
			return err
		}
		return Happened(ctx, tx, p.User.Username, OfUser(operation.PersonCreate, u))
	})
	return u, err
}

func (in UserChange) apply(u account.User) (account.User, fault.Faults) {
	var faults fault.Faults
	if in.Username != nil {
		faults = append(faults, ValidateUsername(*in.Username)...)
		u.Username = *in.Username
	}
	if in.Email != nil {
		faults = append(faults, ValidateEmail(*in.Email)...)
		u.Email = *in.Email
	}
	if in.Restricted != nil {
		u.Restricted = *in.Restricted
	}
	return u, faults
}

// ValidateUsername wants 3..32 of ASCII letters, digits, '-', '_' and '.',
// starting and ending with a letter or a digit.
func ValidateUsername(name string) fault.Faults {
	if len(name) < 3 || len(name) > 32 {
		return fault.Faults{fault.Length("username", 3, 32)}
	}
	letter := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }
	inner := strings.TrimFunc(name, letter)
	ends := letter(rune(name[0])) && letter(rune(name[len(name)-1]))
	if !ends || strings.ContainsFunc(inner, func(r rune) bool { return !letter(r) && !strings.ContainsRune("-_.", r) }) {
		return fault.Faults{fault.NewInvalid("username", "May only contain letters, digits, -, _ and ., and must start and end with a letter or a digit")}
	}
	return nil
}

// ValidateEmail checks that it is one plain address.
func ValidateEmail(email string) fault.Faults {
	if len(email) > 128 || !account.IsEmail(email) {
		return fault.Faults{fault.NewInvalid("email", "Must be an e-mail address of at most 128 characters")}
	}
	return nil
}

// Update changes a user. The last unrestricted user can't be restricted, and
// nobody can lift restrictions but those who have none.
func (s *Users) Update(ctx context.Context, p account.Principal, name string, in UserChange, faults fault.Faults) (account.User, error) {
	if err := unrestricted(p); err != nil {
		return account.User{}, err
	}
	defer s.principals.forget()
	var u account.User
	err := s.Store.InTx(ctx, func(tx *store.Tx) error {
		all, err := tx.LockUsers(ctx, p.Account)
		if err != nil {
			return err
		}
		before, err := named(all, name)
		if err != nil {
			return err
		}
		var found fault.Faults
		u, found = in.apply(before)
		if u.Restricted && !before.Restricted && (lastUnrestricted(all, before.ID) || before.ID == p.User.ID) {
			found.Add("restricted", "You can't restrict yourself, nor the account's last unrestricted user")
		}
		if err := combine(faults, found).Err(); err != nil {
			return err
		}
		if err := tx.UpdateUser(ctx, u); err != nil {
			return err
		}
		return Happened(ctx, tx, p.User.Username, OfUser(operation.PersonUpdate, u))
	})
	return u, err
}

// UpdateOwn changes the caller's own e-mail address, restricted or not.
func (s *Users) UpdateOwn(ctx context.Context, p account.Principal, email *string, faults fault.Faults) (account.User, error) {
	defer s.principals.forget()
	var u account.User
	err := s.Store.InTx(ctx, func(tx *store.Tx) error {
		all, err := tx.LockUsers(ctx, p.Account)
		if err != nil {
			return err
		}
		before, err := named(all, p.User.Username)
		if err != nil {
			return err
		}
		var found fault.Faults
		u, found = UserChange{Email: email}.apply(before)
		if err := combine(faults, found).Err(); err != nil {
			return err
		}
		if err := tx.UpdateUser(ctx, u); err != nil {
			return err
		}
		return Happened(ctx, tx, u.Username, OfUser(operation.ProfileUpdate, u))
	})
	return u, err
}

// Delete removes a user with its tokens; never the caller, never the last
// unrestricted one.
func (s *Users) Delete(ctx context.Context, p account.Principal, name string) error {
	if err := unrestricted(p); err != nil {
		return err
	}
	defer s.principals.forget()
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		all, err := tx.LockUsers(ctx, p.Account)
		if err != nil {
			return err
		}
		u, err := named(all, name)
		if err != nil {
			return err
		}
		if u.ID == p.User.ID || lastUnrestricted(all, u.ID) {
			return fault.NewPrecondition("You can't delete yourself, nor the account's last unrestricted user.")
		}
		if err := tx.DeleteUser(ctx, p.Account, u.ID); err != nil {
			return err
		}
		return Happened(ctx, tx, p.User.Username, OfUser(operation.PersonDelete, u))
	})
}

func named(users []account.User, name string) (account.User, error) {
	for _, u := range users {
		if u.Username == name {
			return u, nil
		}
	}
	return account.User{}, fault.NewNotFound()
}

func lastUnrestricted(users []account.User, id account.UserID) bool {
	for _, u := range users {
		if !u.Restricted && u.ID != id {
			return false
		}
	}
	return true
}

// Grants are what a restricted user may do. Restricted is false for users that
// grants don't bind: they have none.
type Grants struct {
	Restricted   bool
	AddDatabases bool
	account.Globals
	Databases []account.Grant
}

// OwnGrants are the caller's. Databases that it has no grant on are none of its
// business, not even their names.
func (s *Users) OwnGrants(ctx context.Context, p account.Principal) (Grants, error) {
	g, err := s.grants(ctx, p.User)
	g.Databases = slices.DeleteFunc(g.Databases, func(d account.Grant) bool { return d.Permission == account.NoPermission })
	return g, err
}

// Grants are those of a user of the account.
func (s *Users) Grants(ctx context.Context, p account.Principal, name string) (Grants, error) {
	if err := unrestricted(p); err != nil {
		return Grants{}, err
	}
	u, err := s.find(ctx, p, name)
	if err != nil {
		return Grants{}, err
	}
	return s.grants(ctx, u)
}

func (s *Users) grants(ctx context.Context, u account.User) (Grants, error) {
	if !u.Restricted {
		return Grants{}, nil
	}
	globals, err := s.Store.Globals(ctx, u.ID)
	if err != nil {
		return Grants{}, err
	}
	databases, err := s.Store.Grants(ctx, u)
	return Grants{Restricted: true, AddDatabases: u.AddDatabases, Globals: globals, Databases: databases}, err
}

// GrantsChange is what a PUT of grants asks for; what isn't named stays.
type GrantsChange struct {
	AddDatabases *bool
	// AccountAccess takes it away when it is NoPermission.
	AccountAccess *account.Permission
	Flags         FlagsChange
	// Databases maps ids to permissions; NoPermission takes one away.
	Databases map[cluster.ID]account.Permission
}

// FlagsChange has those of account.Flags that are to be set or taken away.
type FlagsChange struct {
	AddBuckets, AddDomains, AddFirewalls, AddImages, AddKubernetes, AddLinodes, AddLongview, AddNodeBalancers,
	AddStackScripts, AddVolumes, AddVPCs, CancelAccount, ChildAccountAccess, LongviewSubscription *bool
}

func (in GrantsChange) globals(g account.Globals) account.Globals {
	f := g.Flags
	return account.Globals{AccountAccess: changed(in.AccountAccess, g.AccountAccess), Flags: account.Flags{
		AddBuckets: changed(in.Flags.AddBuckets, f.AddBuckets), AddDomains: changed(in.Flags.AddDomains, f.AddDomains),
		AddFirewalls: changed(in.Flags.AddFirewalls, f.AddFirewalls), AddImages: changed(in.Flags.AddImages, f.AddImages),
		AddKubernetes: changed(in.Flags.AddKubernetes, f.AddKubernetes), AddLinodes: changed(in.Flags.AddLinodes, f.AddLinodes),
		AddLongview: changed(in.Flags.AddLongview, f.AddLongview), AddNodeBalancers: changed(in.Flags.AddNodeBalancers, f.AddNodeBalancers),
		AddStackScripts: changed(in.Flags.AddStackScripts, f.AddStackScripts), AddVolumes: changed(in.Flags.AddVolumes, f.AddVolumes),
		AddVPCs: changed(in.Flags.AddVPCs, f.AddVPCs), CancelAccount: changed(in.Flags.CancelAccount, f.CancelAccount),
		ChildAccountAccess:   changed(in.Flags.ChildAccountAccess, f.ChildAccountAccess),
		LongviewSubscription: changed(in.Flags.LongviewSubscription, f.LongviewSubscription),
	}}
}

// SetGrants changes the grants of a restricted user.
func (s *Users) SetGrants(ctx context.Context, p account.Principal, name string, in GrantsChange, faults fault.Faults) (Grants, error) {
	if err := unrestricted(p); err != nil {
		return Grants{}, err
	}
	defer s.principals.forget()
	var u account.User
	err := s.Store.InTx(ctx, func(tx *store.Tx) error {
		var err error
		if u, err = lockRestricted(ctx, tx, p, name, faults); err != nil {
			return err
		}
		if u, err = in.apply(ctx, tx, u); err != nil {
			return err
		}
		found, err := setGrants(ctx, tx, u, in.Databases)
		if err != nil {
			return err
		}
		if err := combine(faults, found).Err(); err != nil {
			return err
		}
		return Happened(ctx, tx, p.User.Username, OfUser(operation.PersonUpdate, u))
	})
	if err != nil {
		return Grants{}, err
	}
	return s.grants(ctx, u)
}

// lockRestricted is the restricted user of the name. Nobody may lift its restrictions, or
// remove it, before tx ends.
func lockRestricted(ctx context.Context, tx *store.Tx, p account.Principal, name string, faults fault.Faults) (account.User, error) {
	all, err := tx.LockUsers(ctx, p.Account)
	if err != nil {
		return account.User{}, err
	}
	u, err := named(all, name)
	if err == nil && !u.Restricted {
		err = append(slices.Clone(faults), fault.NewPrecondition("The user is not restricted and needs no grants; restrict it first."))
	}
	return u, err
}

// apply changes what isn't about single databases.
func (in GrantsChange) apply(ctx context.Context, tx *store.Tx, u account.User) (account.User, error) {
	if in.AddDatabases != nil {
		u.AddDatabases = *in.AddDatabases
		if err := tx.UpdateUser(ctx, u); err != nil {
			return u, err
		}
	}
	globals, err := tx.Globals(ctx, u.ID)
	if err != nil {
		return u, err
	}
	if after := in.globals(globals); after != globals {
		return u, tx.SetGlobals(ctx, u.ID, after)
	}
	return u, nil
}

func setGrants(ctx context.Context, tx *store.Tx, u account.User, databases map[cluster.ID]account.Permission) (fault.Faults, error) {
	var found fault.Faults
	for _, id := range slices.Sorted(maps.Keys(databases)) {
		permission := databases[id]
		if !permission.Valid() {
			found = append(found, fault.OneOf("database.permissions", account.ReadOnly, account.ReadWrite))
			continue
		}
		err := tx.SetGrant(ctx, u, id, permission)
		if fault.IsKind(err, fault.NotFound) {
			found.Add("database.id", "%d is not valid", id)
		} else if err != nil {
			return nil, err
		}
	}
	return found, nil
}
