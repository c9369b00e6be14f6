package store

import (
	"context"
	"fmt"

	"steward/internal/account"
	"steward/internal/alert"
	"steward/internal/cluster"
	"steward/internal/seal"
	"steward/internal/store/dbsqlc"
)

// AlertChannels are those that an account made.
func (q queries) AlertChannels(ctx context.Context, of account.ID) ([]alert.Channel, error) {
	rows, err := q.q.ChannelsOf(ctx, int64(of))
	all := make([]alert.Channel, len(rows))
	for i, r := range rows {
		all[i] = toChannel(r)
	}
	return all, classify(err)
}

func toChannel(r dbsqlc.ChannelsOfRow) alert.Channel {
	return alert.Channel{
		ID: alert.ChannelID(r.ID), Label: r.Label, Kind: alert.ChannelKind(r.Kind), Addresses: r.Addresses, Region: r.Region, Shown: r.Shown,
		Created: r.Created, CreatedBy: r.CreatedBy, Updated: r.Updated, UpdatedBy: r.UpdatedBy,
	}
}

// LockAlertChannel is one of the account's, kept from others' changes until the transaction ends.
func (t *Tx) LockAlertChannel(ctx context.Context, of account.ID, id alert.ChannelID) (alert.Channel, error) {
	r, err := t.q.ChannelLock(ctx, int64(of), int64(id))
	return toChannel(dbsqlc.ChannelsOfRow(r)), classify(err)
}

func channelPlace(id alert.ChannelID, what string) string {
	return fmt.Sprintf("alert_channel/%d/%s", id, what)
}

// CreateAlertChannel adds a channel with its URL, and its secret unless that is empty, sealed with the account's key.
func (t *Tx) CreateAlertChannel(ctx context.Context, of account.ID, c alert.Channel, key seal.Key, secret seal.Secret) (alert.Channel, error) {
	id, err := t.q.ChannelID(ctx)
	if err != nil {
		return c, classify(err)
	}
	c.ID, c.Created = alert.ChannelID(id), t.now()
	c.Updated, c.UpdatedBy = c.Created, c.CreatedBy
	return c, classify(t.q.ChannelCreate(ctx, dbsqlc.ChannelCreateParams{
		ID: id, AccountID: int64(of), Label: c.Label, Kind: string(c.Kind), Addresses: append([]string{}, c.Addresses...), Region: c.Region, Shown: c.Shown,
		SealedUrl: sealUnlessEmpty(key, c.URL, channelPlace(c.ID, "url")), SealedSecret: sealUnlessEmpty(key, secret.Reveal(), channelPlace(c.ID, "secret")),
		Created: c.Created, CreatedBy: c.CreatedBy,
	}))
}

func sealUnlessEmpty(key seal.Key, text, place string) []byte {
	if text == "" {
		return nil
	}
	return key.Seal([]byte(text), place)
}

// UpdateAlertChannel writes over a channel; its URL and its secret stay when they are empty.
func (t *Tx) UpdateAlertChannel(ctx context.Context, of account.ID, c alert.Channel, key seal.Key, secret seal.Secret) (alert.Channel, error) {
	c.Updated = t.now()
	return c, oneRow(t.q.ChannelUpdate(ctx, dbsqlc.ChannelUpdateParams{
		AccountID: int64(of), ID: int64(c.ID), Label: c.Label, Addresses: append([]string{}, c.Addresses...), Region: c.Region, Shown: c.Shown,
		SealedUrl: sealUnlessEmpty(key, c.URL, channelPlace(c.ID, "url")), SealedSecret: sealUnlessEmpty(key, secret.Reveal(), channelPlace(c.ID, "secret")),
		Updated: c.Updated, UpdatedBy: c.UpdatedBy,
	}))
}

// DeleteAlertChannel removes a channel, also from the rules that name it.
func (t *Tx) DeleteAlertChannel(ctx context.Context, of account.ID, id alert.ChannelID) error {
	if err := oneRow(t.q.ChannelDelete(ctx, int64(of), int64(id))); err != nil {
		return err
	}
	return classify(t.q.ChannelForget(ctx, int64(id), int64(of)))
}

// AlertTarget is what is requested to tell a channel that isn't of mail.
type AlertTarget struct {
	Kind        alert.ChannelKind
	Region      string
	URL, Secret seal.Secret
}

// AlertTarget is that of one of an account's channels.
func (s *Store) AlertTarget(ctx context.Context, of account.ID, id alert.ChannelID) (AlertTarget, error) {
	r, err := s.q.ChannelSealed(ctx, int64(of), int64(id))
	if err != nil {
		return AlertTarget{}, classify(err)
	}
	t := AlertTarget{Kind: alert.ChannelKind(r.Kind), Region: r.Region}
	key, err := s.DataKey(ctx, of)
	if err != nil {
		return t, err
	}
	for _, part := range []struct {
		name   string
		sealed []byte
		into   *seal.Secret
	}{{"url", r.SealedUrl, &t.URL}, {"secret", r.SealedSecret, &t.Secret}} {
		if part.sealed == nil {
			continue
		}
		text, err := key.Unseal(part.sealed, channelPlace(id, part.name))
		if err != nil {
			return t, fmt.Errorf("unseal the %s of channel %d: %w", part.name, id, err)
		}
		*part.into = seal.NewSecret(string(text))
	}
	return t, nil
}

// AlertEntity is a database that a rule may be for.
type AlertEntity struct {
	alert.Subject
	Label string
}

// AlertEntities are an account's databases.
func (q queries) AlertEntities(ctx context.Context, of account.ID) ([]AlertEntity, error) {
	rows, err := q.q.AlertEntities(ctx, int64(of))
	all := make([]AlertEntity, len(rows))
	for i, r := range rows {
		all[i] = AlertEntity{alert.Subject{ID: cluster.ID(r.ID), Engine: cluster.Engine(r.Engine), Region: r.Region}, r.Label}
	}
	return all, classify(err)
}
