package api

import (
	"context"
	"fmt"
	"net/http"

	"steward/internal/alert"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/seal"
)

// channelView is a channel, as the cloud's API shows it.
type channelView struct {
	ID        int64             `json:"id"`
	Label     string            `json:"label"`
	Kind      string            `json:"channel_type" enum:"email,webhook,slack"`
	Type      string            `json:"type" enum:"system,user"`
	Details   channelDetails    `json:"details"`
	Alerts    channelAlertsView `json:"alerts"`
	Created   *string           `json:"created" format:"date-time" doc:"null of the contacts' channel."`
	Updated   *string           `json:"updated" format:"date-time" doc:"null of the contacts' channel."`
	CreatedBy string            `json:"created_by"`
	UpdatedBy string            `json:"updated_by"`
}

// madeChannelView is a channel in the answer that gives a secret.
type madeChannelView struct {
	ID        int64             `json:"id"`
	Label     string            `json:"label"`
	Kind      string            `json:"channel_type" enum:"email,webhook,slack"`
	Type      string            `json:"type" enum:"system,user"`
	Details   channelDetails    `json:"details"`
	Alerts    channelAlertsView `json:"alerts"`
	Created   *string           `json:"created" format:"date-time"`
	Updated   *string           `json:"updated" format:"date-time"`
	CreatedBy string            `json:"created_by"`
	UpdatedBy string            `json:"updated_by"`
	Secret    *string           `json:"secret" doc:"What a webhook's requests are signed with, this once; null when it is as it was, or there is none."`
}

func showMadeChannel(c control.ShownChannel) madeChannelView {
	v := showChannel(c)
	return madeChannelView{v.ID, v.Label, v.Kind, v.Type, v.Details, v.Alerts, v.Created, v.Updated, v.CreatedBy, v.UpdatedBy, orNull(c.Secret.Reveal())}
}

type channelDetails struct {
	Email   *emailDetails   `json:"email,omitempty"`
	Webhook *webhookDetails `json:"webhook,omitempty"`
	Slack   *webhookDetails `json:"slack,omitempty"`
}

type emailDetails struct {
	Usernames []string `json:"usernames" nullable:"false" doc:"Empty: addresses has who is told."`
	Recipient string   `json:"recipient_type" enum:"contacts,addresses"`
	Addresses []string `json:"addresses" nullable:"false" doc:"Empty for the contacts."`
}

type webhookDetails struct {
	URL    string  `json:"url" doc:"Without what may be secret."`
	Region *string `json:"region" doc:"Whose private networks it may lead to; null for none."`
}

type channelAlertsView struct {
	URL   string `json:"url"`
	Type  string `json:"type" enum:"alerts-definitions"`
	Count int    `json:"alert_count"`
}

func showChannel(c control.ShownChannel) channelView {
	v := channelView{
		ID: int64(c.ID), Label: c.Label, Kind: string(c.Kind), Type: "user", CreatedBy: c.CreatedBy, UpdatedBy: c.UpdatedBy,
		Alerts: channelAlertsView{fmt.Sprintf("%s/%d/alerts", channelsPath, c.ID), "alerts-definitions", c.Rules},
	}
	if c.ID < alert.FirstOwnChannel {
		v.Type = "system"
	} else {
		v.Created, v.Updated = new(showTime(c.Created)), new(showTime(c.Updated))
	}
	switch c.Kind {
	case alert.Email:
		v.Details.Email = &emailDetails{[]string{}, "addresses", append([]string{}, c.Addresses...)}
		if v.Type == "system" {
			v.Details.Email.Recipient = "contacts"
		}
	case alert.Webhook:
		v.Details.Webhook = &webhookDetails{c.Shown, orNull(c.Region)}
	case alert.Slack:
		v.Details.Slack = &webhookDetails{c.Shown, orNull(c.Region)}
	}
	return v
}

type channelCreate struct {
	Label   string        `json:"label" minLength:"1" maxLength:"100"`
	Kind    string        `json:"channel_type" enum:"email,webhook,slack" doc:"slack is whatever takes {\"text\": …} at a URL."`
	Details channelTarget `json:"details"`
}

type channelUpdate struct {
	Label   *string        `json:"label,omitempty" minLength:"1" maxLength:"100"`
	Kind    *string        `json:"channel_type,omitempty" enum:"email,webhook,slack" doc:"Can't be changed."`
	Details *channelTarget `json:"details,omitempty"`
	Rotate  bool           `json:"rotate_secret,omitempty" doc:"Gives a webhook another secret, which the answer has."`
}

type channelTarget struct {
	Email   *emailTarget   `json:"email,omitempty"`
	Webhook *webhookTarget `json:"webhook,omitempty"`
	Slack   *webhookTarget `json:"slack,omitempty"`
}

type emailTarget struct {
	Addresses []string `json:"addresses,omitempty" nullable:"false" maxItems:"10"`
	Usernames []string `json:"usernames,omitempty" nullable:"false" maxItems:"10" doc:"Must be empty: give addresses."`
	Recipient string   `json:"recipient_type,omitempty" enum:"addresses"`
}

type webhookTarget struct {
	URL    *string `json:"url,omitempty" minLength:"1" maxLength:"2000" writeOnly:"true" doc:"http or https; where it may lead is as for services."`
	Region *string `json:"region,omitempty" maxLength:"100" doc:"Whose private networks it may lead to."`
}

// change is what control is asked; faults get details of another kind.
func (b channelUpdate) change(kind alert.ChannelKind, faults *fault.Faults) control.ChannelChange {
	in := control.ChannelChange{Label: b.Label}
	if b.Kind != nil {
		in.Kind = new(alert.ChannelKind(*b.Kind))
	}
	if b.Details == nil {
		return in
	}
	for _, d := range []struct {
		kind alert.ChannelKind
		sent bool
	}{{alert.Email, b.Details.Email != nil}, {alert.Webhook, b.Details.Webhook != nil}, {alert.Slack, b.Details.Slack != nil}} {
		if d.sent && kind != "" && d.kind != kind {
			faults.Add("details."+string(d.kind), "Isn't for a channel of type %s", kind)
		}
	}
	if e := b.Details.Email; e != nil {
		in.Addresses = &e.Addresses
		if len(e.Usernames) > 0 {
			faults.Add("details.email.usernames", "Users aren't told by name: give addresses")
		}
	}
	target := b.Details.Webhook
	if kind == alert.Slack {
		target = b.Details.Slack
	}
	if target != nil {
		in.Region = target.Region
		if target.URL != nil {
			in.URL = new(seal.NewSecret(*target.URL))
		}
	}
	return in
}

type channelPath struct {
	ID int64 `path:"channelId" minimum:"1"`
}

type channelAlertsInput struct {
	ID int64 `path:"channelId" minimum:"1"`
	Listing
}

// triedView is what came of a test.
type triedView struct {
	Delivered bool    `json:"delivered"`
	Problem   *string `json:"problem" doc:"Why it wasn't taken; null when it was."`
}

var channelFields = filter.Fields{"id": filter.Number, "label": filter.Text, "channel_type": filter.Text, "type": filter.Text}

func channelMember(c control.ShownChannel, field string) any {
	v := showChannel(c)
	return map[string]any{"id": v.ID, "label": v.Label, "channel_type": v.Kind, "type": v.Type}[field]
}

func (a *API) registerAlertChannels() {
	channels := a.Control.AlertChannels
	const one = channelsPath + "/{channelId}"
	register(a, endpoint{method: http.MethodGet, path: channelsPath, id: "listAlertChannels", summary: "List alert channels", tag: alertTag, scope: readDatabases},
		func(ctx context.Context, c call[Listing, none]) (list[channelView], error) {
			all, err := channels.List(ctx, c.Principal)
			if err != nil {
				return list[channelView]{}, err
			}
			return listInMemory(inMemory[control.ShownChannel]{all, channelFields, channelMember}, c.In, showChannel)
		})
	register(a, endpoint{method: http.MethodPost, path: channelsPath, id: "createAlertChannel", summary: "Create an alert channel", tag: alertTag, scope: writeDatabases, secret: true},
		func(ctx context.Context, c call[none, channelCreate]) (madeChannelView, error) {
			b := channelUpdate{Label: &c.Body.Label, Kind: &c.Body.Kind, Details: &c.Body.Details}
			made, err := channels.Create(ctx, c.Principal, b.change(alert.ChannelKind(c.Body.Kind), &c.Faults), c.Faults)
			return showMadeChannel(made), err
		})
	register(a, endpoint{method: http.MethodGet, path: one, id: "viewAlertChannel", summary: "View an alert channel", tag: alertTag, scope: readDatabases},
		func(ctx context.Context, c call[channelPath, none]) (channelView, error) {
			found, err := channels.View(ctx, c.Principal, alert.ChannelID(c.In.ID))
			return showChannel(found), err
		})
	register(a, endpoint{method: http.MethodPut, path: one, id: "updateAlertChannel", summary: "Update an alert channel; what is left out stays", tag: alertTag, scope: writeDatabases, secret: true},
		func(ctx context.Context, c call[channelPath, channelUpdate]) (madeChannelView, error) {
			before, err := channels.View(ctx, c.Principal, alert.ChannelID(c.In.ID))
			if err != nil {
				return madeChannelView{}, err
			}
			in := c.Body.change(before.Kind, &c.Faults)
			changed, err := channels.Update(ctx, c.Principal, alert.ChannelID(c.In.ID), in, c.Body.Rotate, c.Faults)
			return showMadeChannel(changed), err
		})
	register(a, endpoint{method: http.MethodDelete, path: one, id: "deleteAlertChannel", summary: "Delete an alert channel", tag: alertTag, scope: writeDatabases},
		func(ctx context.Context, c call[channelPath, none]) (empty, error) {
			return empty{}, channels.Delete(ctx, c.Principal, alert.ChannelID(c.In.ID))
		})
	register(a, endpoint{method: http.MethodPost, path: one + "/test", id: "testAlertChannel", summary: "Send a test to an alert channel", tag: alertTag, scope: writeDatabases},
		func(ctx context.Context, c call[channelPath, none]) (triedView, error) {
			problem, err := channels.Try(ctx, c.Principal, alert.ChannelID(c.In.ID))
			return triedView{problem == "", orNull(problem)}, err
		})
	register(a, endpoint{method: http.MethodGet, path: one + "/alerts", id: "listAlertsOfChannel", summary: "List the alert definitions that name a channel", tag: alertTag, scope: readDatabases},
		func(ctx context.Context, c call[channelAlertsInput, none]) (list[alertView], error) {
			if _, err := c.In.query(alertFields); err != nil { // before it is looked for
				return list[alertView]{}, err
			}
			if _, err := channels.View(ctx, c.Principal, alert.ChannelID(c.In.ID)); err != nil {
				return list[alertView]{}, err
			}
			all, err := a.Control.Alerts.List(ctx, c.Principal)
			if err != nil {
				return list[alertView]{}, err
			}
			var naming []control.DefinedAlert
			for _, one := range all {
				for _, channel := range one.Channels {
					if int64(channel.ID) == c.In.ID {
						naming = append(naming, one)
					}
				}
			}
			return listInMemory(inMemory[control.DefinedAlert]{naming, alertFields, alertMember}, c.In.Listing, showAlert)
		})
}
