package api

import (
	_ "embed"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/api/body"
)

//go:embed docs.html
var docsPage string

var docsTemplate = template.Must(template.New("docs").Parse(docsPage))

type docOperation struct {
	Method, Path, Summary, Scope string
	Body                         []docField
}

type docField struct {
	Name, Type, Doc string
	Required        bool
}

type docTag struct {
	Name       string
	Operations []docOperation
}

// docs shows the API document as one page that needs nothing from elsewhere.
func (a *API) docs(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	if err := docsTemplate.Execute(w, a.docTags()); err != nil {
		a.Logger.Warn("write documentation page", "error", err)
	}
}

func (a *API) docTags() []docTag {
	var tags []docTag
	add := func(path, method string, op *huma.Operation) {
		if op == nil {
			return
		}
		i := slices.IndexFunc(tags, func(t docTag) bool { return t.Name == op.Tags[0] })
		if i < 0 {
			tags, i = append(tags, docTag{Name: op.Tags[0]}), len(tags)
		}
		scope, _ := op.Extensions["x-scope"].(string)
		tags[i].Operations = append(tags[i].Operations, docOperation{method, path, op.Summary, scope, a.docBody(op)})
	}
	paths := a.OpenAPI().Paths
	names := make([]string, 0, len(paths))
	for path := range paths {
		names = append(names, path)
	}
	slices.Sort(names)
	for _, path := range names {
		item := paths[path]
		add(path, "GET", item.Get)
		add(path, "POST", item.Post)
		add(path, "PUT", item.Put)
		add(path, "DELETE", item.Delete)
	}
	slices.SortFunc(tags, func(x, y docTag) int { return strings.Compare(x.Name, y.Name) })
	return tags
}

func (a *API) docBody(op *huma.Operation) []docField {
	if op.RequestBody == nil {
		return nil
	}
	schemas := a.OpenAPI().Components.Schemas
	schema := body.Resolve(schemas, op.RequestBody.Content["application/json"].Schema)
	var fields []docField
	for name, property := range schema.Properties {
		property = body.Resolve(schemas, property)
		fields = append(fields, docField{name, property.Type, property.Description, slices.Contains(schema.Required, name)})
	}
	slices.SortFunc(fields, func(x, y docField) int { return strings.Compare(x.Name, y.Name) })
	return fields
}
