package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/notify/channel"
	"steward/internal/notify/email"
)

// SMTP is how mail leaves. Without a URL nobody is told of anything by mail.
type SMTP struct {
	// URL is a secret: it may hold a password.
	URL    string `koanf:"url"`
	From   string `koanf:"from"`
	CAFile string `koanf:"ca_file"`
	// Hello is how steward introduces itself; empty: this machine's name.
	Hello string `koanf:"hello"`
}

// Notify names what is told of all that contacts are told of.
type Notify struct {
	// Channels are shoutrrr URLs by name. They are secrets.
	Channels map[string]string `koanf:"channels"`
}

// channelKey is what the names of channels stand behind in the configuration.
const channelKey = "notify.channels."

var channelName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

func (c Config) validateNotices() []error {
	_, err := c.Senders()
	if err == nil && c.SMTP.URL == "" && c.SMTP != (SMTP{}) {
		err = errors.New("smtp.url: is required by the other keys of smtp")
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// Senders are the channels of the configuration, or all that is wrong with it.
func (c Config) Senders() (map[string]notify.Sender, error) {
	senders := map[string]notify.Sender{}
	var errs []error
	if c.SMTP.URL != "" {
		s, err := email.New(email.Options{URL: c.SMTP.URL, From: c.SMTP.From, CAFile: c.SMTP.CAFile, Hello: c.SMTP.Hello})
		senders[monitor.EmailChannel], errs = s, append(errs, err)
	}
	for _, name := range c.Notify.ChannelNames() {
		if !channelName.MatchString(name) || name == monitor.EmailChannel {
			errs = append(errs, fmt.Errorf("%s%s: a channel's name is of small letters, digits, - and _, and not %s", channelKey, name, monitor.EmailChannel))
			continue
		}
		s, err := channel.New(c.Notify.Channels[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s%s %w", channelKey, name, err))
		}
		senders[name] = s
	}
	return senders, errors.Join(errs...)
}

// ChannelNames are those of the channels, sorted.
func (c Notify) ChannelNames() []string { return slices.Sorted(maps.Keys(c.Channels)) }
