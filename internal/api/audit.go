package api

import (
	"net/http"
	"time"

	"steward/internal/account"
)

// record adds to the audit trail what changes state or was refused for who asked.
// Requests beyond a limit are left out: they did nothing, and there may be any
// number of them.
func (a *API) record(r *http.Request, begun time.Time, route string, status int) {
	changes := route != "" && r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
	refused := status == http.StatusUnauthorized || status == http.StatusForbidden
	if a.Audit == nil || status == http.StatusTooManyRequests || !changes && !refused {
		return
	}
	state := stateOf(r.Context())
	p := state.principal
	a.Audit(account.Audit{
		At: begun, Account: p.Account, User: p.User.ID, Username: p.User.Username, Token: p.Token, Client: p.Client,
		Address: state.address, Action: route, Path: r.URL.Path, Status: status, RequestID: state.id,
	})
}
