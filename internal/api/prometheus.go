package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/cluster"
	"steward/internal/store"
)

// targetView is a group of targets, as Prometheus discovers them by HTTP.
type targetView struct {
	Targets []string          `json:"targets" nullable:"false" doc:"This server's address, as the request has it."`
	Labels  map[string]string `json:"labels" doc:"The path to scrape, and what tells the database apart."`
}

// hostInput has the address that the request was sent to.
type hostInput struct{ host string }

// Resolve implements huma.Resolver.
func (in *hostInput) Resolve(ctx huma.Context) []error {
	in.host = ctx.Host()
	return nil
}

// discover lists a target for each database that the caller may see.
func (a *API) discover(ctx context.Context, c call[hostInput, none]) ([]targetView, error) {
	all, _, err := a.Control.Clusters.List(ctx, c.Principal, "", store.ListQuery{})
	targets := make([]targetView, 0, len(all))
	for _, db := range all {
		targets = append(targets, target(db, c.In.host))
	}
	return targets, err
}

func target(db cluster.Cluster, host string) targetView {
	return targetView{Targets: []string{host}, Labels: map[string]string{
		"__metrics_path__": instanceURI(db.Engine, db.ID) + "/prometheus",
		"instance":         db.Label, "database_id": strconv.FormatInt(int64(db.ID), 10), "database": db.Label,
		"engine": string(db.Engine), "engine_version": db.Series, "region": db.Region, "plan": db.Type,
	}}
}

func (a *API) registerDiscovery() {
	register(a, endpoint{
		method: http.MethodGet, path: "/v4/monitor/services/dbaas/prometheus-sd", id: "discoverDatabases", summary: "List databases as Prometheus discovers targets by HTTP", tag: monitorTag, scope: readDatabases,
	}, a.discover)
}
