package api

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/limit"
	"steward/internal/store"
)

// authenticate puts the principal into the request's state, or answers. It runs
// before any parameter is looked at: strangers learn nothing about them.
func (a *API) authenticate(e endpoint) func(ctx huma.Context, next func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		ctx.SetHeader("X-Accepted-OAuth-Scopes", e.acceptedScopes())
		state := stateOf(ctx.Context())
		header, address := ctx.Header("Authorization"), state.address
		if header == "" && e.public {
			if err := a.admit(ctx, a.limits.anonymous.Take(ctx.Context(), limit.AddressKey(address))); err != nil {
				a.refuse(ctx, err)
				return
			}
			next(ctx)
			return
		}
		principal, err := a.principal(ctx.Context(), header, address)
		if err != nil {
			ctx.SetHeader("X-OAuth-Scopes", "unknown")
			a.refuse(ctx, err)
			return
		}
		state.principal = principal
		ctx.SetHeader("X-OAuth-Scopes", principal.Scopes.String())
		if err := a.admit(ctx, a.limits.of(e).Take(ctx.Context(), strconv.FormatInt(int64(principal.Token), 10))); err != nil {
			a.refuse(ctx, err)
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

// principal finds who sends the header. Failures are limited per address; a good
// token passes whatever else comes from there. That guesses are looked at past the
// limit gains a guesser nothing, since there are 2^256 tokens, and costs little: a
// hash and a look-up by index, a few at a time.
func (a *API) principal(ctx context.Context, header, address string) (account.Principal, error) {
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return account.Principal{}, fault.NewUnauthenticated() // which is no guess
	}
	if a.suspect(address) {
		select {
		case a.suspects <- struct{}{}:
			defer func() { <-a.suspects }()
		case <-time.After(a.StoreTime): // those before wait for the store
			return account.Principal{}, fmt.Errorf("wait for a turn: %w", store.ErrAway)
		case <-ctx.Done():
			return account.Principal{}, ctx.Err()
		}
	}
	p, err := a.Control.Auth.Authenticate(ctx, strings.TrimSpace(token))
	if fault.IsKind(err, fault.Unauthenticated) {
		err = a.mistrust(ctx, address, err)
	}
	return p, err
}

// refuse writes the envelope for err.
func (a *API) refuse(ctx huma.Context, err error) {
	e := a.toStatus(ctx.Context(), err)
	if late, ok := errors.AsType[*tooSoon](err); ok {
		e.after = late.after
	}
	for name, values := range e.GetHeaders() {
		ctx.SetHeader(name, values[0])
	}
	ctx.SetHeader("Content-Type", "application/json")
	ctx.SetStatus(e.status)
	_ = huma.DefaultJSONFormat.Marshal(ctx.BodyWriter(), e) // the client has gone: nobody to tell
}
