package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"steward/internal/control"
	"steward/internal/filter"
	"steward/internal/monitor"
	"steward/internal/store"
)

type serviceView struct {
	ID                int64   `json:"id"`
	Label             string  `json:"label"`
	ServiceType       string  `json:"service_type" enum:"url,tcp"`
	Address           string  `json:"address"`
	Timeout           int     `json:"timeout" doc:"Seconds a check may take."`
	Body              *string `json:"body"`
	ConsultationGroup string  `json:"consultation_group"`
	Credentials       []int64 `json:"credentials" nullable:"false"`
	Notes             *string `json:"notes"`
	Region            *string `json:"region"`
	Status            string  `json:"status" enum:"disabled,pending,ok,problem"`
	Created           string  `json:"created" format:"date-time"`
	Updated           string  `json:"updated" format:"date-time"`
	// Beyond what the cloud's API has.
	Interval     *int    `json:"interval" doc:"Seconds between checks; null: as the operator has set."`
	StatusSince  string  `json:"status_since" format:"date-time"`
	StatusReason *string `json:"status_reason" doc:"What the checks found when it got its status."`
	Certificate  *string `json:"certificate_expires" format:"date-time" doc:"When the first of the certificates ends that the last check was shown."`
}

func showService(s monitor.Service) serviceView {
	v := serviceView{
		ID: int64(s.ID), Label: s.Label, ServiceType: string(s.Type), Address: s.Address, Timeout: s.Timeout, Body: orNull(s.Body),
		ConsultationGroup: s.Group, Credentials: make([]int64, len(s.Credentials)), Notes: orNull(s.Notes), Region: orNull(s.Region),
		Status: string(s.Status), Created: showTime(s.Created), Updated: showTime(s.Updated),
		StatusSince: showTime(s.Since), StatusReason: orNull(s.Reason), Certificate: optionalTime(s.CertificateEnds),
	}
	for i, id := range s.Credentials {
		v.Credentials[i] = int64(id)
	}
	if s.Interval != 0 {
		v.Interval = &s.Interval
	}
	return v
}

type serviceCreate struct {
	Label       string `json:"label" minLength:"3" maxLength:"64"`
	ServiceType string `json:"service_type" enum:"url,tcp"`
	Address     string `json:"address" minLength:"3" maxLength:"100" doc:"An http or https URL without user and fragment, or host:port."`
	Timeout     int    `json:"timeout" minimum:"1" maximum:"255" doc:"Seconds a check may take."`
	ServiceOptions
}

// ServiceOptions are exported, since Huma looks into exported members only. They may be left out; null takes away what is there.
type ServiceOptions struct {
	Body        optional[string]  `json:"body,omitzero" maxLength:"100" doc:"Text that the answer must contain."`
	Group       optional[string]  `json:"consultation_group,omitzero" maxLength:"50" doc:"Group of the contacts to be told; all contacts when empty."`
	Credentials optional[[]int64] `json:"credentials,omitzero"`
	Notes       optional[string]  `json:"notes,omitzero" maxLength:"65536"`
	Region      optional[string]  `json:"region,omitzero" doc:"Required for private addresses, not allowed for public ones."`
	Interval    optional[int]     `json:"interval,omitzero" minimum:"10" maximum:"86400" doc:"Seconds between checks."`
}

func (o ServiceOptions) change() control.ServiceChange {
	in := control.ServiceChange{
		Body: o.Body.orZero(), Group: o.Group.orZero(), Notes: o.Notes.orZero(), Region: o.Region.orZero(), Interval: o.Interval.orZero(),
	}
	if ids := o.Credentials.orZero(); ids != nil {
		list := make([]monitor.CredentialID, len(*ids))
		for i, id := range *ids {
			list[i] = monitor.CredentialID(id)
		}
		in.Credentials = &list
	}
	return in
}

type serviceUpdate struct {
	Label       *string `json:"label,omitempty" minLength:"3" maxLength:"64"`
	ServiceType *string `json:"service_type,omitempty" enum:"url,tcp"`
	Address     *string `json:"address,omitempty" minLength:"3" maxLength:"100"`
	Timeout     *int    `json:"timeout,omitempty" minimum:"1" maximum:"255"`
	ServiceOptions
}

func (b serviceUpdate) change() control.ServiceChange {
	in := b.ServiceOptions.change()
	in.Label, in.Address, in.Timeout, in.Type = b.Label, b.Address, b.Timeout, (*monitor.ServiceType)(b.ServiceType)
	return in
}

type servicePath struct {
	ID int64 `path:"serviceId" minimum:"1"`
}

type checkView struct {
	Started      string  `json:"started" format:"date-time"`
	Result       string  `json:"result" doc:"ok, or in a word what was found."`
	ResponseTime float64 `json:"response_time" doc:"Seconds."`
}

func showCheck(s monitor.Sample) checkView {
	return checkView{showTime(s.Started), string(s.Class), seconds(s.Took)}
}

// uptimeView sums up a time.
type uptimeView struct {
	Checks   int      `json:"checks"`
	Failures int      `json:"failures"`
	Uptime   *float64 `json:"uptime" doc:"Percent of the checks that were good; null without checks."`
	Mean     float64  `json:"mean_response_time" doc:"Seconds."`
	Longest  float64  `json:"longest_response_time" doc:"Seconds."`
}

func showUptime(h monitor.Hour) uptimeView {
	return uptimeView{h.Checks, h.Failures, h.Uptime(), seconds(h.Mean()), seconds(h.Longest)}
}

type checksView struct {
	Data    []checkView `json:"data" nullable:"false"`
	Page    int         `json:"page"`
	Pages   int         `json:"pages"`
	Results int         `json:"results"`

	Day   uptimeView `json:"last_24_hours"`
	Week  uptimeView `json:"last_7_days"`
	Month uptimeView `json:"last_30_days"`
}

type checksInput struct {
	ID int64 `path:"serviceId" minimum:"1"`
	Listing
}

// checkFields are what checks can be filtered and ordered by.
var checkFields = filter.Fields{"started": filter.Time, "result": filter.Text}

func checkMember(s monitor.Sample, field string) any {
	if field == "started" {
		return s.Started.Truncate(time.Second)
	}
	return string(s.Class)
}

func (a *API) registerServices() {
	services := a.Control.Services
	const all, one, tag = "/v4/managed/services", "/v4/managed/services/{serviceId}", "Services"
	registerList(a, endpoint{method: http.MethodGet, path: all, id: "listServices", summary: "List monitored services", tag: tag, scope: readAccount},
		store.ServiceFields, services.List, showService)
	register(a, endpoint{method: http.MethodPost, path: all, id: "createService", summary: "Have a service monitored", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[none, serviceCreate]) (serviceView, error) {
			b := serviceUpdate{&c.Body.Label, &c.Body.ServiceType, &c.Body.Address, &c.Body.Timeout, c.Body.ServiceOptions}
			made, err := services.Create(ctx, c.Principal, b.change(), c.Faults)
			return showService(made), err
		})
	register(a, endpoint{method: http.MethodGet, path: one, id: "viewService", summary: "View a monitored service", tag: tag, scope: readAccount},
		func(ctx context.Context, c call[servicePath, none]) (serviceView, error) {
			found, err := services.View(ctx, c.Principal, monitor.ServiceID(c.In.ID))
			return showService(found), err
		})
	register(a, endpoint{method: http.MethodPut, path: one, id: "updateService", summary: "Update a monitored service; what is left out stays", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[servicePath, serviceUpdate]) (serviceView, error) {
			changed, err := services.Update(ctx, c.Principal, monitor.ServiceID(c.In.ID), c.Body.change(), c.Faults)
			return showService(changed), err
		})
	register(a, endpoint{method: http.MethodDelete, path: one, id: "deleteService", summary: "Stop monitoring a service for good", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[servicePath, none]) (empty, error) {
			return empty{}, services.Delete(ctx, c.Principal, monitor.ServiceID(c.In.ID))
		})
	register(a, endpoint{method: http.MethodPost, path: one + "/disable", id: "disableService", summary: "Stop monitoring a service for the time being", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[servicePath, none]) (serviceView, error) {
			changed, err := services.Disable(ctx, c.Principal, monitor.ServiceID(c.In.ID))
			return showService(changed), err
		})
	register(a, endpoint{method: http.MethodPost, path: one + "/enable", id: "enableService", summary: "Monitor a service again", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[servicePath, none]) (serviceView, error) {
			changed, err := services.Enable(ctx, c.Principal, monitor.ServiceID(c.In.ID))
			return showService(changed), err
		})
	register(a, endpoint{method: http.MethodPost, path: one + "/check", id: "checkService", summary: "Check a service within seconds; at most each ten", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[servicePath, none]) (empty, error) {
			return empty{}, services.CheckNow(ctx, c.Principal, monitor.ServiceID(c.In.ID))
		})
	register(a, endpoint{method: http.MethodGet, path: one + "/checks", id: "listServiceChecks", summary: "List a service's checks of the last 24 hours, newest first, and its uptime", tag: tag, scope: readAccount},
		func(ctx context.Context, c call[checksInput, none]) (checksView, error) {
			h, err := services.History(ctx, c.Principal, monitor.ServiceID(c.In.ID))
			if err != nil {
				return checksView{}, err
			}
			slices.Reverse(h.Samples)
			l, err := listInMemory(inMemory[monitor.Sample]{h.Samples, checkFields, checkMember}, c.In.Listing, showCheck)
			return checksView{
				Data: l.Data, Page: l.Page, Pages: l.Pages, Results: l.Results,
				Day: showUptime(h.Day), Week: showUptime(h.Week), Month: showUptime(h.Month),
			}, err
		})
}
