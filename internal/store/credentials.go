package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/monitor"
	"steward/internal/seal"
	"steward/internal/store/dbsqlc"
)

// CredentialFields are what credentials can be filtered and ordered by.
var CredentialFields = filter.Fields{"id": filter.Number, "label": filter.Text}

var credentialColumns = columns{"id": "id", "label": "label"}

// Login is what a credential has in clear; a user name may be "".
type Login struct{ Username, Password seal.Secret }

// DataKey is the key that an account's credentials are sealed with, made at the
// first call. The key service may be slow: ask before a transaction.
func (s *Store) DataKey(ctx context.Context, of account.ID) (seal.Key, error) {
	sealed, err := s.q.AccountKeyGet(ctx, int64(of))
	if fault.IsKind(classify(err), fault.NotFound) {
		sealed, err = s.makeDataKey(ctx, of)
	}
	if err != nil {
		return seal.Key{}, classify(err)
	}
	key, err := s.sealer.Unseal(ctx, sealed, dataKeyPlace(of))
	if err != nil {
		return seal.Key{}, fmt.Errorf("unseal the data key of account %d: %w", of, err)
	}
	return seal.OpenKey(key)
}

// makeDataKey keeps a new key, unless another server was first, and reads what is kept.
func (s *Store) makeDataKey(ctx context.Context, of account.ID) ([]byte, error) {
	key, err := seal.NewKey()
	if err != nil {
		return nil, err
	}
	sealed, err := s.sealer.Seal(ctx, key, dataKeyPlace(of))
	if err != nil {
		return nil, fmt.Errorf("seal the data key of account %d: %w", of, err)
	}
	if err := s.q.AccountKeyCreate(ctx, dbsqlc.AccountKeyCreateParams{AccountID: int64(of), Sealed: sealed, Created: s.now()}); err != nil {
		return nil, err
	}
	return s.q.AccountKeyGet(ctx, int64(of))
}

func dataKeyPlace(of account.ID) string { return fmt.Sprintf("account/%d/data", of) }

func usernamePlace(id monitor.CredentialID) string { return fmt.Sprintf("credential/%d/username", id) }

func passwordPlace(id monitor.CredentialID) string { return fmt.Sprintf("credential/%d/password", id) }

const selectCredential = "SELECT id, account_id, label, last_decrypted, created, updated"

func scanCredential(row pgx.Row, more ...any) (monitor.Credential, error) {
	var c monitor.Credential
	err := row.Scan(append([]any{&c.ID, &c.Account, &c.Label, &c.LastDecrypted, &c.Created, &c.Updated}, more...)...)
	return c, err
}

// CreateCredential adds a credential to c.Account, sealed with the account's key.
func (t *Tx) CreateCredential(ctx context.Context, c monitor.Credential, key seal.Key, login Login) (monitor.Credential, error) {
	id, err := t.q.CredentialID(ctx)
	if err != nil {
		return c, classify(err)
	}
	c.ID, c.Created = monitor.CredentialID(id), t.now()
	c.Updated = c.Created
	return c, classify(t.q.CredentialCreate(ctx, dbsqlc.CredentialCreateParams{
		ID: id, AccountID: int64(c.Account), Label: c.Label, Created: c.Created,
		SealedUsername: sealUsername(key, c.ID, login.Username),
		SealedPassword: key.Seal([]byte(login.Password.Reveal()), passwordPlace(c.ID)),
	}))
}

// sealUsername is nil for "": NULL.
func sealUsername(key seal.Key, id monitor.CredentialID, name seal.Secret) []byte {
	if name.Reveal() == "" {
		return nil
	}
	return key.Seal([]byte(name.Reveal()), usernamePlace(id))
}

// Credential is one of the account's.
func (q queries) Credential(ctx context.Context, in account.ID, id monitor.CredentialID) (monitor.Credential, error) {
	c, err := scanCredential(q.db.QueryRow(ctx, selectCredential+" FROM credentials WHERE account_id = $1 AND id = $2", int64(in), int64(id)))
	return c, classify(err)
}

// LockCredential is Credential, and keeps others from changing it until the
// transaction ends.
func (t *Tx) LockCredential(ctx context.Context, in account.ID, id monitor.CredentialID) (monitor.Credential, error) {
	c, err := scanCredential(t.db.QueryRow(ctx, selectCredential+" FROM credentials WHERE account_id = $1 AND id = $2 FOR UPDATE", int64(in), int64(id)))
	return c, classify(err)
}

// CredentialForWork is a credential whoever owns it.
func (q queries) CredentialForWork(ctx context.Context, id monitor.CredentialID) (monitor.Credential, error) {
	c, err := scanCredential(q.db.QueryRow(ctx, selectCredential+" FROM credentials WHERE id = $1", int64(id)))
	return c, classify(err)
}

// Credentials is one page of the account's, and how many match.
func (q queries) Credentials(ctx context.Context, in account.ID, list ListQuery) ([]monitor.Credential, int, error) {
	l := listing[monitor.Credential]{sqlBuilder: sqlBuilder{columns: credentialColumns}, what: selectCredential, own: "id", scan: scanCredential}
	l.from = "credentials WHERE account_id = " + l.arg(int64(in))
	return l.page(ctx, q.db, list)
}

// CredentialLabelTaken reports whether another of the account's credentials has the label.
func (q queries) CredentialLabelTaken(ctx context.Context, in account.ID, label string, except monitor.CredentialID) (bool, error) {
	taken, err := q.q.CredentialLabelIs(ctx, dbsqlc.CredentialLabelIsParams{AccountID: int64(in), Label: label, Other: int64(except)})
	return taken, classify(err)
}

// RelabelCredential changes what a credential is called.
func (q queries) RelabelCredential(ctx context.Context, c monitor.Credential) (monitor.Credential, error) {
	c.Updated = q.now()
	n, err := q.q.CredentialRelabel(ctx, dbsqlc.CredentialRelabelParams{AccountID: int64(c.Account), ID: int64(c.ID), Label: c.Label, Updated: c.Updated})
	return c, oneRow(n, err)
}

// SetLogin puts a new password in place of the old one, and a new user name
// unless it is nil.
func (t *Tx) SetLogin(ctx context.Context, c monitor.Credential, key seal.Key, username *seal.Secret, password seal.Secret) error {
	of, id, now := int64(c.Account), int64(c.ID), t.now()
	if username != nil {
		sealed := sealUsername(key, c.ID, *username)
		n, err := t.q.CredentialSetUsername(ctx, dbsqlc.CredentialSetUsernameParams{AccountID: of, ID: id, SealedUsername: sealed, Updated: now})
		if err := oneRow(n, err); err != nil {
			return err
		}
	}
	sealed := key.Seal([]byte(password.Reveal()), passwordPlace(c.ID))
	n, err := t.q.CredentialSetPassword(ctx, dbsqlc.CredentialSetPasswordParams{AccountID: of, ID: id, SealedPassword: sealed, Updated: now})
	return oneRow(n, err)
}

// DeleteCredential removes one of the account's credentials, also from the
// services that name it.
func (q queries) DeleteCredential(ctx context.Context, in account.ID, id monitor.CredentialID) error {
	n, err := q.q.CredentialDelete(ctx, int64(in), int64(id))
	return oneRow(n, err)
}

// RevealCredential reads what a credential has in clear, and records who did
// and what for. The caller shows it only after the transaction was committed.
func (t *Tx) RevealCredential(ctx context.Context, r monitor.Reveal, key seal.Key) (Login, error) {
	of, id := int64(r.Account), int64(r.Credential)
	row, err := t.q.CredentialSealed(ctx, of, id)
	if err != nil {
		return Login{}, classify(err)
	}
	login, err := unsealLogin(key, r.Credential, row)
	if err != nil {
		return Login{}, err
	}
	r.Created = t.now()
	n, err := t.q.CredentialDecrypted(ctx, dbsqlc.CredentialDecryptedParams{AccountID: of, ID: id, At: r.Created})
	if err := oneRow(n, err); err != nil {
		return Login{}, err
	}
	err = t.q.RevealCreate(ctx, dbsqlc.RevealCreateParams{
		AccountID: of, CredentialID: id, Label: r.Label, Staff: r.Staff, Purpose: r.Purpose, Created: r.Created,
	})
	return login, classify(err)
}

func unsealLogin(key seal.Key, id monitor.CredentialID, row dbsqlc.CredentialSealedRow) (Login, error) {
	password, err := key.Unseal(row.SealedPassword, passwordPlace(id))
	if err != nil {
		return Login{}, fmt.Errorf("unseal the password of credential %d: %w", id, err)
	}
	var username []byte
	if row.SealedUsername != nil {
		if username, err = key.Unseal(row.SealedUsername, usernamePlace(id)); err != nil {
			return Login{}, fmt.Errorf("unseal the user name of credential %d: %w", id, err)
		}
	}
	return Login{seal.NewSecret(string(username)), seal.NewSecret(string(password))}, nil
}

// Reveals are all readings of credentials of all accounts, oldest first: for
// operators' commands only.
func (q queries) Reveals(ctx context.Context) ([]monitor.Reveal, error) {
	rows, err := q.q.RevealList(ctx)
	all := make([]monitor.Reveal, len(rows))
	for i, r := range rows {
		all[i] = monitor.Reveal{
			Account: account.ID(r.AccountID), Credential: monitor.CredentialID(r.CredentialID), Label: r.Label,
			Staff: r.Staff, Purpose: r.Purpose, Created: r.Created,
		}
	}
	return all, classify(err)
}
