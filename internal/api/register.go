package api

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/account"
	"steward/internal/api/body"
	"steward/internal/fault"
)

// endpoint is what is declared beside each operation.
type endpoint struct {
	method, path string
	// id and summary name it in the document; tag groups it.
	id, summary, tag string
	// scope is what the token needs. The zero scope: any valid token will do.
	scope account.Scope
	// public operations need no token; one that is sent must be valid.
	public bool
	// own operations are about the caller itself: restrictions don't matter.
	own bool
	// maybeEmpty operations answer 204 when there is nothing to show.
	maybeEmpty bool
	// stream operations answer for as long as the client reads.
	stream bool
	// secret operations answer what nobody but the caller may ever read.
	secret bool
}

// none stands for no input or no body.
type none struct{}

// call is one request on its way to control.
type call[I, B any] struct {
	account.Principal
	In I
	// Body is what could be decoded; Faults are the problems found in it.
	Body   B
	Faults fault.Faults
}

// answer is what Huma writes, whatever view it is: so that Huma is compiled for an input's type alone, and not for each pair of one and a view.
type answer struct {
	Status int
	Body   any
}

// noContent is returned by handlers whose answer has no body.
type noContent struct{}

func (noContent) Error() string { return "no content" }

// register adds one operation. I holds path, query and header parameters, B the
// body, O the answer's view.
func register[I, B, O any](a *API, e endpoint, handle func(ctx context.Context, c call[I, B]) (O, error)) {
	op := a.newOperation(e)
	bodyType := reflect.TypeFor[B]()
	hasBody := bodyType != reflect.TypeFor[none]()
	if hasBody {
		schema := a.OpenAPI().Components.Schemas.Schema(bodyType, true, bodyType.Name())
		// Not Required: an empty body counts as {}, and what it lacks is named
		// member by member.
		op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
	}
	op.Responses["200"] = a.answers(reflect.TypeFor[O](), e)
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*answer, error) {
		c := call[I, B]{In: *in}
		state := stateOf(ctx)
		c.Principal = state.principal
		if hasBody {
			faults, err := body.Decode(state.body, a.OpenAPI().Components.Schemas, bodyType, &c.Body)
			if err != nil {
				return nil, a.toStatus(ctx, err)
			}
			c.Faults = faults
		}
		out, err := handle(ctx, c)
		if _, empty := err.(noContent); empty { //nolint:errorlint // a marker of our own, never wrapped
			return &answer{Status: http.StatusNoContent}, nil
		}
		if err != nil {
			return nil, a.toStatus(ctx, err)
		}
		return &answer{Status: http.StatusOK, Body: out}, nil
	})
	documentAnswers(e, a.operation(e))
	a.deliveries[e.method+" "+e.path] = e.delivery()
}

// answers documents the view that an operation answers.
func (a *API) answers(view reflect.Type, e endpoint) *huma.Response {
	schema := a.OpenAPI().Components.Schemas.Schema(view, true, e.id+"Response")
	return &huma.Response{Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}

// newOperation is an endpoint's, as Huma wants to know it.
func (a *API) newOperation(e endpoint) huma.Operation {
	op := huma.Operation{
		OperationID: e.id, Method: e.method, Path: e.path, Summary: e.summary, Tags: []string{e.tag},
		DefaultStatus: http.StatusOK, Responses: map[string]*huma.Response{},
		Middlewares: huma.Middlewares{a.authenticate(e)},
		Extensions:  map[string]any{"x-scope": e.scopeText()},
	}
	if !e.public {
		op.Security = []map[string][]string{{"personalAccessToken": {}}, {"oauth": e.scopeList()}}
	}
	return op
}

// operation is a registered endpoint's entry in the document.
func (a *API) operation(e endpoint) *huma.Operation {
	item := a.OpenAPI().Paths[e.path]
	switch e.method {
	case http.MethodGet:
		return item.Get
	case http.MethodPost:
		return item.Post
	case http.MethodPut:
		return item.Put
	}
	return item.Delete
}

func (e endpoint) scopeText() string {
	switch {
	case e.public:
		return "none"
	case e.scope == account.Scope{}:
		return "any"
	}
	return e.scope.String()
}

// scopeList is what the document says an application needs.
func (e endpoint) scopeList() []string {
	if e.scope == (account.Scope{}) {
		return []string{}
	}
	return []string{e.scope.String()}
}

// requestState travels from the middlewares to the handler.
type requestState struct {
	principal account.Principal
	body      []byte
	id        string
	// address is whom the request comes from.
	address string
}

type stateKey struct{}

func stateOf(ctx context.Context) *requestState {
	if s, ok := ctx.Value(stateKey{}).(*requestState); ok {
		return s
	}
	return &requestState{}
}

// empty is the answer of actions: {}.
type empty struct{}
