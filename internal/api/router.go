package api

import (
	"net/http"
	"path"
	"slices"
	"strings"
)

// router is a mux of patterns with methods that knows which methods a path has.
type router struct {
	*http.ServeMux
	// paths has each pattern without its method. A path with a name of its own isn't also another one's parameter: what
	// /credentials/sshkey lacks isn't looked for in /credentials/{credentialId}.
	paths *http.ServeMux
	// methods are those of a pattern without its method.
	methods map[string][]string
}

func newRouter() *router {
	return &router{ServeMux: http.NewServeMux(), paths: http.NewServeMux(), methods: map[string][]string{}}
}

// HandleFunc registers a handler of a method and a path.
func (m *router) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	m.ServeMux.HandleFunc(pattern, handler)
	method, place, _ := strings.Cut(pattern, " ")
	if m.methods[place] == nil {
		m.paths.Handle(place, http.NotFoundHandler()) // which nobody asks
	}
	m.methods[place] = append(m.methods[place], method)
	if method == http.MethodGet {
		m.methods[place] = append(m.methods[place], http.MethodHead)
	}
}

// find returns the pattern of what answers the request, "" when its path lacks the method, and the methods that the path has, none when there is
// no such path.
func (m *router) find(r *http.Request) (pattern string, methods []string) {
	if path.Clean(r.URL.Path) != r.URL.Path {
		return "", nil // the mux would send clients elsewhere
	}
	_, place := m.paths.Handler(r)
	methods = m.methods[place]
	if !slices.Contains(methods, r.Method) {
		return "", methods
	}
	if r.Method == http.MethodHead {
		return http.MethodGet + " " + place, methods
	}
	return r.Method + " " + place, methods
}
