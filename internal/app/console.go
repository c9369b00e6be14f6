package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/console"
	"steward/internal/control"
	"steward/internal/failpoint"
	"steward/internal/fault"
	"steward/internal/statuspage"
	"steward/internal/store"
)

// consoleOrigin is where browsers reach the console, "" when there is none: without a
// configured address only this machine's loopback is safe without TLS.
func (a *App) consoleOrigin() string {
	if !a.o.Console.Enabled {
		return ""
	}
	if a.o.Console.URL != "" {
		return strings.TrimRight(a.o.Console.URL, "/")
	}
	host, port, err := net.SplitHostPort(a.listener.Addr().String())
	if err != nil {
		return ""
	}
	ip := net.ParseIP(host)
	if ip.IsUnspecified() {
		ip = net.IPv4(127, 0, 0, 1)
	}
	if !ip.IsLoopback() {
		return ""
	}
	return "http://" + net.JoinHostPort(ip.String(), port)
}

func (a *App) consoleRedirect() string {
	if origin := a.consoleOrigin(); origin != "" {
		return console.Redirect(origin)
	}
	return ""
}

// firstLink is where in the console users set their first password; nil where there is no console.
func (a *App) firstLink() func(secret string) string {
	origin := a.consoleOrigin()
	if origin == "" {
		return nil
	}
	return func(secret string) string { return control.LinkTo(origin, secret) }
}

func (a *App) openConsole() (err error) {
	origin := a.consoleOrigin()
	if origin == "" {
		return nil
	}
	a.console, err = console.New(console.Options{
		API: a.api, Origin: origin, ClientID: string(account.ConsoleClient), Logger: a.log, Now: failpoint.Now,
		Sessions: consoleSessions{a.store, a.control}, Users: consoleUsers{a.control},
	})
	return err
}

// front is the API, with status pages before it, and the console where there is one.
func (a *App) front() http.Handler {
	status := statuspage.New(statuspage.Options{
		Find: a.control.StatusPages.Public, Address: a.api.ClientAddress, Shared: a.control.SharedRates, Logger: a.log, Now: failpoint.Now,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case statuspage.Owns(r):
			status.ServeHTTP(w, r)
		case a.console != nil && console.Owns(r):
			a.console.ServeHTTP(w, r.WithContext(store.Within(r.Context(), a.api.StoreTime)))
		default:
			a.api.ServeHTTP(w, r)
		}
	})
}

func (a *App) tellConsole(w io.Writer) {
	switch {
	case a.console != nil:
		fmt.Fprintf(w, "  console   %s/console/\n", a.consoleOrigin())
	case a.o.Console.Enabled:
		fmt.Fprintln(w, "  console   none: set console.url to the address that browsers reach it by, with TLS")
	}
}

// tellFirstLink prints the link with which the first user sets a password, while there is
// none; with --demo alone, since what a service prints may be kept.
func (a *App) tellFirstLink(ctx context.Context, w io.Writer) error {
	if a.console == nil {
		return nil
	}
	p, err := a.adminPrincipal(ctx)
	if err != nil {
		return err
	}
	if has, err := a.control.Logins.HasPassword(ctx, p.User); err != nil || has {
		return err
	}
	if !a.o.Demo {
		fmt.Fprintf(w, "The first user has no password yet. For a link to set one: steward user link %s --data %s --url %s\n", p.User.Username, a.dir.Data, a.consoleOrigin())
		return nil
	}
	secret, err := a.control.Logins.MakeLink(ctx, p.User)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "Set the first user's password, once, within a day: %s\n", control.LinkTo(a.consoleOrigin(), secret))
	return nil
}

func (a *App) sweepConsole(ctx context.Context) error {
	now := time.Now()
	return a.store.PurgeConsole(ctx, now.Add(-console.Idle), now.Add(-console.Lifetime))
}

// consoleSessions keeps the console's sessions in the store.
type consoleSessions struct {
	store   *store.Store
	control *control.Control
}

// Open implements console.Sessions.
func (s consoleSessions) Open(ctx context.Context, n console.Session, access string) error {
	p, err := s.control.Auth.Authenticate(ctx, access)
	if err != nil {
		return fmt.Errorf("find whose session it is: %w", ofStore(err))
	}
	return ofStore(s.store.CreateConsoleSession(ctx, store.ConsoleSession{Hash: n.Hash, Sealed: n.Sealed}, p.Token))
}

// Find implements console.Sessions.
func (s consoleSessions) Find(ctx context.Context, hash [32]byte, idle, oldest time.Time) (console.Session, error) {
	found, err := s.store.ConsoleSession(ctx, hash, idle, oldest)
	return console.Session{Hash: hash, Sealed: found.Sealed, Version: found.Version, Used: found.Used, Confirmed: found.Confirmed}, ofStore(err)
}

// Use implements console.Sessions.
func (s consoleSessions) Use(ctx context.Context, hash [32]byte) error {
	return ofStore(s.store.UseConsoleSession(ctx, hash))
}

// Confirm implements console.Sessions.
func (s consoleSessions) Confirm(ctx context.Context, hash [32]byte) error {
	return ofStore(s.store.ConfirmConsoleSession(ctx, hash))
}

// Claim implements console.Sessions.
func (s consoleSessions) Claim(ctx context.Context, hash [32]byte, version int64, stale time.Time) (bool, error) {
	mine, err := s.store.ClaimConsoleSession(ctx, hash, version, stale)
	return mine, ofStore(err)
}

// Release implements console.Sessions.
func (s consoleSessions) Release(ctx context.Context, hash [32]byte, version int64) error {
	return ofStore(s.store.ReleaseConsoleSession(ctx, hash, version))
}

// Renew implements console.Sessions.
func (s consoleSessions) Renew(ctx context.Context, hash [32]byte, version int64, sealed []byte) error {
	return ofStore(s.store.RenewConsoleSession(ctx, hash, version, sealed))
}

// End implements console.Sessions.
func (s consoleSessions) End(ctx context.Context, hash [32]byte) error {
	return ofStore(s.store.EndConsoleSession(ctx, hash))
}

// ofStore says in the console's way that a session isn't there, or that the store is away.
func ofStore(err error) error {
	switch {
	case fault.IsKind(err, fault.NotFound):
		return console.ErrNoSession
	case errors.Is(err, store.ErrInDoubt):
		return fmt.Errorf("%w: %w", console.ErrInDoubt, err)
	case errors.Is(err, store.ErrAway):
		return fmt.Errorf("%w: %w", console.ErrAway, err)
	}
	return err
}

// consoleUsers checks and sets passwords.
type consoleUsers struct{ control *control.Control }

// Confirm implements console.Users.
func (u consoleUsers) Confirm(ctx context.Context, access, password, address string) error {
	p, err := u.control.Auth.Authenticate(ctx, access)
	if err != nil {
		return refusal(err, "")
	}
	_, err = u.control.Logins.Login(ctx, control.Attempt{Account: p.Account, Username: p.User.Username, Password: password, Address: address})
	if fault.IsKind(err, fault.Unauthenticated) {
		return &console.Refusal{Status: http.StatusForbidden, Field: "password", Reason: "The password is wrong."}
	}
	return refusal(err, "")
}

// SetFirst implements console.Users.
func (u consoleUsers) SetFirst(ctx context.Context, secret, password, address string) error {
	_, err := u.control.Logins.UseLink(ctx, secret, password, address)
	return refusal(err, "The link was used already, or is older than a day. Ask for another: steward user link NAME.")
}

// refusal is what of an error the browser is told; gone says what isn't there.
func refusal(err error, gone string) error {
	switch {
	case err == nil:
		return nil
	case fault.IsKind(err, fault.NotFound):
		return &console.Refusal{Status: http.StatusNotFound, Reason: gone}
	case fault.IsKind(err, fault.TooMany):
		return &console.Refusal{Status: http.StatusTooManyRequests, Reason: "Too many attempts. Wait a minute."}
	case fault.IsKind(err, fault.Unauthenticated):
		return console.ErrNoSession
	}
	if faults, ok := errors.AsType[fault.Faults](err); ok && len(faults) > 0 {
		return &console.Refusal{Status: http.StatusBadRequest, Field: faults[0].Field, Reason: faults[0].Reason}
	}
	return ofStore(err)
}
