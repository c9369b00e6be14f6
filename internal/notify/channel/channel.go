// Package channel sends notices to the operator's chats and webhooks, by shoutrrr
// URLs. Such a URL is a secret: it is never part of an error or a log line.
package channel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"

	"steward/internal/monitor"
	"steward/internal/notify"
)

const (
	// patience is how long the other side may take.
	patience = 30 * time.Second
	// lastTime is how long an answer is waited for when steward stops.
	lastTime = 5 * time.Second
	// atOnce bounds the requests that hang: shoutrrr's can't be called off.
	atOnce = 8
)

// Sender sends to one channel.
type Sender struct {
	url      string
	patience time.Duration
	slots    chan struct{}
}

var _ notify.Sender = (*Sender)(nil)

// New checks the URL as far as that goes without connecting.
func New(url string) (*Sender, error) {
	r := router.ServiceRouter{}
	scheme, parsed, err := r.ExtractServiceName(url)
	switch {
	case err != nil:
		return nil, errors.New("isn't a URL")
	case !slices.Contains(r.ListServices(), strings.ToLower(scheme)):
		return nil, fmt.Errorf("must be a shoutrrr URL, such as ntfy://… or generic+https://…; %q is no service that shoutrrr knows", scheme)
	}
	// A matrix user logs in when the service is made.
	if scheme != "matrix" || parsed.User == nil || parsed.User.Username() == "" {
		if _, err := r.Locate(url); err != nil {
			return nil, fmt.Errorf("is no complete URL of %s: see shoutrrr's documentation", scheme)
		}
	}
	return &Sender{url: url, patience: patience, slots: make(chan struct{}, atOnce)}, nil
}

// Send implements notify.Sender. Whatever goes wrong is tried again: what a channel
// refuses today is for its operator to mend.
func (s *Sender) Send(ctx context.Context, n monitor.Notice, mayHandOver func() error) error {
	select {
	case s.slots <- struct{}{}:
	default:
		return &notify.Error{Problem: "The channel hasn't answered for a while.", Down: true}
	}
	letter := n.Letter()
	text := letter.Subject + "\n\n" + letter.Text()
	if err := mayHandOver(); err != nil {
		<-s.slots
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.slots }()
		done <- s.post(text)
	}()
	late := time.After(s.patience)
	select {
	case err := <-done:
		return problem(err)
	case <-ctx.Done(): // steward stops: a moment for the answer
		late = time.After(lastTime)
	case <-late:
		return &notify.Error{Problem: "The channel doesn't answer in time.", Down: true}
	}
	select {
	case err := <-done:
		return problem(err)
	case <-late:
		return ctx.Err()
	}
}

// post hands the text over to a service of its own: shoutrrr's aren't all made to be
// used by two at once.
func (s *Sender) post(text string) error {
	service, err := (&router.ServiceRouter{}).Locate(s.url)
	if err != nil {
		return err
	}
	return service.Send(text, nil)
}

// Close does nothing: no connection is kept.
func (s *Sender) Close() {}

// statusLine finds an HTTP status in the words of an error.
var statusLine = regexp.MustCompile(`\b([45]\d\d) [A-Z]`)

// problem is an error without the URL that it may name.
func problem(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if found := statusLine.FindStringSubmatch(text); found != nil {
		if code, _ := strconv.Atoi(found[1]); http.StatusText(code) != "" {
			return &notify.Error{Problem: fmt.Sprintf("The channel answered %d %s.", code, http.StatusText(code)), Down: true}
		}
	}
	for _, known := range []struct{ part, words string }{
		{"connection refused", "refuses connections"},
		{"no such host", "has a name that isn't known"},
		{"certificate", "has no valid certificate"},
		{"timeout", "doesn't answer in time"},
		{"EOF", "ended the connection"},
		{"connection reset", "ended the connection"},
	} {
		if strings.Contains(text, known.part) {
			return &notify.Error{Problem: "The channel " + known.words + ".", Down: true}
		}
	}
	return &notify.Error{Problem: "The channel refused it.", Down: true}
}
