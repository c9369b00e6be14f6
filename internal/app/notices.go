package app

import (
	"context"
	"fmt"
	"io"

	"steward/internal/datadir"
	"steward/internal/metrics"
	"steward/internal/monitor"
	"steward/internal/notify/hook"
	"steward/internal/notify/outbox"
	"steward/internal/outage"
)

// openNotices makes what sends notices.
func (a *App) openNotices(context.Context) error {
	senders, err := a.o.Senders()
	if err != nil {
		return err
	}
	senders[monitor.AccountChannel] = &hook.Sender{Poster: a.prober, Targets: a.store}
	a.senders = senders
	// A name of its own, the same after a restart, tells this server's claims from others'.
	holder, err := datadir.ReadOrMakeToken(a.dir.ServerID())
	if err != nil {
		return err
	}
	a.noticeMetrics = metrics.NewNotices(a.store)
	a.notices = outbox.New(outbox.Options{
		Store: a.store, Senders: senders, Holder: holder, OnSent: outage.Told, Ended: a.noticeMetrics.Ended, Logger: a.log,
	})
	return nil
}

// tellNotices says in a line for people where notices go.
func (o Options) tellNotices(w io.Writer) {
	if o.SMTP.URL == "" {
		fmt.Fprintln(w, "  mail      no mail server is configured (smtp.url): contacts can't be told of issues")
	} else {
		fmt.Fprintf(w, "  mail      from %s\n", o.SMTP.From)
	}
	for _, name := range o.Notify.ChannelNames() {
		fmt.Fprintf(w, "  channel   %s\n", name)
	}
}
