package client

import (
	"context"
	"fmt"
	"net/http"
)

const services = "/v4/managed/services"

// Service is something that is monitored. Body, Notes and Region are "", and
// Interval 0, where there is none.
type Service struct {
	ID                int64   `json:"id"`
	Label             string  `json:"label"`
	ServiceType       string  `json:"service_type"`
	Address           string  `json:"address"`
	Timeout           int     `json:"timeout"`
	Body              string  `json:"body"`
	ConsultationGroup string  `json:"consultation_group"`
	Credentials       []int64 `json:"credentials"`
	Notes             string  `json:"notes"`
	Region            string  `json:"region"`
	Interval          int     `json:"interval"`
	Status            string  `json:"status"`
	StatusSince       string  `json:"status_since"`
	StatusReason      string  `json:"status_reason"`
	CertificateEnds   string  `json:"certificate_expires"`
	Created           string  `json:"created"`
	Updated           string  `json:"updated"`
}

// ServiceChange is what a service is made of or changed to. nil members stay as
// they are; "", 0 and no credentials take away what can be left out.
type ServiceChange struct {
	Label             *string  `json:"label,omitempty"`
	ServiceType       *string  `json:"service_type,omitempty"`
	Address           *string  `json:"address,omitempty"`
	Timeout           *int     `json:"timeout,omitempty"`
	Body              *string  `json:"body,omitempty"`
	ConsultationGroup *string  `json:"consultation_group,omitempty"`
	Credentials       *[]int64 `json:"credentials,omitempty"`
	Notes             *string  `json:"notes,omitempty"`
	Region            *string  `json:"region,omitempty"`
	Interval          *int     `json:"interval,omitempty"`
}

// Check is the result of one look at a service.
type Check struct {
	Started string `json:"started"`
	// Result is "ok", or what was found in a word.
	Result string `json:"result"`
	// ResponseTime is in seconds.
	ResponseTime float64 `json:"response_time"`
}

// Uptime sums up the checks of a time. Uptime is in percent, nil without checks;
// the response times are in seconds.
type Uptime struct {
	Checks   int      `json:"checks"`
	Failures int      `json:"failures"`
	Uptime   *float64 `json:"uptime"`
	Mean     float64  `json:"mean_response_time"`
	Longest  float64  `json:"longest_response_time"`
}

// Checks are the newest of a service, newest first, and what is known of the last
// 24 hours, 7 and 30 days.
type Checks struct {
	Data  []Check `json:"data"`
	Day   Uptime  `json:"last_24_hours"`
	Week  Uptime  `json:"last_7_days"`
	Month Uptime  `json:"last_30_days"`
}

func (s Service) path() string { return fmt.Sprintf("%s/%d", services, s.ID) }

// Services are all of the account's.
func (c *Client) Services(ctx context.Context) ([]Service, error) {
	return list[Service](ctx, c, services, 0)
}

// FindService looks a service up by id or label, which must be one service's alone.
func (c *Client) FindService(ctx context.Context, text string) (Service, error) {
	return find(ctx, c.Services, "service", text, func(one Service) (int64, []string) { return one.ID, []string{one.Label} })
}

// CreateService has a service monitored.
func (c *Client) CreateService(ctx context.Context, in ServiceChange) (Service, error) {
	return ask[Service](ctx, c, http.MethodPost, services, in)
}

// UpdateService changes a service.
func (c *Client) UpdateService(ctx context.Context, s Service, in ServiceChange) (Service, error) {
	return ask[Service](ctx, c, http.MethodPut, s.path(), in)
}

// DisableService stops its checks for the time being.
func (c *Client) DisableService(ctx context.Context, s Service) (Service, error) {
	return ask[Service](ctx, c, http.MethodPost, s.path()+"/disable", nil)
}

// EnableService has a disabled service checked again.
func (c *Client) EnableService(ctx context.Context, s Service) (Service, error) {
	return ask[Service](ctx, c, http.MethodPost, s.path()+"/enable", nil)
}

// CheckService has it be checked within seconds.
func (c *Client) CheckService(ctx context.Context, s Service) error {
	return c.do(ctx, http.MethodPost, s.path()+"/check", nil, nil)
}

// DeleteService ends its checks for good.
func (c *Client) DeleteService(ctx context.Context, s Service) error {
	return c.do(ctx, http.MethodDelete, s.path(), nil, nil)
}

// ServiceChecks are the newest checks of a service, at most 500.
func (c *Client) ServiceChecks(ctx context.Context, s Service) (Checks, error) {
	return ask[Checks](ctx, c, http.MethodGet, s.path()+"/checks?page_size=500", nil)
}
