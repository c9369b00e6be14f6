package api

import (
	"context"
	"net/http"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/store"
)

type userView struct {
	Username   string   `json:"username"`
	Email      string   `json:"email"`
	Restricted bool     `json:"restricted"`
	UserType   string   `json:"user_type"`
	TFAEnabled bool     `json:"tfa_enabled"`
	SSHKeys    []string `json:"ssh_keys" nullable:"false"`
}

func showUser(u account.User) userView {
	return userView{u.Username, u.Email, u.Restricted, "default", false, []string{}}
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
	AddDatabases *bool `json:"add_databases,omitempty"`
}

type grantsUpdate struct {
	Global   *globalUpdate `json:"global,omitempty"`
	Database []grantUpdate `json:"database,omitempty" nullable:"false" maxItems:"1000"`
}

func (b grantsUpdate) change() control.GrantsChange {
	in := control.GrantsChange{Databases: map[cluster.ID]account.Permission{}}
	if b.Global != nil {
		in.AddDatabases = b.Global.AddDatabases
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
			return newList(found, total, c.In.Paging, showUser), err
		})
	register(a, endpoint{method: http.MethodPost, path: all, id: "createUser", summary: "Create a user", tag: "Users", scope: writeAccount},
		func(ctx context.Context, c call[none, userCreate]) (userView, error) {
			in := control.UserChange{Username: &c.Body.Username, Email: &c.Body.Email, Restricted: c.Body.Restricted}
			made, err := users.Create(ctx, c.Principal, in, c.Faults)
			return showUser(made), err
		})
	register(a, endpoint{method: http.MethodGet, path: one, id: "viewUser", summary: "View a user", tag: "Users", scope: readAccount},
		func(ctx context.Context, c call[userPath, none]) (userView, error) {
			found, err := users.View(ctx, c.Principal, c.In.Username)
			return showUser(found), err
		})
	register(a, endpoint{method: http.MethodPut, path: one, id: "updateUser", summary: "Update a user", tag: "Users", scope: writeAccount},
		func(ctx context.Context, c call[userPath, userUpdate]) (userView, error) {
			in := control.UserChange{Username: c.Body.Username, Email: c.Body.Email, Restricted: c.Body.Restricted}
			changed, err := users.Update(ctx, c.Principal, c.In.Username, in, c.Faults)
			return showUser(changed), err
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
			return showGrants(users.SetGrants(ctx, c.Principal, c.In.Username, c.Body.change(), c.Faults))
		})
}
