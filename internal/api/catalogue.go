package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/filter"
)

var engineFields = filter.Fields{"engine": filter.Text, "version": filter.Text}

// filterEngines applies a filter in memory: engines are not in the store.
func filterEngines(engines []catalog.Engine, text string) ([]catalog.Engine, error) {
	f, err := filter.Parse(text, engineFields)
	if err != nil {
		return nil, err
	}
	value := func(e catalog.Engine, field string) string {
		if field == "engine" {
			return string(e.Engine)
		}
		return e.Series
	}
	var found []catalog.Engine
	for _, e := range engines {
		if f.Where == nil || f.Where.MatchText(func(field string) string { return value(e, field) }) {
			found = append(found, e)
		}
	}
	if f.OrderBy != "" {
		slices.SortStableFunc(found, func(a, b catalog.Engine) int {
			order := cmp.Compare(value(a, f.OrderBy), value(b, f.OrderBy))
			if f.Descending {
				return -order
			}
			return order
		})
	}
	return found, nil
}

type price struct {
	Hourly  float64 `json:"hourly"`
	Monthly float64 `json:"monthly"`
}

type planEngine struct {
	Quantity int   `json:"quantity" doc:"Nodes."`
	Price    price `json:"price"`
}

type planEngines struct {
	MySQL      []planEngine `json:"mysql" nullable:"false"`
	PostgreSQL []planEngine `json:"postgresql" nullable:"false"`
}

// typeView is a plan as /databases/types shows it.
type typeView struct {
	ID         string      `json:"id"`
	Label      string      `json:"label"`
	Class      string      `json:"class"`
	Memory     int         `json:"memory" doc:"MB."`
	Disk       int         `json:"disk" doc:"MB."`
	VCPUs      int         `json:"vcpus"`
	Deprecated bool        `json:"deprecated"`
	Engines    planEngines `json:"engines"`
}

func showType(p catalog.Plan) typeView {
	sizes := []planEngine{{1, price{p.Hourly, p.Monthly}}, {3, price{3 * p.Hourly, 3 * p.Monthly}}}
	return typeView{p.ID, p.Label, p.Class, p.MemoryMB, p.DiskMB, p.VCPUs, p.Deprecated, planEngines{sizes, sizes}}
}

// computeTypeView is the same plan as /linode/types shows it: what existing
// clients probe for.
type computeTypeView struct {
	ID           string  `json:"id"`
	Label        string  `json:"label"`
	Class        string  `json:"class"`
	Memory       int     `json:"memory" doc:"MB."`
	Disk         int     `json:"disk" doc:"MB."`
	VCPUs        int     `json:"vcpus"`
	GPUs         int     `json:"gpus"`
	NetworkOut   int     `json:"network_out"`
	Transfer     int     `json:"transfer"`
	Price        price   `json:"price"`
	RegionPrices []price `json:"region_prices" nullable:"false"`
	Successor    *string `json:"successor"`
}

func showComputeType(p catalog.Plan) computeTypeView {
	return computeTypeView{
		ID: p.ID, Label: p.Label, Class: p.Class, Memory: p.MemoryMB, Disk: p.DiskMB, VCPUs: p.VCPUs,
		Price: price{p.Hourly, p.Monthly}, RegionPrices: []price{},
	}
}

type textPath struct {
	ID string `path:"id"`
}

func (a *API) registerTypes() {
	registerCatalogue(a, "/v4/databases/types", "DatabaseType", "plans for databases", a.Catalog.Plans, a.Catalog.Plan, showType)
	registerCatalogue(a, "/v4/linode/types", "LinodeType", "plans, as clients of compute instances expect them", a.Catalog.Plans, a.Catalog.Plan, showComputeType)
}

// registerCatalogue adds list and view of something that is fixed while the server runs.
func registerCatalogue[T, V any](a *API, path, name, what string, items []T, find func(id string) (T, bool), show func(T) V) {
	register(a, endpoint{method: http.MethodGet, path: path, id: "list" + name + "s", summary: "List " + what, tag: "Catalogue", public: true},
		func(_ context.Context, c call[Paging, none]) (list[V], error) {
			return newList(slicePage(items, c.In), len(items), c.In, show), nil
		})
	register(a, endpoint{method: http.MethodGet, path: path + "/{id}", id: "view" + name, summary: "View one of the " + what, tag: "Catalogue", public: true},
		func(_ context.Context, c call[textPath, none]) (V, error) {
			item, ok := find(c.In.ID)
			if !ok {
				var zero V
				return zero, fault.NewNotFound()
			}
			return show(item), nil
		})
}

type resolversView struct {
	IPv4 string `json:"ipv4"`
	IPv6 string `json:"ipv6"`
}

type regionView struct {
	ID           string        `json:"id"`
	Label        string        `json:"label"`
	Country      string        `json:"country"`
	Capabilities []string      `json:"capabilities" nullable:"false"`
	Status       string        `json:"status"`
	SiteType     string        `json:"site_type"`
	Resolvers    resolversView `json:"resolvers"`
}

func showRegion(r catalog.Region) regionView {
	return regionView{r.ID, r.Label, strings.ToLower(r.Country), []string{"Managed Databases"}, r.Status, "core", resolversView{r.Resolvers.IPv4, r.Resolvers.IPv6}}
}

func (a *API) registerRegions() {
	registerCatalogue(a, "/v4/regions", "Region", "regions", a.Catalog.Regions, a.Catalog.Region, showRegion)
}
