package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/account"
	"steward/internal/catalog"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/monitor"
	"steward/internal/store"
)

// databasesCapability is what clients call the service that there is.
const databasesCapability = "Managed Databases"

type creditCardView struct {
	LastFour *string `json:"last_four"`
	Expiry   *string `json:"expiry"`
}

// accountView is an account as existing clients read it. Nothing is billed: what
// they read of bills and addresses has its neutral value.
type accountView struct {
	Company           string         `json:"company" doc:"The account's name."`
	Email             string         `json:"email"`
	FirstName         string         `json:"first_name"`
	LastName          string         `json:"last_name"`
	Address1          string         `json:"address_1"`
	Address2          string         `json:"address_2"`
	City              string         `json:"city"`
	State             string         `json:"state"`
	Zip               string         `json:"zip"`
	Country           string         `json:"country"`
	Phone             string         `json:"phone"`
	TaxID             string         `json:"tax_id"`
	Balance           float64        `json:"balance"`
	BalanceUninvoiced float64        `json:"balance_uninvoiced"`
	CreditCard        creditCardView `json:"credit_card"`
	ActivePromotions  []empty        `json:"active_promotions" nullable:"false"`
	ActiveSince       string         `json:"active_since" format:"date-time" doc:"When the account was made."`
	BillingSource     string         `json:"billing_source"`
	Capabilities      []string       `json:"capabilities" nullable:"false"`
	EUUID             string         `json:"euuid" doc:"Names the account for ever."`
}

func showAccount(a account.Account) accountView {
	return accountView{
		Company: a.Name, Email: a.Email, ActiveSince: showTime(a.Created), ActivePromotions: []empty{}, BillingSource: "external",
		Capabilities: []string{databasesCapability}, EUUID: lastingID(a),
	}
}

// lastingID is a UUID that is the account's for ever and says nothing of others.
func lastingID(a account.Account) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d", a.ID, a.Created.UnixMicro()))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // version 8: of our own making
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// settingsView are an account's settings as existing clients read them; none can
// be changed.
type settingsView struct {
	Managed              bool    `json:"managed" doc:"Always true: the managed area is there for every account."`
	BackupsEnabled       bool    `json:"backups_enabled" doc:"Of compute instances; databases always have backups."`
	NetworkHelper        bool    `json:"network_helper"`
	LongviewSubscription *string `json:"longview_subscription"`
	ObjectStorage        string  `json:"object_storage"`
	Interfaces           string  `json:"interfaces_for_new_linodes"`
	MaintenancePolicy    *string `json:"maintenance_policy" doc:"Always null: each database has a window of its own."`
}

// offeredView is what an account can have in a region.
type offeredView struct {
	Region      string   `json:"region"`
	Available   []string `json:"available" nullable:"false"`
	Unavailable []string `json:"unavailable" nullable:"false"`
}

func showOffered(r catalog.Region) offeredView {
	return offeredView{r.ID, []string{databasesCapability}, []string{}}
}

type loginView struct {
	ID         int64  `json:"id"`
	Datetime   string `json:"datetime" format:"date-time"`
	IP         string `json:"ip"`
	Username   string `json:"username"`
	Restricted bool   `json:"restricted" doc:"Whether the user is today."`
	Status     string `json:"status" enum:"successful,failed"`
}

func showLogin(l account.Login) loginView {
	return loginView{l.ID, showTime(l.At), l.Address, l.Username, l.Restricted, l.Status}
}

// auditView is a line of the audit trail as the account's users read it. There are no bodies in it, and no secrets.
type auditView struct {
	ID        int64   `json:"id"`
	Datetime  string  `json:"datetime" format:"date-time"`
	Username  string  `json:"username" doc:"As it was then; operator for what an operator of the installation did to the account, empty where nobody was known."`
	TokenID   *int64  `json:"token_id" doc:"Of the token that was used."`
	ClientID  *string `json:"client_id" doc:"Of the application that the token was lent to."`
	IP        *string `json:"ip" doc:"Null for operators."`
	Action    string  `json:"action" doc:"The operation: its method, and its path with the names of its parameters; or an operator's command."`
	Path      string  `json:"path" doc:"The path that was asked for; whom a command was about."`
	Status    int     `json:"status" doc:"The status of the answer: 401 and 403 where it was refused."`
	RequestID *string `json:"request_id"`
}

func showAudit(a account.Audit) auditView {
	v := auditView{ID: a.ID, Datetime: showTime(a.At), Username: a.Username, Action: a.Action, Path: a.Path, Status: a.Status}
	if a.Token != 0 {
		v.TokenID = new(int64(a.Token))
	}
	v.ClientID, v.IP, v.RequestID = textOrNull(string(a.Client)), textOrNull(a.Address), textOrNull(a.RequestID)
	return v
}

type loginPath struct {
	ID int64 `path:"loginId" minimum:"1"`
}

// notificationView is something to know of today: maintenance that is planned, and
// an outage that lasts.
type notificationView struct {
	Entity   entityView `json:"entity"`
	Type     string     `json:"type" enum:"maintenance_scheduled,ticket_important"`
	Label    string     `json:"label"`
	Message  string     `json:"message"`
	Body     *string    `json:"body"`
	Severity string     `json:"severity" enum:"minor,major"`
	When     *string    `json:"when" format:"date-time" doc:"When the window opens, or the outage began."`
	Until    *string    `json:"until" format:"date-time" doc:"When the window ends."`
	when     time.Time
}

func notifyOfMaintenance(p control.Planned) notificationView {
	m := showMaintenance(p)
	return notificationView{
		Entity: m.Entity, Type: "maintenance_scheduled", Label: "Maintenance is planned", Message: m.Reason, Severity: "minor",
		When: m.When, Until: m.CompleteTime, when: p.Start,
	}
}

func notifyOfIssue(i monitor.Issue) notificationView {
	return notificationView{
		Entity: showIssue(i).Entity, Type: "ticket_important", Label: "There is an open issue", Message: i.Ticket.Summary, Severity: "major",
		When: new(showTime(i.Created)), when: i.Created,
	}
}

func (a *API) notifications(ctx context.Context, p account.Principal) ([]notificationView, error) {
	issues, err := a.Control.Overview.OpenIssues(ctx, p)
	if err != nil {
		return nil, err
	}
	planned, err := a.Control.Maintenance.List(ctx, p)
	if err != nil {
		return nil, err
	}
	views := make([]notificationView, 0, len(issues)+len(planned))
	for _, i := range issues {
		views = append(views, notifyOfIssue(i))
	}
	for _, m := range planned {
		views = append(views, notifyOfMaintenance(m))
	}
	return views, nil
}

func notificationsInMemory(views []notificationView) inMemory[notificationView] {
	fields := filter.Fields{
		"type": filter.Text, "severity": filter.Text, "label": filter.Text, "message": filter.Text, "when": filter.Time,
		"entity.id": filter.Number, "entity.label": filter.Text, "entity.type": filter.Text,
	}
	return inMemory[notificationView]{views, fields, func(v notificationView, field string) any {
		switch field {
		case "type":
			return v.Type
		case "severity":
			return v.Severity
		case "label":
			return v.Label
		case "message":
			return v.Message
		case "entity.id":
			return v.Entity.ID
		case "entity.label":
			return v.Entity.Label
		case "entity.type":
			return v.Entity.Type
		}
		if v.When == nil {
			return nil
		}
		return v.when
	}}
}

// preferences are what a client keeps for a user: any object.
type preferences json.RawMessage

// UnmarshalJSON takes them as they are.
func (p *preferences) UnmarshalJSON(text []byte) error {
	*p = append(preferences{}, text...)
	return nil
}

// MarshalJSON gives them back.
func (p preferences) MarshalJSON() ([]byte, error) { return p, nil }

// Schema is that of any object.
func (preferences) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

func (a *API) registerAccount() {
	const tag = "Account"
	overview := a.Control.Overview
	register(a, endpoint{method: http.MethodGet, path: "/v4/account", id: "viewAccount", summary: "View the account", tag: tag, scope: readAccount},
		func(ctx context.Context, c call[none, none]) (accountView, error) {
			found, err := overview.Account(ctx, c.Principal)
			return showAccount(found), err
		})
	register(a, endpoint{method: http.MethodGet, path: "/v4/account/settings", id: "viewAccountSettings", summary: "View the account's settings", tag: tag, scope: readAccount, own: true},
		func(context.Context, call[none, none]) (settingsView, error) {
			return settingsView{Managed: true, ObjectStorage: "disabled", Interfaces: "legacy_config_only"}, nil
		})
	register(a, endpoint{method: http.MethodGet, path: "/v4/account/notifications", id: "listNotifications", summary: "List maintenance that is planned and outages that last", tag: tag, scope: readAccount, own: true},
		func(ctx context.Context, c call[Listing, none]) (list[notificationView], error) {
			views, err := a.notifications(ctx, c.Principal)
			if err != nil {
				return list[notificationView]{}, err
			}
			return listInMemory(notificationsInMemory(views), c.In, itself)
		})
	children := inMemory[accountView]{nil, filter.Fields{"company": filter.Text, "euuid": filter.Text}, func(accountView, string) any { return nil }}
	register(a, endpoint{method: http.MethodGet, path: "/v4/account/child-accounts", id: "listChildAccounts", summary: "List the account's children: there are none", tag: tag, scope: readAccount, own: true},
		func(_ context.Context, c call[Listing, none]) (list[accountView], error) {
			return listInMemory(children, c.In, itself)
		})
	a.registerOffered()
	a.registerUsage()
	registerList(a, endpoint{method: http.MethodGet, path: "/v4/account/audit", id: "listAudit", summary: "List who changed what, and what was refused, in the last 90 days, newest first", tag: tag, scope: readAccount},
		store.TrailFields, overview.Trail, showAudit)
	a.registerLogins("/v4/account/logins", "Account", tag, false, overview.Logins, overview.Login)
	a.registerLogins("/v4/profile/logins", "Profile", "Profile", true, overview.OwnLogins, overview.OwnLogin)
	const kept = "/v4/profile/preferences"
	register(a, endpoint{method: http.MethodGet, path: kept, id: "viewPreferences", summary: "View what your client keeps for you", tag: "Profile", scope: readAccount, own: true},
		func(ctx context.Context, c call[none, none]) (preferences, error) {
			found, err := overview.Preferences(ctx, c.Principal)
			return preferences(found), err
		})
	register(a, endpoint{method: http.MethodPut, path: kept, id: "updatePreferences", summary: "Replace what your client keeps for you: an object of at most 64 KB", tag: "Profile", scope: writeAccount, own: true},
		func(ctx context.Context, c call[none, preferences]) (preferences, error) {
			return c.Body, overview.SetPreferences(ctx, c.Principal, json.RawMessage(c.Body))
		})
}

// registerOffered adds what an account can have in each region, or in one.
func (a *API) registerOffered() {
	const all, tag = "/v4/account/availability", "Account"
	fields := filter.Fields{"region": filter.Text}
	regions := inMemory[catalog.Region]{a.Catalog.Regions, fields, func(r catalog.Region, _ string) any { return r.ID }}
	register(a, endpoint{method: http.MethodGet, path: all, id: "listAvailability", summary: "List what can be had in which region", tag: tag, scope: readAccount, own: true},
		func(_ context.Context, c call[Listing, none]) (list[offeredView], error) {
			return listInMemory(regions, c.In, showOffered)
		})
	register(a, endpoint{method: http.MethodGet, path: all + "/{id}", id: "viewAvailability", summary: "View what can be had in a region", tag: tag, scope: readAccount, own: true},
		func(_ context.Context, c call[textPath, none]) (offeredView, error) {
			r, ok := a.Catalog.Region(c.In.ID)
			if !ok {
				return offeredView{}, fault.NewNotFound()
			}
			return showOffered(r), nil
		})
}

// registerLogins adds the log-ins of the account, or of the caller.
func (a *API) registerLogins(path, whose, tag string, own bool,
	page func(context.Context, account.Principal, store.ListQuery) ([]account.Login, int, error),
	view func(context.Context, account.Principal, int64) (account.Login, error),
) {
	registerList(a, endpoint{method: http.MethodGet, path: path, id: "list" + whose + "Logins", summary: "List log-ins to applications, newest first", tag: tag, scope: readAccount, own: own},
		store.LoginFields, page, showLogin)
	register(a, endpoint{method: http.MethodGet, path: path + "/{loginId}", id: "view" + whose + "Login", summary: "View a log-in", tag: tag, scope: readAccount, own: own},
		func(ctx context.Context, c call[loginPath, none]) (loginView, error) {
			found, err := view(ctx, c.Principal, c.In.ID)
			return showLogin(found), err
		})
}
