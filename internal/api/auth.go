package api

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/account"
	"steward/internal/fault"
)

// authenticate puts the principal into the request's state, or answers. It runs
// before any parameter is looked at: strangers learn nothing about them.
func (a *API) authenticate(e endpoint) func(ctx huma.Context, next func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		ctx.SetHeader("X-Accepted-OAuth-Scopes", e.acceptedScopes())
		state := stateOf(ctx.Context())
		header := ctx.Header("Authorization")
		if header == "" && e.public {
			next(ctx)
			return
		}
		principal, err := a.principal(ctx.Context(), header, addressOf(ctx.RemoteAddr()))
		if err != nil {
			ctx.SetHeader("X-OAuth-Scopes", "unknown")
			a.refuse(ctx, err)
			return
		}
		state.principal = principal
		ctx.SetHeader("X-OAuth-Scopes", principal.Scopes.String())
		if !a.admit(ctx, principal) {
			a.refuse(ctx, fault.NewTooMany())
			return
		}
		if !e.public && e.scope != (account.Scope{}) && !principal.Scopes.Allow(e.scope) {
			a.refuse(ctx, fault.NewScopeTooSmall())
			return
		}
		next(ctx)
	}
}

func (e endpoint) acceptedScopes() string {
	if e.public || e.scope == (account.Scope{}) {
		return ""
	}
	return e.scope.String()
}

// principal finds who sends the header. Failures are limited per address.
func (a *API) principal(ctx context.Context, header, address string) (account.Principal, error) {
	if a.failures.exhausted(address) {
		return account.Principal{}, fault.NewTooMany()
	}
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return account.Principal{}, fault.NewUnauthenticated()
	}
	p, err := a.Control.Auth.Authenticate(ctx, strings.TrimSpace(token))
	if fault.IsKind(err, fault.Unauthenticated) {
		a.failures.take(address)
	}
	return p, err
}

// admit counts the request against its token's limit and says so in headers.
func (a *API) admit(ctx huma.Context, p account.Principal) bool {
	if a.tokens.limit == 0 {
		return true
	}
	left, reset, ok := a.tokens.take(strconv.FormatInt(int64(p.Token), 10))
	ctx.SetHeader("X-RateLimit-Limit", strconv.Itoa(a.tokens.limit))
	ctx.SetHeader("X-RateLimit-Remaining", strconv.Itoa(left))
	ctx.SetHeader("X-RateLimit-Reset", strconv.FormatInt(reset.Unix(), 10))
	if !ok {
		ctx.SetHeader("Retry-After", strconv.Itoa(int(max(reset.Sub(a.Now()), time.Second).Seconds())))
	}
	return ok
}

// refuse writes the envelope for err.
func (a *API) refuse(ctx huma.Context, err error) {
	e := a.toStatus(ctx.Context(), err)
	if e.status == http.StatusTooManyRequests && a.failures.limit > 0 {
		ctx.SetHeader("Retry-After", "60")
	}
	ctx.SetHeader("Content-Type", "application/json")
	ctx.SetStatus(e.status)
	_ = huma.DefaultJSONFormat.Marshal(ctx.BodyWriter(), e) // the client has gone: nobody to tell
}

func addressOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}
