package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// Extension is one of PostgreSQL, as seen from a logical database; what there is none of is "".
type Extension struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Installed string `json:"installed_version"`
	Schema    string `json:"schema"`
	Offered   bool   `json:"offered"`
	Missing   string `json:"missing"`
	Comment   string `json:"comment"`
}

// Extensions are those that a database offers, and those in one of its logical databases.
func (c *Client) Extensions(ctx context.Context, d Database, logical string) ([]Extension, error) {
	var found struct {
		Data []Extension `json:"data"`
	}
	query := url.Values{"database": {logical}, "page_size": {strconv.Itoa(pageSize)}} // no server has as many
	err := c.do(ctx, http.MethodGet, d.Path()+"/extensions?"+query.Encode(), nil, &found)
	return found.Data, err
}

// OfferedExtension is one that a series of PostgreSQL comes with on the server's host.
type OfferedExtension struct {
	Name      string `json:"name"`
	Engine    string `json:"engine"`
	Version   string `json:"version"`
	Offered   bool   `json:"offered"`
	Missing   string `json:"missing"`
	Parameter string `json:"parameter"`
	Comment   string `json:"comment"`
}

// OfferedExtensions are those that a series of PostgreSQL comes with, "" for all series.
func (c *Client) OfferedExtensions(ctx context.Context, series string) ([]OfferedExtension, error) {
	var found struct {
		Data []OfferedExtension `json:"data"`
	}
	query := url.Values{"page_size": {strconv.Itoa(pageSize)}} // no host has as many
	if series != "" {
		query.Set("version", series)
	}
	err := c.do(ctx, http.MethodGet, "/v4/databases/postgresql/extensions?"+query.Encode(), nil, &found)
	return found.Data, err
}

// CreateExtension makes an extension in a logical database, with all that it needs; schema is "" for public.
func (c *Client) CreateExtension(ctx context.Context, d Database, logical, name, schema string) (Extension, error) {
	body := map[string]string{"database": logical, "name": name}
	if schema != "" {
		body["schema"] = schema
	}
	return ask[Extension](ctx, c, http.MethodPost, d.Path()+"/extensions", body)
}

// UpdateExtension brings an extension to a version, "" for the one that the server has.
func (c *Client) UpdateExtension(ctx context.Context, d Database, logical, name, version string) (Extension, error) {
	body := map[string]string{"database": logical}
	if version != "" {
		body["version"] = version
	}
	return ask[Extension](ctx, c, http.MethodPut, d.Path()+"/extensions/"+url.PathEscape(name), body)
}

// DropExtension removes an extension from a logical database; cascade drops what depends on it, too.
func (c *Client) DropExtension(ctx context.Context, d Database, logical, name string, cascade bool) error {
	query := url.Values{"database": {logical}, "cascade": {strconv.FormatBool(cascade)}}
	return c.do(ctx, http.MethodDelete, d.Path()+"/extensions/"+url.PathEscape(name)+"?"+query.Encode(), nil, nil)
}
