package control

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"steward/internal/account"
	"steward/internal/alert"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/operation"
	"steward/internal/seal"
	"steward/internal/store"
)

// AlertChannels are the use cases of where an account has its alerts told. All of them are for unrestricted users.
type AlertChannels struct {
	Deps

	mu sync.Mutex
	// tried is when a channel was last tried out.
	tried map[alert.ChannelID]time.Time
}

// ChannelChange is what a channel is made of or changed to; nil members stay.
type ChannelChange struct {
	Label     *string
	Kind      *alert.ChannelKind
	Addresses *[]string
	URL       *seal.Secret
	Region    *string
}

// ShownChannel is a channel with how many rules name it, and its secret when it has just been made.
type ShownChannel struct {
	alert.Channel
	Rules  int
	Secret seal.Secret
}

func channelEntity(c alert.Channel) operation.Entity {
	return operation.Entity{Type: operation.Channel, ID: int64(c.ID)}
}

// apply is the channel after the change, and what is wrong with it.
func (s *AlertChannels) apply(in ChannelChange, c alert.Channel) (alert.Channel, fault.Faults) {
	c.Label, c.Kind, c.Addresses, c.Region = changed(in.Label, c.Label), changed(in.Kind, c.Kind), once(changed(in.Addresses, c.Addresses)), changed(in.Region, c.Region)
	faults := c.Validate()
	if c.Kind == alert.Email || faults.Name("channel_type") {
		return c, faults
	}
	field := "details." + string(c.Kind) + "."
	if in.URL == nil && c.Shown == "" {
		return c, append(faults, fault.Required(field+"url"))
	}
	if in.URL == nil {
		if in.Region != nil {
			faults.Add(field+"region", "Can only be changed together with the URL")
		}
		return c, faults
	}
	c.URL = in.URL.Reveal()
	address, wrong := c.Destination()
	if len(wrong) > 0 {
		return c, append(faults, wrong...)
	}
	c.Shown = alert.ShownURL(c.Kind, c.URL)
	for _, f := range s.Networks.ValidateDestination(address, &c.Region) {
		name := field + "url"
		if f.Field == "region" {
			name = field + "region"
		}
		faults.Add(name, "%s", f.Reason)
	}
	return c, faults
}

// List are the account's channels, that of its contacts first.
func (s *AlertChannels) List(ctx context.Context, p account.Principal) ([]ShownChannel, error) {
	if err := unrestricted(p); err != nil {
		return nil, err
	}
	own, err := s.Store.AlertChannels(ctx, p.Account)
	if err != nil {
		return nil, err
	}
	rules, err := s.Store.AlertRules(ctx, p.Account)
	if err != nil {
		return nil, err
	}
	var all []ShownChannel
	for _, c := range append([]alert.Channel{alert.ContactsChannel()}, own...) {
		shown := ShownChannel{Channel: c}
		for _, r := range alert.Effective(rules) {
			if slices.Contains(r.Channels, c.ID) {
				shown.Rules++
			}
		}
		all = append(all, shown)
	}
	return all, nil
}

// View is one of them.
func (s *AlertChannels) View(ctx context.Context, p account.Principal, id alert.ChannelID) (ShownChannel, error) {
	all, err := s.List(ctx, p)
	if err != nil {
		return ShownChannel{}, err
	}
	for _, c := range all {
		if c.ID == id {
			return c, nil
		}
	}
	return ShownChannel{}, fault.NewNotFound()
}

// Create adds a channel. The secret that a webhook's requests are signed with is shown this once.
func (s *AlertChannels) Create(ctx context.Context, p account.Principal, in ChannelChange, faults fault.Faults) (ShownChannel, error) {
	if err := unrestricted(p); err != nil {
		return ShownChannel{}, err
	}
	c, found := s.apply(in, alert.Channel{CreatedBy: p.User.Username})
	if err := combine(faults, found).Err(); err != nil {
		return ShownChannel{}, err
	}
	shown := ShownChannel{}
	if c.Kind == alert.Webhook {
		shown.Secret = seal.NewSecret(rand.Text() + rand.Text())
	}
	key, err := s.Store.DataKey(ctx, p.Account)
	if err != nil {
		return shown, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.LockIssues(ctx, p.Account); err != nil {
			return err
		}
		own, err := tx.AlertChannels(ctx, p.Account)
		if err != nil {
			return err
		}
		if len(own) >= alert.MostChannels {
			return fault.NewPrecondition("An account can have %d alert channels: delete one first", alert.MostChannels)
		}
		if shown.Channel, err = tx.CreateAlertChannel(ctx, p.Account, c, key, shown.Secret); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.ChannelCreate, channelEntity(shown.Channel), c.Label)
	})
	return shown, err
}

// fixedChannel is the refusal to change the channel that each account has.
func fixedChannel(id alert.ChannelID) error {
	if id == alert.Contacts {
		return fault.NewPrecondition("This channel is the account's contacts: change these")
	}
	return nil
}

// Update changes a channel; fresh gives a webhook another secret, which is shown this once.
func (s *AlertChannels) Update(ctx context.Context, p account.Principal, id alert.ChannelID, in ChannelChange, fresh bool, faults fault.Faults) (ShownChannel, error) {
	if err := errors.Join(unrestricted(p), fixedChannel(id)); err != nil {
		return ShownChannel{}, err
	}
	before, err := s.View(ctx, p, id)
	if err != nil {
		return before, err
	}
	key, err := s.Store.DataKey(ctx, p.Account)
	if err != nil {
		return before, err
	}
	shown := ShownChannel{Rules: before.Rules}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		before, err := tx.LockAlertChannel(ctx, p.Account, id)
		if err != nil {
			return err
		}
		c, found := s.apply(in, before)
		if c.Kind != before.Kind {
			found.Add("channel_type", "Can't be changed: make another channel")
		}
		if fresh && before.Kind != alert.Webhook {
			found.Add("rotate_secret", "Only webhooks have a secret")
		}
		if err := combine(faults, found).Err(); err != nil {
			return err
		}
		if fresh {
			shown.Secret = seal.NewSecret(rand.Text() + rand.Text())
		}
		c.UpdatedBy = p.User.Username
		if shown.Channel, err = tx.UpdateAlertChannel(ctx, p.Account, c, key, shown.Secret); err != nil {
			return err
		}
		return s.tell(ctx, tx, p, operation.ChannelUpdate, channelEntity(c), c.Label)
	})
	return shown, err
}

// Delete removes a channel, also from the rules that name it. What waits to be told there is given up.
func (s *AlertChannels) Delete(ctx context.Context, p account.Principal, id alert.ChannelID) error {
	if err := errors.Join(unrestricted(p), fixedChannel(id)); err != nil {
		return err
	}
	return unrestrictedDelete(ctx, s.Deps, p, id, operation.ChannelDelete, (*store.Tx).LockAlertChannel, (*store.Tx).DeleteAlertChannel, func(c alert.Channel) (operation.Entity, string) {
		return channelEntity(c), c.Label
	})
}

const (
	// tryPause keeps who tries channels out from flooding those who are told.
	tryPause = time.Minute
	// tryTime bounds a test.
	tryTime = 20 * time.Second
)

// Try sends a test to a channel, and tells what came of it: "" when it was taken.
func (s *AlertChannels) Try(ctx context.Context, p account.Principal, id alert.ChannelID) (problem string, err error) {
	if err := errors.Join(unrestricted(p), fixedChannel(id)); err != nil {
		return "", err
	}
	c, err := s.View(ctx, p, id)
	if err != nil {
		return "", err
	}
	if !s.mayTry(id) {
		return "", fault.NewPrecondition("A test was sent to this channel within the last minute")
	}
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	n := monitor.Notice{
		Account: p.Account, Kind: monitor.NoticeTest, Name: c.Label, Channel: monitor.AccountChannel, Recipient: strconv.FormatInt(int64(id), 10),
		Content: monitor.Content{Summary: "This is a test of the channel " + c.Label + "."}, Created: s.Now(),
	}
	recipients := []string{n.Recipient}
	if c.Kind == alert.Email {
		n.Channel, recipients = monitor.EmailChannel, c.Addresses
	}
	for _, to := range recipients {
		n.Recipient = to
		if problem := s.send(ctx, n); problem != "" {
			return problem, nil
		}
	}
	return "", nil
}

func (s *AlertChannels) send(ctx context.Context, n monitor.Notice) (problem string) {
	sender := s.Senders[n.Channel]
	if sender == nil {
		return "No mail server is configured: ask the operator."
	}
	err := sender.Send(ctx, n, func() error { return nil })
	switch {
	case err == nil:
		return ""
	case n.Channel == monitor.AccountChannel:
		return notify.AsError(err).Problem
	}
	s.Logger.WarnContext(ctx, "a test of a mail channel isn't sent", "account_id", n.Account, "error", err)
	return "The mail server didn't take it for " + n.Recipient + "." // what it said may name machines of the house
}

// mayTry reports whether a channel may be tried out now, and notes it.
func (s *AlertChannels) mayTry(id alert.ChannelID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	for other, at := range s.tried {
		if now.Sub(at) >= tryPause {
			delete(s.tried, other)
		}
	}
	if _, lately := s.tried[id]; lately {
		return false
	}
	if s.tried == nil {
		s.tried = map[alert.ChannelID]time.Time{}
	}
	s.tried[id] = now
	return true
}
