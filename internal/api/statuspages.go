package api

import (
	"context"
	"net/http"

	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/monitor"
	"steward/internal/store"
)

const statusPagesPath = "/v4/managed/status-pages"

type statusPageView struct {
	ID                int64   `json:"id"`
	Slug              string  `json:"slug" doc:"The page is at /status/SLUG, for everybody."`
	Title             string  `json:"title"`
	Services          []int64 `json:"services" nullable:"false"`
	Databases         []int64 `json:"databases" nullable:"false"`
	Days              int     `json:"days" doc:"Of how many days the page tells."`
	ShowResponseTimes bool    `json:"show_response_times"`
	Created           string  `json:"created" format:"date-time"`
	Updated           string  `json:"updated" format:"date-time"`
}

func showStatusPage(p monitor.StatusPage) statusPageView {
	v := statusPageView{
		ID: int64(p.ID), Slug: p.Slug, Title: p.Title, Services: make([]int64, len(p.Services)), Databases: make([]int64, len(p.Databases)),
		Days: p.Days, ShowResponseTimes: p.ShowResponseTimes, Created: showTime(p.Created), Updated: showTime(p.Updated),
	}
	for i, id := range p.Services {
		v.Services[i] = int64(id)
	}
	for i, id := range p.Databases {
		v.Databases[i] = int64(id)
	}
	return v
}

type statusPageCreate struct {
	Slug  string `json:"slug" minLength:"3" maxLength:"48" doc:"Small letters, digits and single hyphens; one page's alone."`
	Title string `json:"title" minLength:"1" maxLength:"100"`
	StatusPageOptions
}

// StatusPageOptions are exported, since Huma looks into exported members only. They may be left out.
type StatusPageOptions struct {
	Services          *[]int64 `json:"services,omitempty" doc:"The services that the page shows, in this order."`
	Databases         *[]int64 `json:"databases,omitempty" doc:"The databases that follow them, in this order."`
	Days              *int     `json:"days,omitempty" minimum:"1" maximum:"400" doc:"Of how many days the page tells; 90 when left out."`
	ShowResponseTimes *bool    `json:"show_response_times,omitempty"`
}

type statusPageUpdate struct {
	Slug  *string `json:"slug,omitempty" minLength:"3" maxLength:"48"`
	Title *string `json:"title,omitempty" minLength:"1" maxLength:"100"`
	StatusPageOptions
}

func (b statusPageUpdate) change() control.StatusPageChange {
	in := control.StatusPageChange{Slug: b.Slug, Title: b.Title, Days: b.Days, ShowResponseTimes: b.ShowResponseTimes}
	if b.Services != nil {
		in.Services = new(idsOf[monitor.ServiceID](*b.Services))
	}
	if b.Databases != nil {
		in.Databases = new(idsOf[cluster.ID](*b.Databases))
	}
	return in
}

func idsOf[ID ~int64](numbers []int64) []ID {
	ids := make([]ID, len(numbers))
	for i, n := range numbers {
		ids[i] = ID(n)
	}
	return ids
}

type statusPagePath struct {
	ID int64 `path:"pageId" minimum:"1"`
}

func (a *API) registerStatusPages() {
	pages := a.Control.StatusPages
	const all, one, tag = statusPagesPath, statusPagesPath + "/{pageId}", "Status pages"
	registerList(a, endpoint{method: http.MethodGet, path: all, id: "listStatusPages", summary: "List public status pages", tag: tag, scope: readAccount},
		store.StatusPageFields, pages.List, showStatusPage)
	register(a, endpoint{method: http.MethodPost, path: all, id: "createStatusPage", summary: "Publish a status page", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[none, statusPageCreate]) (statusPageView, error) {
			in := statusPageUpdate{&c.Body.Slug, &c.Body.Title, c.Body.StatusPageOptions}
			made, err := pages.Create(ctx, c.Principal, in.change(), c.Faults)
			return showStatusPage(made), err
		})
	register(a, endpoint{method: http.MethodGet, path: one, id: "viewStatusPage", summary: "View a status page", tag: tag, scope: readAccount},
		func(ctx context.Context, c call[statusPagePath, none]) (statusPageView, error) {
			found, err := pages.View(ctx, c.Principal, monitor.StatusPageID(c.In.ID))
			return showStatusPage(found), err
		})
	register(a, endpoint{method: http.MethodPut, path: one, id: "updateStatusPage", summary: "Update a status page; what is left out stays", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[statusPagePath, statusPageUpdate]) (statusPageView, error) {
			changed, err := pages.Update(ctx, c.Principal, monitor.StatusPageID(c.In.ID), c.Body.change(), c.Faults)
			return showStatusPage(changed), err
		})
	register(a, endpoint{method: http.MethodDelete, path: one, id: "deleteStatusPage", summary: "Take a status page away", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[statusPagePath, none]) (empty, error) {
			return empty{}, pages.Delete(ctx, c.Principal, monitor.StatusPageID(c.In.ID))
		})
}
