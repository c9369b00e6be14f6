package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/mail"
	"regexp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/notify/channel"
	"steward/internal/notify/email"
	"steward/internal/notify/outbox"
	"steward/internal/outage"
	"steward/internal/store"
)

// SMTPConfig is how mail leaves. Without a URL nobody is told of anything by mail.
type SMTPConfig struct {
	// URL is a secret: it may hold a password.
	URL    string `koanf:"url"`
	From   string `koanf:"from"`
	CAFile string `koanf:"ca_file"`
	// Hello is how steward introduces itself; empty: this machine's name.
	Hello string `koanf:"hello"`
}

// NotifyConfig names what is told of all that contacts are told of.
type NotifyConfig struct {
	// Channels are shoutrrr URLs by name. They are secrets.
	Channels map[string]string `koanf:"channels"`
}

// channelKey is what the names of channels stand behind in the configuration.
const channelKey = "notify.channels."

var channelName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

func (c Config) validateNotices() []error {
	_, err := c.senders()
	if err == nil && c.SMTP.URL == "" && c.SMTP != (SMTPConfig{}) {
		err = errors.New("smtp.url: is required by the other keys of smtp")
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// senders are the channels of the configuration, or all that is wrong with it.
func (c Config) senders() (map[string]notify.Sender, error) {
	senders := map[string]notify.Sender{}
	var errs []error
	if c.SMTP.URL != "" {
		s, err := email.New(email.Options{URL: c.SMTP.URL, From: c.SMTP.From, CAFile: c.SMTP.CAFile, Hello: c.SMTP.Hello})
		senders[monitor.EmailChannel], errs = s, append(errs, err)
	}
	for _, name := range c.Notify.names() {
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

func (c NotifyConfig) names() []string { return slices.Sorted(maps.Keys(c.Channels)) }

// openNotices makes what sends notices.
func (a *App) openNotices(context.Context) error {
	senders, err := a.o.senders()
	if err != nil {
		return err
	}
	// A name of its own, the same after a restart, tells this server's claims from others'.
	holder, err := readOrMakeToken(a.paths.serverID())
	if err != nil {
		return err
	}
	a.noticeMetrics = newNoticeMetrics(a.store)
	a.notices = outbox.New(outbox.Options{
		Store: a.store, Senders: senders, Holder: holder, OnSent: outage.Told, Ended: a.noticeMetrics.ended, Logger: a.log,
	})
	return nil
}

// tellNotices says in a line for people where notices go.
func (c Config) tellNotices(w io.Writer) {
	if c.SMTP.URL == "" {
		fmt.Fprintln(w, "  mail      no mail server is configured (smtp.url): contacts can't be told of issues")
	} else {
		fmt.Fprintf(w, "  mail      from %s\n", c.SMTP.From)
	}
	for _, name := range c.Notify.names() {
		fmt.Fprintf(w, "  channel   %s\n", name)
	}
}

// noticeMetrics show what waits, when scraped, and count what was tried.
type noticeMetrics struct {
	store           *store.Store
	notices, oldest *prometheus.Desc
	attempts        *prometheus.CounterVec
	delay           prometheus.Histogram
}

func newNoticeMetrics(s *store.Store) *noticeMetrics {
	return &noticeMetrics{
		store:   s,
		notices: prometheus.NewDesc("steward_notices_unsent", "Notices that wait (pending, sending) or couldn't be delivered (failed).", []string{"channel", "state"}, nil),
		oldest:  prometheus.NewDesc("steward_notices_unsent_age_seconds", "For how long the oldest of them has been there.", []string{"channel", "state"}, nil),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "steward_notices_attempts_total", Help: "Attempts of this server to send a notice, by what came of them.",
		}, []string{"channel", "result"}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "steward_notices_delay_seconds", Help: "Time from the commit of what a notice tells of to its acceptance.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 15, 60, 300, 3600},
		}),
	}
}

// ended counts an attempt.
func (m *noticeMetrics) ended(n monitor.Notice) {
	result := string(n.State)
	if n.State == monitor.NoticePending {
		result = "retried"
	}
	m.attempts.WithLabelValues(n.Channel, result).Inc()
	if n.State == monitor.NoticeSent {
		m.delay.Observe(n.Sent.Sub(n.Created).Seconds())
	}
}

// Describe is part of prometheus.Collector.
func (m *noticeMetrics) Describe(d chan<- *prometheus.Desc) {
	d <- m.notices
	d <- m.oldest
	m.attempts.Describe(d)
	m.delay.Describe(d)
}

// Collect is part of prometheus.Collector.
func (m *noticeMetrics) Collect(out chan<- prometheus.Metric) {
	m.attempts.Collect(out)
	m.delay.Collect(out)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	counts, err := m.store.NoticeCounts(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(m.notices, err)
		return
	}
	for _, c := range counts {
		out <- prometheus.MustNewConstMetric(m.notices, prometheus.GaugeValue, float64(c.Notices), c.Channel, string(c.State))
		out <- prometheus.MustNewConstMetric(m.oldest, prometheus.GaugeValue, time.Since(c.Oldest).Seconds(), c.Channel, string(c.State))
	}
}

// Notices are those of all accounts, or those that couldn't be delivered, newest first.
func (x *Access) Notices(ctx context.Context, failed bool) ([]monitor.Notice, error) {
	of := store.NoticeQuery{}
	if failed {
		of.State = monitor.NoticeFailed
	}
	return x.store.Notices(ctx, of)
}

// RetryNotices has a notice tried again at once, or with id 0 all that failed, and
// tells how many.
func (x *Access) RetryNotices(ctx context.Context, id monitor.NoticeID) (retried int, err error) {
	err = x.store.InTx(ctx, func(tx *store.Tx) error {
		retried, err = tx.RetryNotices(ctx, id)
		return err
	})
	if err == nil && retried == 0 && id != 0 {
		err = fmt.Errorf("there is no notice %d that waits or failed: `steward notice list` shows them", id)
	}
	return retried, err
}

// TestNotice sends a message by the configured mail server, or by a channel when
// one is named, and returns why that failed.
func TestNotice(ctx context.Context, c Config, to, channel string) error {
	name := monitor.EmailChannel
	if channel != "" {
		name = channel
	} else if address, err := mail.ParseAddress(to); err != nil || address.Address != to {
		return fmt.Errorf("%q isn't an e-mail address", to)
	}
	senders, err := c.senders()
	if err != nil {
		return err
	}
	n := monitor.Notice{Kind: monitor.NoticeTest, Channel: name, Recipient: to, Created: time.Now(), Content: monitor.Content{Summary: "steward can reach you"}}
	var sender notify.Sender = notify.Missing{}
	if known, ok := senders[name]; ok {
		sender = known
	}
	defer sender.Close()
	return sender.Send(ctx, n, func() error { return nil })
}
