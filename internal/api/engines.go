package api

import (
	"context"
	"net/http"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
)

// engineView is a release series (docs/rules.md, Databases).
type engineView struct {
	Engine          string `json:"engine" enum:"mysql,postgresql"`
	ID              string `json:"id"`
	Version         string `json:"version"`
	TotalDiskSizeGB int    `json:"total_disk_size_gb" doc:"Size of the server's programs on this host, rounded up."`
	UsedDiskSizeGB  int    `json:"used_disk_size_gb"`
}

func showEngine(e catalog.Engine) engineView {
	total, used := e.DiskBytes()
	return engineView{string(e.Engine), e.ID(), e.Series, cluster.Gigabytes(total), cluster.Gigabytes(used)}
}

type enginePath struct {
	Engine string `path:"engine"`
	Series string `path:"series"`
}

func (a *API) registerEngines() {
	register(a, endpoint{
		method: http.MethodGet, path: "/v4/databases/engines", id: "listDatabaseEngines", summary: "List engines", tag: "Catalog", public: true,
	}, func(_ context.Context, c call[Listing, none]) (list[engineView], error) {
		return listInMemory(enginesInMemory(a.Catalog.Offered()), c.In, showEngine)
	})
	register(a, endpoint{
		method: http.MethodGet, path: "/v4/databases/engines/{engine}/{series}", id: "viewDatabaseEngine", summary: "View an engine", tag: "Catalog", public: true,
	}, func(_ context.Context, c call[enginePath, none]) (engineView, error) {
		found, ok := a.Catalog.Engine(cluster.Engine(c.In.Engine), c.In.Series)
		if !ok {
			return engineView{}, fault.NewNotFound()
		}
		return showEngine(found), nil
	})
}
