package api

import (
	"context"
	"net/http"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/fault"
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
	IPWhitelistEnabled bool     `json:"ip_whitelist_enabled"`
	LishAuthMethod     string   `json:"lish_auth_method"`
	VerifiedPhone      *string  `json:"verified_phone_number"`
	Referrals          referral `json:"referrals"`
	Operator           bool     `json:"operator" doc:"Whether the user is one of the installation's operators."`
}

// referral is what clients read of a programme that there is none of.
type referral struct {
	Total     int     `json:"total"`
	Completed int     `json:"completed"`
	Pending   int     `json:"pending"`
	Credit    float64 `json:"credit"`
	Code      string  `json:"code"`
	URL       string  `json:"url"`
}

// showProfile shows a user, who is the caller or what the caller became.
func (a *API) showProfile(ctx context.Context, p account.Principal, u account.User) (profileView, error) {
	twoFactor, err := a.Control.Logins.HasFactor(ctx, u)
	if err != nil {
		return profileView{}, err
	}
	operator, err := a.Control.Operators.Is(ctx, p)
	return profileView{
		UID: int64(u.ID), Username: u.Username, Email: u.Email, Restricted: u.Restricted, TwoFactorAuth: twoFactor,
		Timezone: "UTC", AuthenticationType: "password", AuthorizedKeys: []string{}, LishAuthMethod: "disabled", Operator: operator,
	}, err
}

// profileUpdate is a change of oneself: of the e-mail address. Clients that send
// all of a profile may send the rest as it is.
type profileUpdate struct {
	Email              *string   `json:"email,omitempty"`
	Username           *string   `json:"username,omitempty" doc:"As it is."`
	Restricted         *bool     `json:"restricted,omitempty" doc:"As it is."`
	Timezone           *string   `json:"timezone,omitempty" doc:"As it is."`
	EmailNotifications *bool     `json:"email_notifications,omitempty" doc:"As it is."`
	TwoFactorAuth      *bool     `json:"two_factor_auth,omitempty" doc:"As it is; tfa-enable and tfa-disable change it."`
	AuthenticationType *string   `json:"authentication_type,omitempty" doc:"As it is."`
	AuthorizedKeys     *[]string `json:"authorized_keys,omitempty" nullable:"true" maxItems:"1000" doc:"As it is: empty."`
	IPWhitelistEnabled *bool     `json:"ip_whitelist_enabled,omitempty" doc:"As it is."`
	LishAuthMethod     *string   `json:"lish_auth_method,omitempty" doc:"As it is."`
}

// refuse names the members that would change what can't be.
func (b profileUpdate) refuse(now profileView, faults *fault.Faults) {
	for field, same := range map[string]bool{
		"username": orDefault(b.Username, now.Username) == now.Username, "restricted": orDefault(b.Restricted, now.Restricted) == now.Restricted,
		"timezone": orDefault(b.Timezone, now.Timezone) == now.Timezone, "authorized_keys": len(orDefault(b.AuthorizedKeys, nil)) == 0,
		"email_notifications":  orDefault(b.EmailNotifications, now.EmailNotifications) == now.EmailNotifications,
		"two_factor_auth":      orDefault(b.TwoFactorAuth, now.TwoFactorAuth) == now.TwoFactorAuth,
		"authentication_type":  orDefault(b.AuthenticationType, now.AuthenticationType) == now.AuthenticationType,
		"ip_whitelist_enabled": orDefault(b.IPWhitelistEnabled, now.IPWhitelistEnabled) == now.IPWhitelistEnabled,
		"lish_auth_method":     orDefault(b.LishAuthMethod, now.LishAuthMethod) == now.LishAuthMethod,
	} {
		if !same {
			faults.Add(field, "Can't be changed here")
		}
	}
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
		func(ctx context.Context, c call[none, none]) (profileView, error) {
			return a.showProfile(ctx, c.Principal, c.User)
		})
	register(a, endpoint{method: http.MethodPut, path: "/v4/profile", id: "updateProfile", summary: "Change your e-mail address", tag: "Profile", scope: writeAccount, own: true},
		func(ctx context.Context, c call[none, profileUpdate]) (profileView, error) {
			now, err := a.showProfile(ctx, c.Principal, c.User)
			if err != nil {
				return profileView{}, err
			}
			c.Body.refuse(now, &c.Faults)
			changed, err := a.Control.Users.UpdateOwn(ctx, c.Principal, c.Body.Email, c.Faults)
			now.Email = changed.Email
			return now, err
		})
	register(a, endpoint{method: http.MethodGet, path: "/v4/profile/grants", id: "viewProfileGrants", summary: "View what you may do; 204 when nothing is restricted", tag: "Profile", own: true, maybeEmpty: true},
		func(ctx context.Context, c call[none, none]) (grantsView, error) {
			return showGrants(a.Control.Users.OwnGrants(ctx, c.Principal))
		})
}
