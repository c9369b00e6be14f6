package api

import (
	"context"
	"net/http"

	"steward/internal/account"
	"steward/internal/control"
)

// profileView is the caller. Members that existing clients read and steward has
// nothing to say about have their neutral values.
type profileView struct {
	UID                int64    `json:"uid"`
	Username           string   `json:"username"`
	Email              string   `json:"email"`
	Restricted         bool     `json:"restricted"`
	Timezone           string   `json:"timezone"`
	EmailNotifications bool     `json:"email_notifications"`
	TwoFactorAuth      bool     `json:"two_factor_auth"`
	AuthenticationType string   `json:"authentication_type"`
	AuthorizedKeys     []string `json:"authorized_keys" nullable:"false"`
}

type grantView struct {
	ID          int64   `json:"id"`
	Label       string  `json:"label"`
	Permissions *string `json:"permissions" enum:"read_only,read_write"`
}

type globalGrants struct {
	AddDatabases bool `json:"add_databases"`
}

type grantsView struct {
	Global   globalGrants `json:"global"`
	Database []grantView  `json:"database" nullable:"false"`
}

// showGrants answers 204 for users that grants don't bind.
func showGrants(g control.Grants, err error) (grantsView, error) {
	if err != nil {
		return grantsView{}, err
	}
	if !g.Restricted {
		return grantsView{}, noContent{}
	}
	v := grantsView{Global: globalGrants{g.AddDatabases}, Database: make([]grantView, len(g.Databases))}
	for i, d := range g.Databases {
		v.Database[i] = grantView{ID: d.Cluster, Label: d.Label}
		if d.Permission != account.NoPermission {
			v.Database[i].Permissions = new(string(d.Permission))
		}
	}
	return v, nil
}

func (a *API) registerProfile() {
	register(a, endpoint{method: http.MethodGet, path: "/v4/profile", id: "viewProfile", summary: "View yourself", tag: "Profile", own: true},
		func(_ context.Context, c call[none, none]) (profileView, error) {
			return profileView{
				UID: int64(c.User.ID), Username: c.User.Username, Email: c.User.Email, Restricted: c.User.Restricted,
				Timezone: "UTC", AuthenticationType: "password", AuthorizedKeys: []string{},
			}, nil
		})
	register(a, endpoint{method: http.MethodGet, path: "/v4/profile/grants", id: "viewProfileGrants", summary: "View what you may do; 204 when nothing is restricted", tag: "Profile", own: true, maybeEmpty: true},
		func(ctx context.Context, c call[none, none]) (grantsView, error) {
			return showGrants(a.Control.Users.OwnGrants(ctx, c.Principal))
		})
}
