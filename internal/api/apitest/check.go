package apitest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Answer is what a server answered to one request.
type Answer struct {
	// Method and Path are the request's; Path without its query.
	Method, Path string
	Status       int
	Header       http.Header
	Body         []byte
}

// transport are headers that HTTP, browsers and caches care for, which are the
// same for all servers and stand in no API's document.
var transport = []string{
	"Access-Control-Allow-Headers", "Access-Control-Allow-Methods", "Access-Control-Allow-Origin",
	"Access-Control-Expose-Headers", "Access-Control-Max-Age", "Cache-Control", "Connection", "Content-Encoding",
	"Content-Length", "Content-Type", "Date", "Transfer-Encoding", "Vary", "X-Content-Type-Options",
}

// Check returns what the document doesn't promise of an answer: an unknown
// status, header or member, a value outside its schema, something required that
// isn't there. Paths outside of /v4 are no part of the API.
func (d *Document) Check(a Answer) error {
	path := normal(a.Path)
	if !strings.HasPrefix(path, "/v4/") {
		return nil
	}
	method := a.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	op, found, known := d.find(method, path)
	name, pointer := op.id, op.pointer+"/responses/"+strconv.Itoa(a.Status)
	if !found {
		name, pointer = "no operation", unrouted(a, known)
	}
	if err := d.response(a, pointer); err != nil {
		return fmt.Errorf("%s %s (%s) answered %d: %w", a.Method, a.Path, name, a.Status, err)
	}
	return nil
}

// normal is the one spelling of a path that the document has.
func normal(path string) string {
	if rest, ok := strings.CutPrefix(path, "/v4beta/"); ok {
		path = "/v4/" + rest
	}
	return strings.TrimSuffix(path, "/")
}

// unrouted is the response that an answer must be when no operation is asked for.
func unrouted(a Answer, known bool) string {
	const shared = "/components/responses/"
	switch {
	case a.Method == http.MethodOptions:
		return shared + "Options"
	case a.Status == http.StatusRequestEntityTooLarge:
		return shared + "BodyTooLarge"
	case known:
		return shared + "MethodNotAllowed"
	}
	return shared + "NotFound"
}

// sharedStatus are the statuses of responses that stand under a name.
var sharedStatus = map[string]int{
	"Options": http.StatusNoContent, "BodyTooLarge": http.StatusRequestEntityTooLarge,
	"MethodNotAllowed": http.StatusMethodNotAllowed, "NotFound": http.StatusNotFound,
}

func (d *Document) response(a Answer, pointer string) error {
	if name, ok := strings.CutPrefix(pointer, "/components/responses/"); ok && sharedStatus[name] != a.Status {
		return fmt.Errorf("the document wants %d (%s)", sharedStatus[name], name)
	}
	r := d.promised(pointer)
	if r == nil {
		return errors.New("the status isn't documented")
	}
	return errors.Join(d.headers(a, r), d.body(a, r))
}

func (d *Document) headers(a Answer, r *response) error {
	var errs []error
	for name, header := range r.headers {
		values := a.Header[name]
		switch {
		case len(values) == 0 && header.required:
			errs = append(errs, fmt.Errorf("header %s is missing", header.name))
		case len(values) > 0:
			errs = append(errs, d.header(header.name, values[0], header.pointer))
		}
	}
	for name := range a.Header {
		if _, documented := r.headers[name]; !documented && !slices.Contains(transport, name) {
			errs = append(errs, fmt.Errorf("header %s isn't documented", name))
		}
	}
	return errors.Join(errs...)
}

// header holds one value against its schema, as a number where it looks like one.
func (d *Document) header(name, value, pointer string) error {
	schema, err := d.schema(pointer + "/schema")
	if err != nil {
		return err
	}
	var v any = value
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && schema.Types != nil && slices.Contains(schema.Types.ToStrings(), "integer") {
		v = n
	}
	if err := schema.Validate(v); err != nil {
		return fmt.Errorf("header %s: %w", name, err)
	}
	return nil
}

func (d *Document) body(a Answer, r *response) error {
	content := r.content
	switch {
	case len(content) == 0 && len(a.Body) > 0:
		return fmt.Errorf("a body that isn't documented: %.200s", a.Body)
	case len(content) == 0 || a.Method == http.MethodHead:
		return nil
	}
	kind := a.Header.Get("Content-Type")
	if plain, _, _ := strings.Cut(kind, ";"); plain == "text/plain" && content[plain] != nil {
		return nil
	}
	if content[kind] == nil {
		return fmt.Errorf("content type %q isn't documented", kind)
	}
	if kind != "application/json" {
		return nil // a stream, say
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.Body))
	if err != nil {
		return fmt.Errorf("the body isn't JSON: %w", err)
	}
	schema, err := d.schema(r.pointer + "/content/" + escape(kind) + "/schema")
	if err != nil {
		return err
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%w\nin %.2000s", err, a.Body)
	}
	return nil
}
