package api

import (
	"context"
	"net/http"
	"strings"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/filter"
	"steward/internal/monitor"
)

const (
	operatorPath = "/v4/operator"
	operatorTag  = "Operator"
)

var (
	readOperator  = account.Scope{Area: account.AreaOperator, Access: account.ReadOnlyAccess}
	writeOperator = account.Scope{Area: account.AreaOperator, Access: account.ReadWriteAccess}
)

// registerForOperators is register of what operators of the installation may do alone: whether the caller is one is asked
// at each request, before anything else.
func registerForOperators[I, B, O any](a *API, e endpoint, handle func(ctx context.Context, c call[I, B]) (O, error)) {
	e.path, e.tag, e.scope = operatorPath+e.path, operatorTag, writeOperator
	if e.method == http.MethodGet {
		e.scope = readOperator
	}
	register(a, e, func(ctx context.Context, c call[I, B]) (out O, err error) {
		if err := a.Control.Operators.Permit(ctx, c.Principal); err != nil {
			return out, err
		}
		return handle(ctx, c)
	})
}

// by is the line that an operator's request leaves in the audit trail of the account that it is about.
func (a *API) by(ctx context.Context, p account.Principal, action string) account.Audit {
	state := stateOf(ctx)
	return a.Control.Operators.By(p, action, state.address, state.id)
}

// tenantView is an account as operators see it.
type tenantView struct {
	Name      string          `json:"name"`
	Email     string          `json:"email"`
	Status    string          `json:"status" enum:"active,suspended,deleting"`
	Created   string          `json:"created" format:"date-time"`
	Users     int             `json:"users"`
	Leftovers int             `json:"leftovers" doc:"Databases that are being removed, or of which backups are kept."`
	Used      tenantUse       `json:"used" doc:"What it has of what quotas bound."`
	Quotas    tenantQuotas    `json:"quotas" doc:"Those of its own; null where the operator's default holds, -1 for no bound."`
	Effective effectiveQuotas `json:"effective_quotas" doc:"Those that hold; null for no bound."`
}

// tenantUse is what an account has of what quotas bound.
type tenantUse struct {
	Databases int     `json:"databases"`
	Nodes     int     `json:"nodes"`
	MemoryGB  float64 `json:"memory_gb"`
	DiskGB    float64 `json:"disk_gb"`
	Services  int     `json:"services"`
}

func showUse(used account.Amounts) tenantUse {
	const megabytes = 1024
	return tenantUse{used.Databases, used.Nodes, float64(used.MemoryMB) / megabytes, float64(used.DiskMB) / megabytes, used.Services}
}

type tenantQuotas struct {
	Databases *int `json:"max_databases"`
	Nodes     *int `json:"max_nodes"`
	MemoryGB  *int `json:"max_memory_gb"`
	DiskGB    *int `json:"max_disk_gb"`
	Services  *int `json:"max_services"`
}

type effectiveQuotas tenantQuotas

func (a *API) showTenant(t control.AccountShown) tenantView {
	return tenantView{
		Name: t.Name, Email: t.Email, Status: string(t.Status), Created: showTime(t.Created), Users: t.Users, Leftovers: t.Leftovers,
		Used: showUse(t.Used), Quotas: tenantQuotas(t.Quotas), Effective: effectiveQuotas(a.Control.Operators.EffectiveQuotas(t.Quotas)),
	}
}

var tenantFields = filter.Fields{"name": filter.Text, "email": filter.Text, "status": filter.Text, "created": filter.Time}

func tenantMember(t control.AccountShown, field string) any {
	switch field {
	case "name":
		return t.Name
	case "email":
		return t.Email
	case "created":
		return t.Created
	}
	return string(t.Status)
}

type tenantPath struct {
	Name string `path:"accountName"`
}

type tenantCreate struct {
	Name string `json:"name" minLength:"2" maxLength:"64" doc:"Letters, digits, -, _ and .; it can't be changed."`
	TenantUpdate
}

// TenantUpdate is exported, since Huma looks into exported members only. All may be left out.
type TenantUpdate struct {
	Email     *string       `json:"email,omitempty" doc:"Whom to write to about the account."`
	Databases optional[int] `json:"max_databases,omitzero" doc:"-1 for no bound, null for the operator's default; so with the others."`
	Nodes     optional[int] `json:"max_nodes,omitzero"`
	MemoryGB  optional[int] `json:"max_memory_gb,omitzero"`
	DiskGB    optional[int] `json:"max_disk_gb,omitzero"`
	Services  optional[int] `json:"max_services,omitzero"`
}

func (b TenantUpdate) change() control.AccountChange {
	return control.AccountChange{
		Email:  b.Email,
		Quotas: account.Quotas{Databases: b.Databases.value, Nodes: b.Nodes.value, MemoryGB: b.MemoryGB.value, DiskGB: b.DiskGB.value, Services: b.Services.value},
		Reset:  control.ResetQuotas{Databases: b.Databases.null(), Nodes: b.Nodes.null(), MemoryGB: b.MemoryGB.null(), DiskGB: b.DiskGB.null(), Services: b.Services.null()},
	}
}

type firstUserBody struct {
	Username string `json:"username" minLength:"3" maxLength:"32"`
	Email    string `json:"email"`
}

type firstUserView struct {
	Username string `json:"username"`
	Email    string `json:"email"`
	LoginURL string `json:"login_url" doc:"With it the user sets a password in the console, once, within a day. It is shown here alone."`
}

// registerAccounts adds the operations of operators on accounts.
func (a *API) registerAccounts() {
	accounts := a.Control.Accounts
	const all, one = "/accounts", "/accounts/{accountName}"
	view := func(ctx context.Context, name string) (tenantView, error) {
		found, err := accounts.View(ctx, name)
		if err != nil {
			return tenantView{}, err
		}
		return a.showTenant(found), nil
	}
	registerForOperators(a, endpoint{method: http.MethodGet, path: all, id: "listAccounts", summary: "List all accounts and what they have"},
		func(ctx context.Context, c call[Listing, none]) (list[tenantView], error) {
			found, err := accounts.List(ctx)
			if err != nil {
				return list[tenantView]{}, err
			}
			return listInMemory(inMemory[control.AccountShown]{found, tenantFields, tenantMember}, c.In, a.showTenant)
		})
	registerForOperators(a, endpoint{method: http.MethodPost, path: all, id: "createAccount", summary: "Make an account, without users"},
		func(ctx context.Context, c call[none, tenantCreate]) (tenantView, error) {
			made, err := accounts.Create(ctx, c.Body.Name, c.Body.change(), c.Faults, a.by(ctx, c.Principal, "POST "+operatorPath+all))
			if err != nil {
				return tenantView{}, err
			}
			return view(ctx, made.Name)
		})
	registerForOperators(a, endpoint{method: http.MethodGet, path: one, id: "viewAnyAccount", summary: "View one account, its quotas and what is used of them"},
		func(ctx context.Context, c call[tenantPath, none]) (tenantView, error) { return view(ctx, c.In.Name) })
	registerForOperators(a, endpoint{method: http.MethodPut, path: one, id: "updateAnyAccount", summary: "Change an account's e-mail address or quotas; what is left out stays"},
		func(ctx context.Context, c call[tenantPath, TenantUpdate]) (tenantView, error) {
			if _, err := accounts.Update(ctx, c.In.Name, c.Body.change(), c.Faults, a.by(ctx, c.Principal, "PUT "+operatorPath+one)); err != nil {
				return tenantView{}, err
			}
			return view(ctx, c.In.Name)
		})
	become := func(method, path, id, summary string, do func(context.Context, string, account.Audit) (account.Account, error)) {
		registerForOperators(a, endpoint{method: method, path: path, id: id, summary: summary}, func(ctx context.Context, c call[tenantPath, none]) (empty, error) {
			_, err := do(ctx, c.In.Name, a.by(ctx, c.Principal, method+" "+operatorPath+path))
			return empty{}, err
		})
	}
	become(http.MethodPost, one+"/suspend", "suspendAccount", "Refuse an account's requests, stop its databases and the checks of its services; all data stays", accounts.Suspend)
	become(http.MethodPost, one+"/resume", "resumeAccount", "Serve a suspended account again", accounts.Resume)
	become(http.MethodDelete, one, "deleteAccount", "Delete an account with all its databases, backups, services and users", accounts.Delete)
	registerForOperators(a, endpoint{method: http.MethodPost, path: one + "/first-user", id: "createFirstUser", summary: "Make the first user of an account", secret: true},
		func(ctx context.Context, c call[tenantPath, firstUserBody]) (firstUserView, error) {
			if a.FirstLink == nil {
				return firstUserView{}, noConsole()
			}
			made, secret, err := a.Control.Operators.FirstUser(ctx, c.In.Name, c.Body.Username, c.Body.Email, c.Faults, a.by(ctx, c.Principal, "POST "+operatorPath+one+"/first-user"))
			if err != nil {
				return firstUserView{}, err
			}
			return firstUserView{made.Username, made.Email, a.FirstLink(secret)}, nil
		})
}

// tellingView is a notice as operators see it.
type tellingView struct {
	ID        int64   `json:"id"`
	About     string  `json:"about" doc:"What it tells of."`
	Kind      string  `json:"kind"`
	Channel   string  `json:"channel"`
	Recipient string  `json:"recipient"`
	State     string  `json:"state" enum:"pending,sending,sent,failed"`
	Attempts  int     `json:"attempts"`
	Created   string  `json:"created" format:"date-time"`
	Due       *string `json:"due" format:"date-time" doc:"When it is tried next; null of one that isn't."`
	Sent      *string `json:"sent" format:"date-time"`
	Problem   string  `json:"problem" doc:"Why the last attempt failed."`
}

func showTelling(n monitor.Notice) tellingView {
	v := tellingView{
		ID: int64(n.ID), About: n.About(), Kind: string(n.Kind), Channel: strings.TrimPrefix(n.Channel, "@"), Recipient: n.Recipient, State: string(n.State),
		Attempts: n.Attempts, Created: showTime(n.Created), Sent: optionalTime(n.Sent), Problem: n.Problem,
	}
	if n.State == monitor.NoticePending {
		v.Due = new(showTime(n.Due))
	}
	return v
}

// tellingsQuery is a list's, and which notices are wanted.
type tellingsQuery struct {
	Listing
	Failed bool `query:"failed" doc:"Whether those alone are wanted that couldn't be delivered."`
}

var tellingFields = filter.Fields{"id": filter.Number, "kind": filter.Text, "channel": filter.Text, "recipient": filter.Text, "state": filter.Text, "created": filter.Time}

func tellingMember(n monitor.Notice, field string) any {
	switch field {
	case "id":
		return int64(n.ID)
	case "kind":
		return string(n.Kind)
	case "channel":
		return strings.TrimPrefix(n.Channel, "@")
	case "recipient":
		return n.Recipient
	case "created":
		return n.Created
	}
	return string(n.State)
}

type tellingPath struct {
	ID int64 `path:"noticeId" minimum:"1"`
}

type retriedView struct {
	Retried int `json:"retried" doc:"How many are tried again."`
}

type testBody struct {
	To      string `json:"to,omitempty" doc:"The address to send a mail to."`
	Channel string `json:"channel,omitempty" doc:"The channel of the configuration to send a message by, instead."`
}

// registerTellings adds what operators see of what people are told.
func (a *API) registerTellings() {
	operators := a.Control.Operators
	const all = "/notices"
	registerForOperators(a, endpoint{method: http.MethodGet, path: all, id: "listNotices", summary: "List what people were told, or couldn't be, of all accounts: the newest 500"},
		func(ctx context.Context, c call[tellingsQuery, none]) (list[tellingView], error) {
			found, err := operators.Notices(ctx, c.In.Failed)
			if err != nil {
				return list[tellingView]{}, err
			}
			return listInMemory(inMemory[monitor.Notice]{found, tellingFields, tellingMember}, c.In.Listing, showTelling)
		})
	retry := func(ctx context.Context, id int64) (retriedView, error) {
		n, err := operators.RetryNotices(ctx, monitor.NoticeID(id))
		return retriedView{n}, err
	}
	registerForOperators(a, endpoint{method: http.MethodPost, path: all + "/retry", id: "retryNotices", summary: "Try all notices again that couldn't be delivered"},
		func(ctx context.Context, _ call[none, none]) (retriedView, error) { return retry(ctx, 0) })
	registerForOperators(a, endpoint{method: http.MethodPost, path: all + "/{noticeId}/retry", id: "retryNotice", summary: "Try a notice again at once"},
		func(ctx context.Context, c call[tellingPath, none]) (retriedView, error) { return retry(ctx, c.In.ID) })
	registerForOperators(a, endpoint{method: http.MethodPost, path: all + "/test", id: "testNotice", summary: "Send a message by the mail server, or by a channel of the configuration"},
		func(ctx context.Context, c call[none, testBody]) (empty, error) {
			return empty{}, operators.TestNotice(ctx, c.Body.To, c.Body.Channel, c.Faults)
		})
}
