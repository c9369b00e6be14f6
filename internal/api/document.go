package api

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/account"
)

// Document is the OpenAPI document, in YAML. It is made when it is first asked for, and kept: anybody may ask, and to write it takes
// as long as many requests.
func (a *API) Document() ([]byte, error) { return a.document() }

// OpenAPI is what the document is made of, with the Go types of its schemas.
func (a *API) OpenAPI() *huma.OpenAPI { return a.huma.OpenAPI() }

// sharedResponse is an answer that stands once in the document, for all
// operations that may send it.
type sharedResponse struct {
	status      int
	name        string
	description string
}

// everyOperation may send these.
var everyOperation = []sharedResponse{
	{http.StatusBadRequest, "BadRequest", "Something in the request is wrong, or the state of things doesn't allow it now; every fault is named."},
	{http.StatusUnauthorized, "Unauthorized", "The token is missing or not valid, or its scopes don't reach this operation."},
	{http.StatusRequestEntityTooLarge, "BodyTooLarge", "The request's body is over 1 MiB."},
	{http.StatusTooManyRequests, "TooManyRequests", "The limit of requests is reached."},
	{http.StatusInternalServerError, "InternalError", "A fault of the server; the request id leads its operator to the cause."},
	{http.StatusServiceUnavailable, "Unavailable", "The server's own store doesn't answer. Nothing was done: try again."},
	{http.StatusGatewayTimeout, "InDoubt", "The server's own store went away in the middle: whether the request was carried out isn't known."},
}

// someOperations may send these.
var (
	forbidden = sharedResponse{http.StatusForbidden, "Forbidden", "The user is restricted and lacks the grant, or the account is suspended."}
	suspended = sharedResponse{http.StatusForbidden, "Suspended", "The account is suspended."}
	notFound  = sharedResponse{http.StatusNotFound, "NotFound", "There is no such thing, or it is another account's."}
	noBody    = sharedResponse{http.StatusNoContent, "NoContent", "There is nothing to show."}
	unchanged = sharedResponse{http.StatusNotModified, "NotModified", "The answer is still one that If-None-Match names."}
)

// outsideOperations are answers to what is no operation.
var outsideOperations = []sharedResponse{
	{http.StatusMethodNotAllowed, "MethodNotAllowed", "The path exists, but not with this method: any operation's path answers so."},
	{http.StatusNoContent, "Options", "The answer to OPTIONS, on any path."},
}

// answerHeaders are those of answers. Absent ones are true, too: limits may be
// switched off, and what is answered before the token is looked at has no scopes.
var answerHeaders = map[string]*huma.Header{
	"X-Request-Id": {
		Required: true, Description: "Names the request in the server's log.",
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9a-f]{16}$"},
	},
	"X-OAuth-Scopes": {
		Description: "The token's scopes; unknown for a token that isn't valid.", Schema: &huma.Schema{Type: huma.TypeString},
	},
	"X-Accepted-OAuth-Scopes": {
		Description: "The scope that the operation wants; empty when any token will do, or none.", Schema: &huma.Schema{Type: huma.TypeString},
	},
	"X-RateLimit-Limit": {
		Description: "Requests that a minute allows.", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0)},
	},
	"X-RateLimit-Remaining": {
		Description: "Requests left in this minute.", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(0.0)},
	},
	"X-RateLimit-Reset": {
		Description: "When the count begins anew, in seconds since 1970.", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(0.0)},
	},
	"Retry-After": {
		Required: true, Description: "Seconds until another request is worth it.", Schema: &huma.Schema{Type: huma.TypeInteger, Minimum: new(1.0)},
	},
	"ETag": {
		Required: true, Description: "Names the answer by its content, for If-None-Match.",
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: `^W/"[0-9a-f]{32}"$`},
	},
	"Allow": {
		Required: true, Description: "The methods that the path has.", Schema: &huma.Schema{Type: huma.TypeString},
	},
}

// headersOf are the names of a response's headers.
func headersOf(status int) []string {
	names := []string{"X-Request-Id"}
	switch status {
	case http.StatusMethodNotAllowed:
		return append(names, "Allow")
	case http.StatusRequestEntityTooLarge:
		return names
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		names = append(names, "Retry-After")
	case http.StatusNotModified:
		names = append(names, "ETag")
	}
	return append(names, "X-OAuth-Scopes", "X-Accepted-OAuth-Scopes", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
}

func headerRefs(status int) map[string]*huma.Header {
	refs := map[string]*huma.Header{}
	for _, name := range headersOf(status) {
		refs[name] = &huma.Header{Ref: "#/components/headers/" + name}
	}
	return refs
}

// documentShared writes the answers that all operations share into the document.
func (a *API) documentShared() {
	d := a.OpenAPI()
	d.Components.Headers, d.Components.Responses = answerHeaders, map[string]*huma.Response{}
	schema := d.Components.Schemas.Schema(envelopeType, true, "Envelope")
	for _, r := range slices.Concat(everyOperation, []sharedResponse{forbidden, suspended, notFound, noBody, unchanged}, outsideOperations) {
		response := &huma.Response{Description: r.description, Headers: headerRefs(r.status)}
		if r.status >= http.StatusBadRequest {
			response.Content = map[string]*huma.MediaType{"application/json": {Schema: schema}}
		}
		d.Components.Responses[r.name] = response
	}
}

// documentAnswers replaces what Huma supposes that an operation answers.
func documentAnswers(e endpoint, op *huma.Operation) {
	ok := op.Responses["200"]
	ok.Headers = headerRefs(http.StatusOK)
	if e.delivery() == deliverTagged {
		maps.Copy(ok.Headers, headerRefs(http.StatusNotModified))
	}
	op.Responses = map[string]*huma.Response{"200": ok}
	for _, r := range e.answers() {
		op.Responses[strconv.Itoa(r.status)] = &huma.Response{Ref: "#/components/responses/" + r.name}
	}
}

// answers are what the operation may send besides 200.
func (e endpoint) answers() []sharedResponse {
	all := slices.Clone(everyOperation)
	if e.bindsRestricted() {
		all = append(all, forbidden)
	} else {
		all = append(all, suspended)
	}
	if strings.Contains(e.path, "{") {
		all = append(all, notFound)
	}
	if e.maybeEmpty {
		all = append(all, noBody)
	}
	if e.delivery() == deliverTagged {
		all = append(all, unchanged)
	}
	return all
}

// bindsRestricted reports whether a restricted user may be refused: everywhere
// but where the operation is about the caller itself, or where what isn't
// granted just isn't shown.
func (e endpoint) bindsRestricted() bool {
	switch {
	case e.public, e.own:
		return false
	case e.scope.Area == account.AreaDatabases:
		return e.method != http.MethodGet
	}
	return e.scope.Area == account.AreaAccount
}

// documentSchemas makes the schemas that Huma derives say what is true of
// values, where it can't know.
func (a *API) documentSchemas() {
	a.documentTimes()
	for _, schema := range a.OpenAPI().Components.Schemas.Map() {
		for _, property := range schema.Properties {
			if property.Nullable && len(property.Enum) > 0 {
				property.Enum = append(property.Enum, nil)
			}
		}
	}
}

// shownTime is how answers write times: RFC 3339 would want a zone.
const shownTime = `^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}$`

// documentTimes says of all times how they are written. What is tagged
// date-time is so in JSON Schema's words only with a zone, which existing
// clients can't read. Bodies may have one.
func (a *API) documentTimes() {
	asked := map[string]bool{}
	for _, item := range a.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Post, item.Put} {
			if op != nil && op.RequestBody != nil {
				a.reach(op.RequestBody.Content["application/json"].Schema, asked)
			}
		}
	}
	schemas := a.OpenAPI().Components.Schemas.Map()
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		for _, property := range schemas[name].Properties {
			if property.Format != "date-time" {
				continue
			}
			property.Format = ""
			if !asked[name] {
				property.Pattern = shownTime
			}
		}
	}
}

// reach collects the names of all schemas that a schema leads to.
func (a *API) reach(s *huma.Schema, names map[string]bool) {
	if s == nil {
		return
	}
	if name := strings.TrimPrefix(s.Ref, "#/components/schemas/"); s.Ref != "" && !names[name] {
		names[name] = true
		a.reach(a.OpenAPI().Components.Schemas.SchemaFromRef(s.Ref), names)
	}
	a.reach(s.Items, names)
	for _, property := range s.Properties {
		a.reach(property, names)
	}
}

// orNullObject makes a member of a view that is an object, or null: a reference
// can't say so by itself.
func orNullObject(s *huma.Schema, member string) {
	property := s.Properties[member]
	s.Properties[member] = &huma.Schema{
		Description: property.Description, AnyOf: []*huma.Schema{{Ref: property.Ref}, {Type: "null"}},
	}
}
