package api

import (
	"context"
	"net/http"

	"steward/internal/account"
	"steward/internal/store"
)

// appView is an application that the caller gave access.
type appView struct {
	ID           int64   `json:"id"`
	Label        string  `json:"label"`
	Website      string  `json:"website"`
	Scopes       string  `json:"scopes"`
	Created      string  `json:"created" format:"date-time"`
	Expiry       string  `json:"expiry" format:"date-time" doc:"When it can't go on without being allowed again."`
	ThumbnailURL *string `json:"thumbnail_url"`
	Browser      *string `json:"browser" doc:"What it was allowed with, such as Firefox on Linux; null where that isn't known."`
	Address      *string `json:"address" doc:"Where from it was allowed."`
	LastUsed     *string `json:"last_used" format:"date-time" doc:"When a session of the console was last used, to the minute; null for other applications."`
	Current      bool    `json:"current" doc:"Whether the request was sent by it."`
}

func showApp(a account.App) appView {
	return appView{
		ID: a.ID, Label: a.Label, Website: a.Website, Scopes: a.Scopes.String(), Created: showTime(a.Created), Expiry: showTime(a.Expiry),
		Browser: orNull(a.Browser), Address: orNull(a.Address), LastUsed: optionalTime(a.LastUsed), Current: a.Current,
	}
}

type appPath struct {
	ID int64 `path:"appId" minimum:"1"`
}

func (a *API) registerApps() {
	apps := a.Control.Authorizations
	const all, one = "/v4/profile/apps", "/v4/profile/apps/{appId}"
	registerList(a, endpoint{method: http.MethodGet, path: all, id: "listApps", summary: "List the applications you gave access", tag: "Profile", scope: readAccount, own: true},
		store.AppFields, apps.Apps, showApp)
	register(a, endpoint{method: http.MethodGet, path: one, id: "viewApp", summary: "View an application you gave access", tag: "Profile", scope: readAccount, own: true},
		func(ctx context.Context, c call[appPath, none]) (appView, error) {
			found, err := apps.App(ctx, c.Principal, c.In.ID)
			return showApp(found), err
		})
	register(a, endpoint{method: http.MethodDelete, path: one, id: "deleteApp", summary: "Take an application's access back", tag: "Profile", scope: writeAccount, own: true},
		func(ctx context.Context, c call[appPath, none]) (empty, error) {
			return empty{}, apps.DeleteApp(ctx, c.Principal, c.In.ID)
		})
}
