package app

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func (a *App) listenForMetrics(ctx context.Context) error {
	if a.o.Metrics.Listen == "" {
		return nil
	}
	var err error
	if a.metrics, err = a.listenOn(ctx, a.o.Metrics.Listen); err != nil {
		return fmt.Errorf("listen for metrics (--metrics, \"\" to do without): %w", err)
	}
	return nil
}

func (a *App) showMetrics() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{}))
	return mux
}
