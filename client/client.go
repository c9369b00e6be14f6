// Package client is a small Go client of steward's API, made for its own
// command line and for programs that want no more than this.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client speaks to one server with one token. Its methods may be used at the same time.
type Client struct {
	url   string
	token string
	http  *http.Client
}

// New makes a client for the server at baseURL, such as "http://127.0.0.1:8080".
func New(baseURL, token string) *Client {
	return &Client{strings.TrimRight(baseURL, "/"), token, &http.Client{Timeout: time.Minute}}
}

// Problem is one fault of a refused request; Field is "" where none is at fault.
type Problem struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// Error is a refused request with all its problems.
type Error struct {
	Status   int
	Problems []Problem `json:"errors"`
}

func (e *Error) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.Reason
		if p.Field != "" {
			texts[i] = p.Field + ": " + p.Reason
		}
	}
	if len(texts) == 0 {
		return fmt.Sprintf("the server answered %d", e.Status)
	}
	return strings.Join(texts, "\n")
}

// do sends a request; in and out may be nil.
func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("reach the server: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		refused := &Error{Status: resp.StatusCode}
		_ = json.Unmarshal(text, refused) // not the envelope: the status says enough
		return refused
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("decode the answer to %s %s: %w", method, path, err)
	}
	return nil
}

// pageSize is the API's largest.
const pageSize = 500

// ask does a request whose answer is a T.
func ask[T any](ctx context.Context, c *Client, method, path string, in any) (T, error) {
	var answer T
	err := c.do(ctx, method, path, in, &answer)
	return answer, err
}

// list reads pages until there are no more, or most items (0: no bound) are read.
func list[T any](ctx context.Context, c *Client, path string, most int) ([]T, error) {
	var all []T
	for page := 1; ; page++ {
		var answer struct {
			Data  []T `json:"data"`
			Pages int `json:"pages"`
		}
		query := url.Values{"page": {fmt.Sprint(page)}, "page_size": {fmt.Sprint(pageSize)}}
		if err := c.do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &answer); err != nil {
			return nil, err
		}
		all = append(all, answer.Data...)
		if page >= answer.Pages || most > 0 && len(all) >= most {
			return all, nil
		}
	}
}
