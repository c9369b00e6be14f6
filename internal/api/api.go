// Package api is the HTTP door: Huma operations, one file per noun, over
// net/http. It decodes, checks shape and scope, calls control and shows views;
// it decides nothing else.
package api

//go:generate go test -run TestDocument -count=1 . -update

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"steward/internal/account"
	"steward/internal/catalog"
	"steward/internal/control"
	"steward/internal/oauth"
)

// Options are what an API is made of.
type Options struct {
	Control *control.Control
	Catalog *catalog.Catalog
	Logger  *slog.Logger
	// Registry gets the request metrics.
	Registry *prometheus.Registry
	// Ready is nil when the server can answer requests.
	Ready func(ctx context.Context) error
	// ConsoleRedirect is where users are sent back to who log in to the console; "" where
	// there is none.
	ConsoleRedirect string
	// FirstLink is where in the console a user sets a password with a link's secret; nil where there is no console.
	FirstLink func(secret string) string
	// Installation is what operators look at.
	Installation Installation
	// Origin is what browsers may call from: the CORS header's value.
	Origin string
	// RequestsPerMinute bounds each token, and each address that sends none;
	// StatsPerMinute bounds requests for statistics, which count apart;
	// FailedLoginsPerMinute bounds each address. 0 switches a bound off.
	RequestsPerMinute     int
	StatsPerMinute        int
	FailedLoginsPerMinute int
	// StoreTime is what the store may take for each thing that a request asks of it; StoreTime when 0.
	StoreTime time.Duration
	// TrustedProxies are those whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// Audit takes lines of the audit trail; nil: there is none.
	Audit func(account.Audit)
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// API is the door.
type API struct {
	Options
	huma    huma.API
	mux     *router
	handler http.Handler
	metrics *metrics
	oauth   *oauth.Server
	limits  limits
	// deliveries has the routes' ways out by their patterns; deliverAsIs for those it lacks.
	deliveries map[string]delivery
	// document and document30 make the document the first time.
	document, document30 func() ([]byte, error)
	// suspects bounds the look-ups for addresses that failed too often.
	suspects chan struct{}
}

// StoreTime is far more than the store takes for anything that a request asks, on a machine that is busy, too.
const StoreTime = 10 * time.Second

// suspectsAtOnce leaves most of the store's connections to others.
const suspectsAtOnce = 4

// New registers every operation.
func New(o Options) *API {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.StoreTime == 0 {
		o.StoreTime = StoreTime
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	a := &API{
		Options: o, mux: newRouter(), metrics: newMetrics(o.Registry), oauth: oauth.New(o.Control, o.ConsoleRedirect), limits: newLimits(o), suspects: make(chan struct{}, suspectsAtOnce),
		deliveries: map[string]delivery{"GET /openapi.yaml": deliverPacked, "GET /openapi-3.0.json": deliverPacked, "GET /docs": deliverPacked},
	}
	a.huma = humago.New(a.mux, config())
	a.document, a.document30 = sync.OnceValues(a.OpenAPI().YAML), sync.OnceValues(a.makeDocument30)
	a.documentShared()
	a.registerEngines()
	a.registerTypes()
	a.registerRegions()
	a.registerDatabases()
	a.registerFinals()
	a.registerEvents()
	a.registerEventStream()
	a.registerMaintenance()
	a.registerAccount()
	a.registerProfile()
	a.registerSecondFactor()
	a.registerTokens()
	a.registerApps()
	a.registerUsers()
	a.registerContacts()
	a.registerServices()
	a.registerIssues()
	a.registerTickets()
	a.registerStatusPages()
	a.registerCredentials()
	a.registerSSHKeys()
	a.registerComputes()
	a.registerClients()
	a.registerOAuth()
	a.registerStats()
	a.registerMonitor()
	a.registerAlerts()
	a.registerAlertChannels()
	a.registerDiscovery()
	a.registerAccounts()
	a.registerTellings()
	a.registerInstallation()
	a.registerUndocumented()
	a.documentSchemas()
	a.handler = a.wrap(a.mux)
	return a
}

// config is Huma's, without the defaults that break existing clients: no
// $schema member in answers, no charset, no pages from elsewhere.
func config() huma.Config {
	c := huma.DefaultConfig("steward", "4")
	c.Info.Description = "Your own managed databases, behind one JSON API. Times are UTC without a zone."
	c.CreateHooks = nil
	c.DocsPath, c.OpenAPIPath, c.SchemasPath = "", "", ""
	c.Formats = map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat}
	c.DefaultFormat = "application/json"
	c.NoFormatFallback = false
	c.AllowAdditionalPropertiesByDefault = true
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"personalAccessToken": {Type: "http", Scheme: "bearer", Description: "A personal access token."},
		"oauth": {Type: "oauth2", Description: "An application that acts for a user.", Flows: &huma.OAuthFlows{
			AuthorizationCode: &huma.OAuthFlow{AuthorizationURL: "/oauth/authorize", TokenURL: "/oauth/token", RefreshURL: "/oauth/token", Scopes: scopeTexts()},
			ClientCredentials: &huma.OAuthFlow{TokenURL: "/oauth/token", Scopes: scopeTexts()},
		}},
	}
	return c
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }

// Bounds on what one client can make the server wait for and hold.
const (
	headerTime = 10 * time.Second
	readTime   = 30 * time.Second
	writeTime  = 60 * time.Second
	idleTime   = 2 * time.Minute
	maxHeader  = 32 << 10
	maxBody    = 1 << 20
)

// Server is one that answers with the API.
func (a *API) Server() *http.Server { return NewServer(a, a.Logger) }

// NewServer is an http.Server with the bounds set that keep slow and huge clients
// from holding it up.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime,
		IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// registerUndocumented adds what machines look at, outside the API
// document and without a token.
func (a *API) registerUndocumented() {
	a.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, struct{}{}) })
	a.mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := a.Ready(r.Context()); err != nil {
			a.Logger.WarnContext(r.Context(), "not ready", "error", err)
			writeJSON(w, http.StatusServiceUnavailable, envelopeOf("", "The server is starting or its store is away"))
			return
		}
		writeJSON(w, http.StatusOK, struct{}{})
	})
	a.mux.HandleFunc("GET /openapi.yaml", serveDocument("application/yaml", a.Document))
	a.mux.HandleFunc("GET /openapi-3.0.json", serveDocument("application/json", a.Document30))
	a.mux.HandleFunc("GET /docs", a.docs)
}

func serveDocument(kind string, document func() ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		text, err := document()
		if err != nil {
			writeJSON(w, http.StatusInternalServerError, envelopeOf("", internalText))
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(text)
	}
}
