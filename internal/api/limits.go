package api

import (
	"context"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/fault"
	"steward/internal/limit"
)

// limits are what one minute allows: each token its requests and, apart, its
// requests for statistics; each address its requests without a token and its
// failed attempts to prove who it is.
type limits struct{ tokens, stats, anonymous, failures *limit.Limiter }

func newLimits(o Options) limits {
	shared := o.Control.SharedRates
	one := func(kind string, most int, exact bool) *limit.Limiter {
		return limit.New(limit.Options{Kind: kind, Limit: most, Exact: exact, Shared: shared, Now: o.Now})
	}
	return limits{
		tokens: one("token", o.RequestsPerMinute, false), stats: one("stats", o.StatsPerMinute, false),
		anonymous: one("address", o.RequestsPerMinute, false), failures: one("failure", o.FailedLoginsPerMinute, true),
	}
}

// of is the limiter that an operation counts against.
func (l limits) of(e endpoint) *limit.Limiter {
	if strings.HasSuffix(e.path, "/stats") {
		return l.stats
	}
	return l.tokens
}

// tooSoon is TooMany with the seconds until it isn't any more.
type tooSoon struct {
	*fault.Fault
	after int
}

func (t *tooSoon) Unwrap() error { return t.Fault }

func newTooSoon(s limit.State) error { return &tooSoon{fault.NewTooMany(), s.After} }

// admit says in headers how the caller stands, and refuses one over its limit.
func (a *API) admit(ctx huma.Context, s limit.State) error {
	if s.Limit > 0 {
		ctx.SetHeader("X-RateLimit-Limit", strconv.Itoa(s.Limit))
		ctx.SetHeader("X-RateLimit-Remaining", strconv.Itoa(s.Left))
		ctx.SetHeader("X-RateLimit-Reset", strconv.FormatInt(s.Reset.Unix(), 10))
	}
	if !s.OK {
		return newTooSoon(s)
	}
	return nil
}

// suspect reports whether too much that failed has come from an address.
func (a *API) suspect(address string) bool {
	return !a.limits.failures.Peek(limit.AddressKey(address)).OK
}

// mistrust counts a failed attempt of an address to prove who it is. It returns the
// failure, or past the limit that there were too many.
func (a *API) mistrust(ctx context.Context, address string, failure error) error {
	if s := a.limits.failures.Take(ctx, limit.AddressKey(address)); !s.OK {
		return newTooSoon(s)
	}
	return failure
}
