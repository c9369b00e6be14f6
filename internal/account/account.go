// Package account holds who may do what: accounts (tenants), users, grants,
// tokens, scopes, and the principal that stands behind a request.
package account

import (
	"net/mail"
	"strings"
	"time"
	"unicode"
)

// ID identifies an account. Every row a customer can see belongs to one.
type ID int64

// UserID identifies a user.
type UserID int64

// TokenID identifies a personal access token.
type TokenID int64

// Status is whether an account is served.
type Status string

// The statuses of accounts.
const (
	// Active accounts are served.
	Active Status = "active"
	// Suspended accounts keep what they have. Their requests are refused, their
	// databases rest and their services aren't checked.
	Suspended Status = "suspended"
	// Deleting accounts are gone for customers; what they had is being removed.
	Deleting Status = "deleting"
)

// First is the name of the account that the first start makes. It has the server's
// own machine and can't be deleted.
const First = "default"

// Account is a tenant.
type Account struct {
	ID   ID
	Name string
	// Email is whom the operator writes to; it may be empty.
	Email   string
	Status  Status
	Quotas  Quotas
	Created time.Time
}

// User is a person or program of an account. A restricted user sees and does
// only what its grants allow.
type User struct {
	ID         UserID
	Account    ID
	Username   string
	Email      string
	Restricted bool
	// AddDatabases lets a restricted user create databases.
	AddDatabases bool
	Created      time.Time
}

// WaysIn is how a user gets in by the page of an application: when its password
// was set, nil without one, and when it last tried and what came of it, as in
// Login.Status; nil and "" when it never did.
type WaysIn struct {
	PasswordSet, LastLogin *time.Time
	LastStatus             string
	// TwoFactor reports whether a code is asked for, too.
	TwoFactor bool
}

// Permission is what a restricted user may do with one database.
type Permission string

// The permissions of a grant; ReadWrite includes ReadOnly.
const (
	NoPermission Permission = ""
	ReadOnly     Permission = "read_only"
	ReadWrite    Permission = "read_write"
)

// Valid reports whether there is such a permission, or none.
func (p Permission) Valid() bool { return p == NoPermission || p == ReadOnly || p == ReadWrite }

// Grant gives a restricted user a permission on one database.
type Grant struct {
	Cluster    int64
	Label      string
	Permission Permission
}

// Token is a personal access token. Only the SHA-256 of its 64 hex characters
// is kept; Prefix is its first 16, shown so that people can tell tokens apart.
type Token struct {
	ID      TokenID
	User    UserID
	Label   string
	Prefix  string
	Scopes  Scopes
	Created time.Time
	Expiry  *time.Time
}

// Principal is the caller of one request.
type Principal struct {
	Account ID
	// Status is the account's.
	Status Status
	User   User
	Token  TokenID
	// Client is the application that the token is lent to; empty for a personal one.
	Client ClientID
	Scopes Scopes
	// TokenExpiry is nil for a token that never expires.
	TokenExpiry *time.Time
}

// LentUntil is when whatever the caller makes ends at the latest; nil for no bound. A token
// that was lent can't make itself last. The console's are no loan: they stay with the
// server, which asks for the user's password before it has anything made with them.
func (p Principal) LentUntil() *time.Time {
	if p.Client == ConsoleClient {
		return nil
	}
	return p.TokenExpiry
}

// IsEmail reports whether a text is one plain address: no name, no comment, no
// second one.
func IsEmail(text string) bool {
	parsed, err := mail.ParseAddress(text)
	return err == nil && parsed.Address == text && !strings.ContainsFunc(text, unicode.IsControl)
}

// Globals are what else clients can grant a restricted user: things that there are
// none of here. They are kept and shown; nothing asks for them. AddDatabases, which
// something asks for, is the user's own.
type Globals struct {
	// AccountAccess is the right to the account's own affairs, elsewhere. Here
	// they are for unrestricted users only.
	AccountAccess Permission `json:"account_access,omitempty"`
	Flags         Flags      `json:"flags"`
}

// Flags are the globals that are had or not.
type Flags struct {
	AddBuckets           bool `json:"add_buckets,omitempty"`
	AddDomains           bool `json:"add_domains,omitempty"`
	AddFirewalls         bool `json:"add_firewalls,omitempty"`
	AddImages            bool `json:"add_images,omitempty"`
	AddKubernetes        bool `json:"add_kubernetes,omitempty"`
	AddLinodes           bool `json:"add_linodes,omitempty"`
	AddLongview          bool `json:"add_longview,omitempty"`
	AddNodeBalancers     bool `json:"add_nodebalancers,omitempty"`
	AddStackScripts      bool `json:"add_stackscripts,omitempty"`
	AddVolumes           bool `json:"add_volumes,omitempty"`
	AddVPCs              bool `json:"add_vpcs,omitempty"`
	CancelAccount        bool `json:"cancel_account,omitempty"`
	ChildAccountAccess   bool `json:"child_account_access,omitempty"`
	LongviewSubscription bool `json:"longview_subscription,omitempty"`
}

// Login is an attempt to log in to one of an account's applications.
type Login struct {
	ID int64
	At time.Time
	// Username is as it was then.
	Username string
	Address  string
	// Status is successful or failed.
	Status string
	// Restricted reports whether the user is today.
	Restricted bool
}
