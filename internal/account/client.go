package account

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
)

// ClientID identifies an OAuth client: an application that acts for users. It
// is no secret.
type ClientID string

// ConsoleClient is steward's own console, which users of all accounts log in to.
const ConsoleClient ClientID = "636f6e736f6c65000000"

// Client is a registered application.
type Client struct {
	ID ClientID
	// Account is 0 for the console's.
	Account ID
	// Owner registered it, and is whom its client credentials stand for, within
	// OwnScopes and until OwnExpiry (nil: for ever): those of the token that it
	// was registered with.
	Owner       UserID
	Label       string
	RedirectURI string
	// Public clients can't keep a secret: they have none, and must use PKCE.
	Public    bool
	OwnScopes Scopes
	OwnExpiry *time.Time
	Created   time.Time
}

// Authorization is what a user allowed a client. Codes, refresh and access
// tokens that come of it are one family, named by Request.
type Authorization struct {
	Request string
	Client  ClientID
	User    UserID
	Scopes  Scopes
	Created time.Time
	Origin
}

// Origin is where from a user allowed an application: the browser by its usual name, and its
// address; empty where no browser did, or it isn't known.
type Origin struct{ Browser, Address string }

// App is an authorization as its user sees it.
type App struct {
	ID      int64
	Label   string
	Website string
	Scopes  Scopes
	Created time.Time
	// Expiry is when the last of its tokens ends.
	Expiry time.Time
	Origin
	// LastUsed is known of sessions of the console.
	LastUsed *time.Time
	// Current reports whether the caller's own token is one of its.
	Current bool
}

// Introspection is what operators see of a live token.
type Introspection struct {
	User     UserID
	Username string
	// Client is empty for a personal token.
	Client  ClientID
	Scopes  Scopes
	Created time.Time
	// Expiry is nil for a token that never expires.
	Expiry *time.Time
	// Refresh tells a refresh token from an access token.
	Refresh bool
}

// loopbacks are hosts that http, without TLS, is safe to (RFC 8252 §7.3, §8.3).
var loopbacks = []string{"localhost", "127.0.0.1", "::1"}

// ValidateRedirectURI wants an absolute URI that codes can be sent to safely:
// https, http to this same machine, or a private scheme of a native application,
// which has a dot in it (RFC 8252 §7.1).
func ValidateRedirectURI(text string) fault.Faults {
	if len(text) < 1 || len(text) > 512 {
		return fault.Faults{fault.Length("redirect_uri", 1, 512)}
	}
	u, err := url.Parse(text)
	if err != nil || !u.IsAbs() || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fault.Faults{fault.NewInvalid("redirect_uri", "Must be an absolute URI")}
	}
	if strings.Contains(text, "#") || u.User != nil {
		return fault.Faults{fault.NewInvalid("redirect_uri", "Must have no fragment and no user name")}
	}
	safe := u.Scheme == "https" && u.Host != "" || u.Scheme == "http" && slices.Contains(loopbacks, u.Hostname()) || strings.Contains(u.Scheme, ".")
	if !safe {
		return fault.Faults{fault.NewInvalid("redirect_uri", "Must be https, http to localhost, or an application's own scheme such as org.example.app")}
	}
	return nil
}
