package client

import (
	"context"
	"fmt"
	"net/http"
)

const contacts = "/v4/managed/contacts"

// Contact is a person who is told of issues. Group and numbers are "" where
// there is none.
type Contact struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Email   string `json:"email"`
	Group   string `json:"group"`
	Phone   Phone  `json:"phone"`
	Updated string `json:"updated"`
}

// Phone is a contact's numbers.
type Phone struct {
	Primary   string `json:"primary"`
	Secondary string `json:"secondary"`
}

// ContactChange is what a contact is made of or changed to. nil fields stay as
// they are; "" takes group and numbers away.
type ContactChange struct {
	Name      *string
	Email     *string
	Group     *string
	Primary   *string
	Secondary *string
}

// body has the members that are set, null for what is taken away.
func (in ContactChange) body() map[string]any {
	body, phone := map[string]any{}, map[string]any{}
	set := func(in map[string]any, name string, text *string, clear bool) {
		switch {
		case text == nil:
		case *text == "" && clear:
			in[name] = nil
		default:
			in[name] = *text
		}
	}
	set(body, "name", in.Name, false)
	set(body, "email", in.Email, false)
	set(body, "group", in.Group, true)
	set(phone, "primary", in.Primary, true)
	set(phone, "secondary", in.Secondary, true)
	if len(phone) > 0 {
		body["phone"] = phone
	}
	return body
}

func (c Contact) path() string { return fmt.Sprintf("%s/%d", contacts, c.ID) }

// Contacts are all of the account's.
func (c *Client) Contacts(ctx context.Context) ([]Contact, error) {
	return list[Contact](ctx, c, contacts, 0)
}

// FindContact looks a contact up by id, e-mail address or name, which must be
// one contact's alone.
func (c *Client) FindContact(ctx context.Context, text string) (Contact, error) {
	return find(ctx, c.Contacts, "contact", text, func(one Contact) (int64, []string) { return one.ID, []string{one.Email, one.Name} })
}

// CreateContact adds a contact.
func (c *Client) CreateContact(ctx context.Context, in ContactChange) (Contact, error) {
	return ask[Contact](ctx, c, http.MethodPost, contacts, in.body())
}

// UpdateContact changes a contact.
func (c *Client) UpdateContact(ctx context.Context, one Contact, in ContactChange) (Contact, error) {
	return ask[Contact](ctx, c, http.MethodPut, one.path(), in.body())
}

// DeleteContact removes a contact.
func (c *Client) DeleteContact(ctx context.Context, one Contact) error {
	return c.do(ctx, http.MethodDelete, one.path(), nil, nil)
}
