package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/filter"
	"steward/internal/monitor"
	"steward/internal/store/dbsqlc"
)

// ContactFields are what contacts can be filtered and ordered by.
var ContactFields = filter.Fields{"id": filter.Number, "name": filter.Text, "email": filter.Text, "group": filter.Text}

var contactColumns = columns{"id": "id", "name": "name", "email": "email", "group": "group_name"}

const selectContact = `SELECT id, account_id, name, email, coalesce(group_name, ''), coalesce(phone_primary, ''), coalesce(phone_secondary, ''),
	created, updated`

func scanContact(row pgx.Row, more ...any) (monitor.Contact, error) {
	var c monitor.Contact
	err := row.Scan(append([]any{
		&c.ID, &c.Account, &c.Name, &c.Email, &c.Group, &c.Phone.Primary, &c.Phone.Secondary, &c.Created, &c.Updated,
	}, more...)...)
	return c, err
}

// CreateContact adds a contact to c.Account.
func (q queries) CreateContact(ctx context.Context, c monitor.Contact) (monitor.Contact, error) {
	c.Created = q.now()
	c.Updated = c.Created
	id, err := q.q.ContactCreate(ctx, dbsqlc.ContactCreateParams{
		AccountID: int64(c.Account), Name: c.Name, Email: c.Email, GroupName: c.Group,
		PhonePrimary: c.Phone.Primary, PhoneSecondary: c.Phone.Secondary, Created: c.Created,
	})
	c.ID = monitor.ContactID(id)
	return c, classify(err)
}

// Contact is one of the account's.
func (q queries) Contact(ctx context.Context, in account.ID, id monitor.ContactID) (monitor.Contact, error) {
	c, err := scanContact(q.db.QueryRow(ctx, selectContact+" FROM contacts WHERE account_id = $1 AND id = $2", int64(in), int64(id)))
	return c, classify(err)
}

// LockContact is Contact, and keeps others from changing it until the
// transaction ends.
func (t *Tx) LockContact(ctx context.Context, in account.ID, id monitor.ContactID) (monitor.Contact, error) {
	c, err := scanContact(t.db.QueryRow(ctx, selectContact+" FROM contacts WHERE account_id = $1 AND id = $2 FOR UPDATE", int64(in), int64(id)))
	return c, classify(err)
}

// Contacts is one page of the account's, and how many match.
func (q queries) Contacts(ctx context.Context, in account.ID, list ListQuery) ([]monitor.Contact, int, error) {
	l := listing[monitor.Contact]{sqlBuilder: sqlBuilder{columns: contactColumns}, what: selectContact, own: "id", scan: scanContact}
	l.from = "contacts WHERE account_id = " + l.arg(int64(in))
	return l.page(ctx, q.db, list)
}

// ContactsOfGroup are all of the account's contacts in a group, or of the
// account when it is "".
func (q queries) ContactsOfGroup(ctx context.Context, in account.ID, group string) ([]monitor.Contact, error) {
	return collect(ctx, q.db, scanContact, selectContact+" FROM contacts WHERE account_id = $1 AND ($2 = '' OR group_name = $2) ORDER BY id", int64(in), group)
}

// UpdateContact writes all of a contact but whose it is, and sets its time.
func (q queries) UpdateContact(ctx context.Context, c monitor.Contact) (monitor.Contact, error) {
	c.Updated = q.now()
	n, err := q.q.ContactUpdate(ctx, dbsqlc.ContactUpdateParams{
		AccountID: int64(c.Account), ID: int64(c.ID), Name: c.Name, Email: c.Email, GroupName: c.Group,
		PhonePrimary: c.Phone.Primary, PhoneSecondary: c.Phone.Secondary, Updated: c.Updated,
	})
	return c, oneRow(n, err)
}

// DeleteContact removes one of the account's contacts.
func (q queries) DeleteContact(ctx context.Context, in account.ID, id monitor.ContactID) error {
	n, err := q.q.ContactDelete(ctx, int64(in), int64(id))
	return oneRow(n, err)
}
