package api

import (
	"context"
	"net/http"

	"steward/internal/control"
	"steward/internal/monitor"
	"steward/internal/store"
)

type phoneView struct {
	Primary   *string `json:"primary"`
	Secondary *string `json:"secondary"`
}

type contactView struct {
	ID      int64     `json:"id"`
	Name    string    `json:"name"`
	Email   string    `json:"email"`
	Group   *string   `json:"group"`
	Phone   phoneView `json:"phone"`
	Updated string    `json:"updated" format:"date-time"`
}

func showContact(c monitor.Contact) contactView {
	return contactView{
		ID: int64(c.ID), Name: c.Name, Email: c.Email, Group: orNull(c.Group),
		Phone: phoneView{orNull(c.Phone.Primary), orNull(c.Phone.Secondary)}, Updated: showTime(c.Updated),
	}
}

// orNull shows "" as null.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// phoneUpdate has the numbers that are to change; null takes one away.
type phoneUpdate struct {
	Primary   optional[string] `json:"primary,omitzero" minLength:"7" maxLength:"32"`
	Secondary optional[string] `json:"secondary,omitzero" minLength:"7" maxLength:"32"`
}

type contactCreate struct {
	Name  string                `json:"name" minLength:"2" maxLength:"64"`
	Email string                `json:"email" minLength:"6" maxLength:"100"`
	Group optional[string]      `json:"group,omitzero" minLength:"2" maxLength:"50"`
	Phone optional[phoneUpdate] `json:"phone,omitzero"`
}

type contactUpdate struct {
	Name  *string               `json:"name,omitempty" minLength:"2" maxLength:"64"`
	Email *string               `json:"email,omitempty" minLength:"6" maxLength:"100"`
	Group optional[string]      `json:"group,omitzero" minLength:"2" maxLength:"50" doc:"null takes the contact out of its group."`
	Phone optional[phoneUpdate] `json:"phone,omitzero" doc:"null takes both numbers away."`
}

func (b contactUpdate) change() control.ContactChange {
	in := control.ContactChange{Name: b.Name, Email: b.Email, Group: b.Group.orZero()}
	switch {
	case b.Phone.value != nil:
		in.Primary, in.Secondary = b.Phone.value.Primary.orZero(), b.Phone.value.Secondary.orZero()
	case b.Phone.sent:
		in.Primary, in.Secondary = new(""), new("")
	}
	return in
}

type contactPath struct {
	ID int64 `path:"contactId" minimum:"1"`
}

func (a *API) registerContacts() {
	contacts := a.Control.Contacts
	const all, one, tag = "/v4/managed/contacts", "/v4/managed/contacts/{contactId}", "Contacts"
	registerList(a, endpoint{method: http.MethodGet, path: all, id: "listContacts", summary: "List contacts", tag: tag, scope: readAccount},
		store.ContactFields, contacts.List, showContact)
	register(a, endpoint{method: http.MethodPost, path: all, id: "createContact", summary: "Create a contact", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[none, contactCreate]) (contactView, error) {
			in := contactUpdate{Name: &c.Body.Name, Email: &c.Body.Email, Group: c.Body.Group, Phone: c.Body.Phone}
			made, err := contacts.Create(ctx, c.Principal, in.change(), c.Faults)
			return showContact(made), err
		})
	register(a, endpoint{method: http.MethodGet, path: one, id: "viewContact", summary: "View a contact", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[contactPath, none]) (contactView, error) {
			found, err := contacts.View(ctx, c.Principal, monitor.ContactID(c.In.ID))
			return showContact(found), err
		})
	register(a, endpoint{method: http.MethodPut, path: one, id: "updateContact", summary: "Update a contact; what is left out stays", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[contactPath, contactUpdate]) (contactView, error) {
			changed, err := contacts.Update(ctx, c.Principal, monitor.ContactID(c.In.ID), c.Body.change(), c.Faults)
			return showContact(changed), err
		})
	register(a, endpoint{method: http.MethodDelete, path: one, id: "deleteContact", summary: "Delete a contact", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[contactPath, none]) (empty, error) {
			return empty{}, contacts.Delete(ctx, c.Principal, monitor.ContactID(c.In.ID))
		})
}
