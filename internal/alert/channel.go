package alert

import (
	"net/url"
	"slices"
	"time"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/monitor"
)

// ChannelID identifies where an account has its alerts told. Those of accounts begin at FirstOwnChannel.
type ChannelID int64

// Contacts is the channel that each account has: mail to all of its contacts.
const Contacts ChannelID = 1

// FirstOwnChannel is the least id of a channel that an account made.
const FirstOwnChannel ChannelID = 1000

// ChannelKind is how a channel tells.
type ChannelKind string

// The kinds. Slack is whatever takes {"text": …} at a URL, as Slack, Mattermost and Rocket.Chat do.
const (
	Email   ChannelKind = "email"
	Webhook ChannelKind = "webhook"
	Slack   ChannelKind = "slack"
)

// ChannelKinds are all of them.
var ChannelKinds = []ChannelKind{Email, Webhook, Slack}

// Channel is where an account has its alerts told.
type Channel struct {
	ID    ChannelID
	Label string
	Kind  ChannelKind
	// Addresses are of mail.
	Addresses []string
	// URL is what is requested. It is known while the channel is made or changed only; Shown is what of it is no secret.
	URL, Shown string
	// Region lets it reach that region's private networks; "" for none.
	Region string

	Created, Updated     time.Time
	CreatedBy, UpdatedBy string
}

// ContactsChannel is the one that each account has.
func ContactsChannel() Channel {
	return Channel{ID: Contacts, Label: "Contacts", Kind: Email, CreatedBy: "system", UpdatedBy: "system"}
}

const (
	// MostChannels is how many an account may have.
	MostChannels  = 50
	mostAddresses = 10
)

// Validate finds everything that is wrong with a channel, by itself. The URL is judged where it isn't "".
func (c Channel) Validate() fault.Faults {
	faults := text("label", c.Label, 1, mostLabel)
	if !slices.Contains(ChannelKinds, c.Kind) {
		return append(faults, fault.OneOf("channel_type", ChannelKinds...))
	}
	if c.Kind == Email {
		if n := len(c.Addresses); n < 1 || n > mostAddresses {
			faults.Add("details.email.addresses", "Must have 1-%d items", mostAddresses)
		}
		for _, a := range c.Addresses {
			if !account.IsEmail(a) || len(a) > 100 {
				faults.Add("details.email.addresses", "Must be e-mail addresses")
				break
			}
		}
	}
	return faults
}

// Destination is where a URL leads, or what is wrong with it.
func (c Channel) Destination() (monitor.Address, fault.Faults) {
	field := "details." + string(c.Kind) + ".url"
	a, err := monitor.ParseAddress(monitor.URL, c.URL)
	var faults fault.Faults
	if found, ok := fault.All(err); ok {
		for _, f := range found {
			faults.Add(field, "%s", f.Reason)
		}
	}
	return a, faults
}

// ShownURL is what of a URL is no secret: a chat's has its token in the path, a webhook's may have one in its query.
func ShownURL(kind ChannelKind, text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	if kind == Slack {
		return u.Scheme + "://" + u.Host + "/…"
	}
	return monitor.BareAddress(text)
}
