package app

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func (a *App) showMetrics() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	return mux
}
