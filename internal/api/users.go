package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/store"
)

type userView struct {
	Username        string         `json:"username"`
	Email           string         `json:"email"`
	Restricted      bool           `json:"restricted"`
	UserType        string         `json:"user_type"`
	TFAEnabled      bool           `json:"tfa_enabled"`
	SSHKeys         []string       `json:"ssh_keys" nullable:"false"`
	LastLogin       *lastLoginView `json:"last_login" doc:"The last log-in to an application of the account, right or wrong; null when there was none."`
	PasswordCreated *string        `json:"password_created" format:"date-time" doc:"When the password was set; null without one."`
	VerifiedPhone   *string        `json:"verified_phone_number" doc:"Always null: there are none."`
}

// TransformSchema documents that a user may never have logged in.
func (*userView) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	orNullObject(s, "last_login")
	return s
}

type lastLoginView struct {
	At     string `json:"login_datetime" format:"date-time"`
	Status string `json:"status" enum:"successful,failed"`
}

// showUsers shows users as they are and how they got in.
func (a *API) showUsers(ctx context.Context, p account.Principal, users ...account.User) ([]userView, error) {
	waysIn, err := a.Control.Users.WaysIn(ctx, p, users...)
	if err != nil {
		return nil, err
	}
	views := make([]userView, len(users))
	for i, u := range users {
		in := waysIn[u.ID]
		views[i] = userView{
			Username: u.Username, Email: u.Email, Restricted: u.Restricted, UserType: "default", SSHKeys: []string{},
			PasswordCreated: optionalTime(in.PasswordSet), TFAEnabled: in.TwoFactor,
		}
		if in.LastLogin != nil {
			views[i].LastLogin = &lastLoginView{showTime(*in.LastLogin), in.LastStatus}
		}
	}
	return views, nil
}

// showUser is showUsers of what a use case gave.
func (a *API) showUser(ctx context.Context, p account.Principal, u account.User, err error) (userView, error) {
	if err != nil {
		return userView{}, err
	}
	views, err := a.showUsers(ctx, p, u)
	if err != nil {
		return userView{}, err
	}
	return views[0], nil
}

type userCreate struct {
	Username   string `json:"username" minLength:"3" maxLength:"32"`
	Email      string `json:"email"`
	Restricted *bool  `json:"restricted,omitempty" default:"true"`
}

type userUpdate struct {
	Username   *string `json:"username,omitempty" minLength:"3" maxLength:"32"`
	Email      *string `json:"email,omitempty"`
	Restricted *bool   `json:"restricted,omitempty"`
}

type userPath struct {
	Username string `path:"username"`
}

type grantUpdate struct {
	ID          int64   `json:"id"`
	Permissions *string `json:"permissions" nullable:"true" enum:"read_only,read_write" doc:"null takes the grant away."`
}

type globalUpdate struct {
	AccountAccess optional[string] `json:"account_access,omitzero" enum:"read_only,read_write" doc:"null takes it away. Kept and shown, as is all but add_databases: nothing here asks for it."`
	AddDatabases  *bool            `json:"add_databases,omitempty"`
	FlagsUpdate
}

// FlagsUpdate are grants of things that there are none of here. Exported, since
// Huma looks into exported members only.
type FlagsUpdate struct {
	AddBuckets           *bool `json:"add_buckets,omitempty"`
	AddDomains           *bool `json:"add_domains,omitempty"`
	AddFirewalls         *bool `json:"add_firewalls,omitempty"`
	AddImages            *bool `json:"add_images,omitempty"`
	AddKubernetes        *bool `json:"add_kubernetes,omitempty"`
	AddLinodes           *bool `json:"add_linodes,omitempty"`
	AddLongview          *bool `json:"add_longview,omitempty"`
	AddNodeBalancers     *bool `json:"add_nodebalancers,omitempty"`
	AddStackScripts      *bool `json:"add_stackscripts,omitempty"`
	AddVolumes           *bool `json:"add_volumes,omitempty"`
	AddVPCs              *bool `json:"add_vpcs,omitempty"`
	CancelAccount        *bool `json:"cancel_account,omitempty"`
	ChildAccountAccess   *bool `json:"child_account_access,omitempty"`
	LongviewSubscription *bool `json:"longview_subscription,omitempty"`
}

type grantsUpdate struct {
	Global   *globalUpdate `json:"global,omitempty"`
	Database []grantUpdate `json:"database,omitempty" nullable:"false" maxItems:"1000"`
	AbsentUpdate
}

// AbsentUpdate are grants on single things of kinds that there are none of here.
type AbsentUpdate struct {
	Domain         []grantUpdate `json:"domain,omitempty" maxItems:"1000" doc:"There are none here: empty."`
	Firewall       []grantUpdate `json:"firewall,omitempty" maxItems:"1000" doc:"There are none here: empty."`
	Image          []grantUpdate `json:"image,omitempty" maxItems:"1000" doc:"There are none here: empty."`
	Linode         []grantUpdate `json:"linode,omitempty" maxItems:"1000" doc:"There are none here: empty."`
	Longview       []grantUpdate `json:"longview,omitempty" maxItems:"1000" doc:"There are none here: empty."`
	NodeBalancer   []grantUpdate `json:"nodebalancer,omitempty" maxItems:"1000" doc:"There are none here: empty."`
	PlacementGroup []grantUpdate `json:"placement_group,omitempty" maxItems:"1000" doc:"There are none here: empty."`
	StackScript    []grantUpdate `json:"stackscript,omitempty" maxItems:"1000" doc:"There are none here: empty."`
	Volume         []grantUpdate `json:"volume,omitempty" maxItems:"1000" doc:"There are none here: empty."`
	VPC            []grantUpdate `json:"vpc,omitempty" maxItems:"1000" doc:"There are none here: empty."`
}

// refuse names the members that ask for a grant on what isn't there.
func (b AbsentUpdate) refuse(faults *fault.Faults) {
	for field, asked := range map[string][]grantUpdate{
		"domain": b.Domain, "firewall": b.Firewall, "image": b.Image, "linode": b.Linode, "longview": b.Longview,
		"nodebalancer": b.NodeBalancer, "placement_group": b.PlacementGroup, "stackscript": b.StackScript, "volume": b.Volume, "vpc": b.VPC,
	} {
		for _, g := range asked {
			faults.Add(field+".id", "%d is not valid", g.ID)
		}
	}
}

// change is what the request asks for; faults gets what isn't there.
func (b grantsUpdate) change(faults *fault.Faults) control.GrantsChange {
	b.refuse(faults)
	in := control.GrantsChange{Databases: map[cluster.ID]account.Permission{}}
	if g := b.Global; g != nil {
		in.AddDatabases, in.Flags = g.AddDatabases, control.FlagsChange(g.FlagsUpdate)
		in.AccountAccess = (*account.Permission)(g.AccountAccess.orZero())
	}
	for _, d := range b.Database {
		in.Databases[cluster.ID(d.ID)] = account.Permission(orDefault(d.Permissions, ""))
	}
	return in
}

func (a *API) registerUsers() {
	users := a.Control.Users
	const all, one = "/v4/account/users", "/v4/account/users/{username}"
	register(a, endpoint{method: http.MethodGet, path: all, id: "listUsers", summary: "List users", tag: "Users", scope: readAccount},
		func(ctx context.Context, c call[Listing, none]) (list[userView], error) {
			q, err := c.In.query(store.UserFields)
			if err != nil {
				return list[userView]{}, err
			}
			found, total, err := users.List(ctx, c.Principal, q)
			if err != nil {
				return list[userView]{}, err
			}
			views, err := a.showUsers(ctx, c.Principal, found...)
			return newList(views, total, c.In.Paging, func(v userView) userView { return v }), err
		})
	register(a, endpoint{method: http.MethodPost, path: all, id: "createUser", summary: "Create a user", tag: "Users", scope: writeAccount},
		func(ctx context.Context, c call[none, userCreate]) (userView, error) {
			in := control.UserChange{Username: &c.Body.Username, Email: &c.Body.Email, Restricted: c.Body.Restricted}
			made, err := users.Create(ctx, c.Principal, in, c.Faults)
			return a.showUser(ctx, c.Principal, made, err)
		})
	register(a, endpoint{method: http.MethodGet, path: one, id: "viewUser", summary: "View a user", tag: "Users", scope: readAccount},
		func(ctx context.Context, c call[userPath, none]) (userView, error) {
			found, err := users.View(ctx, c.Principal, c.In.Username)
			return a.showUser(ctx, c.Principal, found, err)
		})
	register(a, endpoint{method: http.MethodPut, path: one, id: "updateUser", summary: "Update a user", tag: "Users", scope: writeAccount},
		func(ctx context.Context, c call[userPath, userUpdate]) (userView, error) {
			in := control.UserChange{Username: c.Body.Username, Email: c.Body.Email, Restricted: c.Body.Restricted}
			changed, err := users.Update(ctx, c.Principal, c.In.Username, in, c.Faults)
			return a.showUser(ctx, c.Principal, changed, err)
		})
	register(a, endpoint{method: http.MethodDelete, path: one, id: "deleteUser", summary: "Delete a user", tag: "Users", scope: writeAccount},
		func(ctx context.Context, c call[userPath, none]) (empty, error) {
			return empty{}, users.Delete(ctx, c.Principal, c.In.Username)
		})
	register(a, endpoint{method: http.MethodGet, path: one + "/grants", id: "viewUserGrants", summary: "View a user's grants; 204 when it is not restricted", tag: "Users", scope: readAccount, maybeEmpty: true},
		func(ctx context.Context, c call[userPath, none]) (grantsView, error) {
			return showGrants(users.Grants(ctx, c.Principal, c.In.Username))
		})
	register(a, endpoint{method: http.MethodPut, path: one + "/grants", id: "updateUserGrants", summary: "Update a user's grants", tag: "Users", scope: writeAccount},
		func(ctx context.Context, c call[userPath, grantsUpdate]) (grantsView, error) {
			return showGrants(users.SetGrants(ctx, c.Principal, c.In.Username, c.Body.change(&c.Faults), c.Faults))
		})
}
