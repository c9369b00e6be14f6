// Package hook sends notices to the webhooks and chats that accounts have set up. Where one leads is judged as where checks go
// is, in the moment of connecting.
package hook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"steward/internal/account"
	"steward/internal/alert"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/probe"
	"steward/internal/store"
)

// The headers of a webhook's requests.
const (
	// TimestampHeader is when it was sent, in seconds since 1970.
	TimestampHeader = "X-Steward-Timestamp"
	// SignatureHeader is "v1=" and HMAC-SHA256, in hex, of the timestamp, a dot and the body, with the channel's secret.
	SignatureHeader = "X-Steward-Signature"
	// DeliveryHeader is the same for the same notice, however often it is sent.
	DeliveryHeader = "X-Steward-Delivery"
)

// patience is how long the other side may take in all.
const patience = 10 * time.Second

// Poster posts by the rules of checks.
type Poster interface {
	Post(ctx context.Context, t probe.Target, r probe.Request) (monitor.Result, error)
}

// Targets are where accounts' channels lead.
type Targets interface {
	AlertTarget(ctx context.Context, of account.ID, id alert.ChannelID) (store.AlertTarget, error)
}

// Sender implements notify.Sender.
type Sender struct {
	Poster  Poster
	Targets Targets
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

var _ notify.Sender = (*Sender)(nil)

// Send implements notify.Sender. What a receiver refuses is tried again for as long as notices are: it may be mended. Only what is
// gone for good isn't.
func (s *Sender) Send(ctx context.Context, n monitor.Notice, mayHandOver func() error) error {
	id, err := strconv.ParseInt(n.Recipient, 10, 64)
	if err != nil {
		return &notify.Error{Problem: "The notice names no channel.", Permanent: true}
	}
	target, err := s.Targets.AlertTarget(ctx, n.Account, alert.ChannelID(id))
	if fault.IsKind(err, fault.NotFound) {
		return &notify.Error{Problem: "The channel was deleted.", Permanent: true}
	}
	if err != nil {
		return fmt.Errorf("look up channel %d: %w", id, err)
	}
	result, err := s.post(ctx, target, n, mayHandOver)
	if err != nil {
		return err
	}
	if result.Class == monitor.Inconclusive && ctx.Err() != nil {
		return ctx.Err()
	}
	if result.Class != monitor.OK {
		return &notify.Error{Problem: result.Detail, Permanent: result.Status == http.StatusGone}
	}
	return nil
}

func (s *Sender) post(ctx context.Context, target store.AlertTarget, n monitor.Notice, mayHandOver func() error) (monitor.Result, error) {
	address, err := monitor.ParseAddress(monitor.URL, target.URL.Reveal())
	if err != nil {
		return monitor.Result{}, &notify.Error{Problem: "The channel's URL isn't one.", Permanent: true}
	}
	body, err := encode(target.Kind, n)
	if err != nil {
		return monitor.Result{}, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if target.Kind == alert.Webhook {
		now := time.Now
		if s.Now != nil {
			now = s.Now
		}
		stamp := strconv.FormatInt(now().Unix(), 10)
		header.Set(TimestampHeader, stamp)
		header.Set(SignatureHeader, Sign(target.Secret.Reveal(), stamp, body))
		header.Set(DeliveryHeader, strconv.FormatInt(int64(n.ID), 10))
	}
	return s.Poster.Post(ctx, probe.Target{Address: address, Timeout: patience, Region: target.Region}, probe.Request{Header: header, Body: body, Before: mayHandOver})
}

// Sign is a request's signature.
func Sign(secret, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}

// Message is what a webhook gets.
type Message struct {
	ID      int64              `json:"id"`
	Kind    monitor.NoticeKind `json:"kind"`
	Summary string             `json:"summary"`
	About   string             `json:"about"`
	Subject string             `json:"subject"`
	Text    string             `json:"text"`
	Issue   int64              `json:"issue"`
	Ticket  int64              `json:"ticket"`
	Opened  *time.Time         `json:"opened"`
	Closed  *time.Time         `json:"closed"`
}

func encode(kind alert.ChannelKind, n monitor.Notice) ([]byte, error) {
	letter := n.Letter()
	var message any = map[string]string{"text": letter.Subject + "\n" + letter.Text()}
	if kind == alert.Webhook {
		m := Message{
			ID: int64(n.ID), Kind: n.Kind, Summary: n.Content.Summary, About: n.Content.About, Subject: letter.Subject, Text: letter.Text(),
			Issue: int64(n.Issue), Ticket: int64(n.Content.Ticket), Closed: n.Content.Closed,
		}
		if !n.Content.Opened.IsZero() {
			m.Opened = &n.Content.Opened
		}
		message = m
	}
	body, err := json.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode notice %d: %w", n.ID, err)
	}
	return body, nil
}

// Close implements notify.Sender: no connection is kept.
func (s *Sender) Close() {}
