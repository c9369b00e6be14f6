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

// Account is a tenant.
type Account struct {
	ID      ID
	Name    string
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

// Permission is what a restricted user may do with one database.
type Permission string

// The permissions of a grant; ReadWrite includes ReadOnly.
const (
	NoPermission Permission = ""
	ReadOnly     Permission = "read_only"
	ReadWrite    Permission = "read_write"
)

// Valid tells whether there is such a permission, or none.
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
	User    User
	Token   TokenID
	// Client is the application that the token is lent to; empty for a personal one.
	Client ClientID
	Scopes Scopes
	// TokenExpiry is nil for a token that never expires.
	TokenExpiry *time.Time
}

// IsEmail tells whether a text is one plain address: no name, no comment, no
// second one.
func IsEmail(text string) bool {
	parsed, err := mail.ParseAddress(text)
	return err == nil && parsed.Address == text && !strings.ContainsFunc(text, unicode.IsControl)
}
