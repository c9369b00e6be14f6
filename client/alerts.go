package client

import (
	"context"
	"fmt"
	"net/http"
)

const (
	alertDefinitions = "/v4/monitor/services/dbaas/alert-definitions"
	alertChannels    = "/v4/monitor/alert-channels"
)

// AlertDefinition is a rule that databases are judged by. Created and Updated are "" of a system one that is as it was made.
type AlertDefinition struct {
	ID            int64            `json:"id"`
	Label         string           `json:"label"`
	Description   string           `json:"description"`
	Severity      int              `json:"severity"`
	Type          string           `json:"type"`
	Status        string           `json:"status"`
	RuleCriteria  AlertCriteria    `json:"rule_criteria"`
	Trigger       AlertTrigger     `json:"trigger_conditions"`
	AlertChannels []AlertRecipient `json:"alert_channels"`
	Scope         string           `json:"scope"`
	Regions       []string         `json:"regions"`
	EntityIDs     []string         `json:"entity_ids"`
	Created       string           `json:"created"`
	Updated       string           `json:"updated"`
}

// AlertCriteria are the rules that must all hold.
type AlertCriteria struct {
	Rules []AlertRule `json:"rules"`
}

// AlertRule is what must hold of one metric.
type AlertRule struct {
	Metric    string        `json:"metric"`
	Aggregate string        `json:"aggregate_function"`
	Operator  string        `json:"operator"`
	Threshold float64       `json:"threshold"`
	Filters   []AlertFilter `json:"dimension_filters,omitempty"`
}

// AlertFilter picks nodes.
type AlertFilter struct {
	Dimension string `json:"dimension_label"`
	Operator  string `json:"operator"`
	Value     string `json:"value"`
}

// AlertTrigger is when what holds is an alert; times are in seconds.
type AlertTrigger struct {
	Condition   string `json:"criteria_condition"`
	Period      int    `json:"evaluation_period_seconds"`
	Polling     int    `json:"polling_interval_seconds"`
	Occurrences int    `json:"trigger_occurrences"`
}

// AlertRecipient is a channel that a definition names.
type AlertRecipient struct {
	ID    int64  `json:"id"`
	Label string `json:"label"`
}

// AlertChange is what a definition is made of or changed to; nil members stay.
type AlertChange struct {
	Label       *string        `json:"label,omitempty"`
	Description *string        `json:"description,omitempty"`
	Severity    *int           `json:"severity,omitempty"`
	Status      *string        `json:"status,omitempty"`
	Criteria    *AlertCriteria `json:"rule_criteria,omitempty"`
	Trigger     *AlertTrigger  `json:"trigger_conditions,omitempty"`
	ChannelIDs  *[]int64       `json:"channel_ids,omitempty"`
	EntityIDs   *[]string      `json:"entity_ids,omitempty"`
	Scope       *string        `json:"scope,omitempty"`
	Regions     *[]string      `json:"regions,omitempty"`
}

// AlertChannel is where an account has its alerts told. Secret is there in the answer that gives it only.
type AlertChannel struct {
	ID      int64              `json:"id"`
	Label   string             `json:"label"`
	Kind    string             `json:"channel_type"`
	Type    string             `json:"type"`
	Details AlertChannelTarget `json:"details"`
	Secret  string             `json:"secret,omitempty"`
}

// AlertChannelTarget has the member of the channel's type.
type AlertChannelTarget struct {
	Email   *AlertMail `json:"email,omitempty"`
	Webhook *AlertHook `json:"webhook,omitempty"`
	Slack   *AlertHook `json:"slack,omitempty"`
}

// AlertMail is who is told by mail.
type AlertMail struct {
	Addresses []string `json:"addresses"`
}

// AlertHook is a URL that is requested.
type AlertHook struct {
	URL    string `json:"url,omitempty"`
	Region string `json:"region,omitempty"`
}

// AlertDefinitions are all of the account's, the system's first.
func (c *Client) AlertDefinitions(ctx context.Context) ([]AlertDefinition, error) {
	return list[AlertDefinition](ctx, c, alertDefinitions, 0)
}

// FindAlertDefinition looks a definition up by id or label.
func (c *Client) FindAlertDefinition(ctx context.Context, text string) (AlertDefinition, error) {
	return find(ctx, c.AlertDefinitions, "alert definition", text, func(d AlertDefinition) (int64, []string) { return d.ID, []string{d.Label} })
}

// CreateAlertDefinition adds one.
func (c *Client) CreateAlertDefinition(ctx context.Context, in AlertChange) (AlertDefinition, error) {
	return ask[AlertDefinition](ctx, c, http.MethodPost, alertDefinitions, in)
}

func (d AlertDefinition) path() string { return fmt.Sprintf("%s/%d", alertDefinitions, d.ID) }

// UpdateAlertDefinition changes one.
func (c *Client) UpdateAlertDefinition(ctx context.Context, d AlertDefinition, in AlertChange) (AlertDefinition, error) {
	return ask[AlertDefinition](ctx, c, http.MethodPut, d.path(), in)
}

// DeleteAlertDefinition removes one of the account's own.
func (c *Client) DeleteAlertDefinition(ctx context.Context, d AlertDefinition) error {
	return c.do(ctx, http.MethodDelete, d.path(), nil, nil)
}

// AlertChannels are the account's, that of its contacts first.
func (c *Client) AlertChannels(ctx context.Context) ([]AlertChannel, error) {
	return list[AlertChannel](ctx, c, alertChannels, 0)
}

// FindAlertChannel looks a channel up by id or label.
func (c *Client) FindAlertChannel(ctx context.Context, text string) (AlertChannel, error) {
	return find(ctx, c.AlertChannels, "channel", text, func(one AlertChannel) (int64, []string) { return one.ID, []string{one.Label} })
}

// CreateAlertChannel adds a channel; the answer has its secret, if it has one.
func (c *Client) CreateAlertChannel(ctx context.Context, label, kind string, to AlertChannelTarget) (AlertChannel, error) {
	return ask[AlertChannel](ctx, c, http.MethodPost, alertChannels, map[string]any{"label": label, "channel_type": kind, "details": to})
}

func (c AlertChannel) path() string { return fmt.Sprintf("%s/%d", alertChannels, c.ID) }

// DeleteAlertChannel removes a channel.
func (c *Client) DeleteAlertChannel(ctx context.Context, one AlertChannel) error {
	return c.do(ctx, http.MethodDelete, one.path(), nil, nil)
}

// TryAlertChannel sends a test; problem is "" when it was taken.
func (c *Client) TryAlertChannel(ctx context.Context, one AlertChannel) (problem string, err error) {
	var told struct {
		Problem string `json:"problem"`
	}
	err = c.do(ctx, http.MethodPost, one.path()+"/test", nil, &told)
	return told.Problem, err
}
