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
	AccountAccess *string `json:"account_access" enum:"read_only,read_write" doc:"As it was set; nothing here asks for it."`
	AddDatabases  bool    `json:"add_databases"`
	FlagsView
}

// FlagsView are grants of things that there are none of here, as they were set.
// Exported, since Huma looks into exported members only.
type FlagsView struct {
	AddBuckets           bool `json:"add_buckets"`
	AddDomains           bool `json:"add_domains"`
	AddFirewalls         bool `json:"add_firewalls"`
	AddImages            bool `json:"add_images"`
	AddKubernetes        bool `json:"add_kubernetes"`
	AddLinodes           bool `json:"add_linodes"`
	AddLongview          bool `json:"add_longview"`
	AddNodeBalancers     bool `json:"add_nodebalancers"`
	AddStackScripts      bool `json:"add_stackscripts"`
	AddVolumes           bool `json:"add_volumes"`
	AddVPCs              bool `json:"add_vpcs"`
	CancelAccount        bool `json:"cancel_account"`
	ChildAccountAccess   bool `json:"child_account_access"`
	LongviewSubscription bool `json:"longview_subscription"`
}

type grantsView struct {
	Global   globalGrants `json:"global"`
	Database []grantView  `json:"database" nullable:"false"`
	AbsentView
}

// AbsentView are grants on single things of kinds that there are none of here.
type AbsentView struct {
	Domain         []grantView `json:"domain" nullable:"false" doc:"Always empty."`
	Firewall       []grantView `json:"firewall" nullable:"false" doc:"Always empty."`
	Image          []grantView `json:"image" nullable:"false" doc:"Always empty."`
	Linode         []grantView `json:"linode" nullable:"false" doc:"Always empty."`
	Longview       []grantView `json:"longview" nullable:"false" doc:"Always empty."`
	NodeBalancer   []grantView `json:"nodebalancer" nullable:"false" doc:"Always empty."`
	PlacementGroup []grantView `json:"placement_group" nullable:"false" doc:"Always empty."`
	StackScript    []grantView `json:"stackscript" nullable:"false" doc:"Always empty."`
	Volume         []grantView `json:"volume" nullable:"false" doc:"Always empty."`
	VPC            []grantView `json:"vpc" nullable:"false" doc:"Always empty."`
}

// showGrants answers 204 for users that grants don't bind.
func showGrants(g control.Grants, err error) (grantsView, error) {
	if err != nil {
		return grantsView{}, err
	}
	if !g.Restricted {
		return grantsView{}, noContent{}
	}
	none := []grantView{}
	v := grantsView{
		Global:     globalGrants{AddDatabases: g.AddDatabases, FlagsView: FlagsView(g.Flags)},
		Database:   make([]grantView, len(g.Databases)),
		AbsentView: AbsentView{none, none, none, none, none, none, none, none, none, none},
	}
	if g.AccountAccess != account.NoPermission {
		v.Global.AccountAccess = new(string(g.AccountAccess))
	}
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
