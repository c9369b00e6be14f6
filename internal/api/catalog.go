package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/filter"
)

// inMemory is a list that is fixed while the server runs, and how to filter it.
type inMemory[T any] struct {
	items  []T
	fields filter.Fields
	value  func(item T, field string) any
}

// listInMemory is the page asked for of what the filter lets through.
func listInMemory[T, V any](m inMemory[T], l Listing, show func(T) V) (list[V], error) {
	f, err := filter.Parse(l.Filter, m.fields)
	if err != nil {
		return list[V]{}, err
	}
	found := filter.Apply(f, m.items, m.value)
	return newList(slicePage(found, l.Paging), len(found), l.Paging, show), nil
}

func enginesInMemory(engines []catalog.Engine) inMemory[catalog.Engine] {
	fields := filter.Fields{"id": filter.Text, "engine": filter.Text, "version": filter.Text}
	return inMemory[catalog.Engine]{engines, fields, func(e catalog.Engine, field string) any {
		switch field {
		case "id":
			return e.ID()
		case "engine":
			return string(e.Engine)
		}
		return e.Series
	}}
}

func plansInMemory(plans []catalog.Plan) inMemory[catalog.Plan] {
	fields := filter.Fields{
		"id": filter.Text, "label": filter.Text, "class": filter.Text, "memory": filter.Number, "disk": filter.Number,
		"vcpus": filter.Number, "deprecated": filter.Bool,
	}
	return inMemory[catalog.Plan]{plans, fields, func(p catalog.Plan, field string) any {
		switch field {
		case "id":
			return p.ID
		case "label":
			return p.Label
		case "class":
			return p.Class
		case "memory":
			return int64(p.MemoryMB)
		case "disk":
			return int64(p.DiskMB)
		case "vcpus":
			return int64(p.VCPUs)
		}
		return p.Deprecated
	}}
}

func (a *API) regionsInMemory(regions []catalog.Region) inMemory[catalog.Region] {
	fields := filter.Fields{"id": filter.Text, "label": filter.Text, "country": filter.Text, "status": filter.Text}
	return inMemory[catalog.Region]{regions, fields, func(r catalog.Region, field string) any {
		switch field {
		case "id":
			return r.ID
		case "label":
			return r.Label
		case "country":
			return strings.ToLower(r.Country)
		}
		return a.regionStatus(r)
	}}
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
	sizes := []planEngine{{1, price{p.Hourly, p.Monthly}}, {3, price{round(3*p.Hourly, 6), round(3*p.Monthly, 6)}}}
	return typeView{p.ID, p.Label, p.Class, p.MemoryMB, p.DiskMB, p.VCPUs, p.Deprecated, planEngines{sizes, sizes}}
}

// addons are what can be had with a plan, for clients that ask for its price.
type addons struct {
	Backups addon `json:"backups"`
}

type addon struct {
	Price        price   `json:"price"`
	RegionPrices []price `json:"region_prices" nullable:"false"`
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
	Addons       addons  `json:"addons" doc:"What costs extra: nothing does, backups are part of every database."`
	GPUs         int     `json:"gpus"`
	Accelerated  int     `json:"accelerated_devices"`
	NetworkOut   int     `json:"network_out"`
	Transfer     int     `json:"transfer"`
	Price        price   `json:"price"`
	RegionPrices []price `json:"region_prices" nullable:"false"`
	Successor    *string `json:"successor"`
}

func showComputeType(p catalog.Plan) computeTypeView {
	return computeTypeView{
		ID: p.ID, Label: p.Label, Class: p.Class, Memory: p.MemoryMB, Disk: p.DiskMB, VCPUs: p.VCPUs,
		Price: price{p.Hourly, p.Monthly}, RegionPrices: []price{}, Addons: addons{addon{RegionPrices: []price{}}},
	}
}

type textPath struct {
	ID string `path:"id"`
}

func (a *API) registerTypes() {
	plans := plansInMemory(a.Catalog.Plans)
	registerCatalog(a, "/v4/databases/types", "DatabaseType", "plans for databases", plans, a.Catalog.Plan, showType)
	registerCatalog(a, "/v4/linode/types", "LinodeType", "plans, as clients of compute instances expect them", plans, a.Catalog.Plan, showComputeType)
}

// registerCatalog adds list and view of something that is fixed while the server runs.
func registerCatalog[T, V any](a *API, path, name, what string, items inMemory[T], find func(id string) (T, bool), show func(T) V) {
	register(a, endpoint{method: http.MethodGet, path: path, id: "list" + name + "s", summary: "List " + what, tag: "Catalog", public: true},
		func(_ context.Context, c call[Listing, none]) (list[V], error) {
			return listInMemory(items, c.In, show)
		})
	register(a, endpoint{method: http.MethodGet, path: path + "/{id}", id: "view" + name, summary: "View one of the " + what, tag: "Catalog", public: true},
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

// monitorsView is what of a region's things can be watched from within.
type monitorsView struct {
	Alerts  []string `json:"alerts" nullable:"false"`
	Metrics []string `json:"metrics" nullable:"false"`
}

// Capabilities of regions beside that of having databases.
const (
	postgresqlCapability = "PostgreSQL Databases"
	mysqlCapability      = "MySQL Databases"
	backupsCapability    = "Database Backups"
	momentsCapability    = "Database Point-in-Time Recovery"
	logsCapability       = "Database Logs"
	clustersCapability   = "Database Clusters"
	restartCapability    = "Database Restart"
	switchoverCapability = "Database Switchover"
	upgradeCapability    = "Database Upgrade"
	sleepCapability      = "Database Sleep"
	poolsCapability      = "Database Connection Pools"
	importsCapability    = "Database Migrations"
	encryptionCapability = "Disk Encryption"
)

// capabilities are those that a region has now.
func (a *API) capabilities(region string) []string {
	can := a.Catalog.Abilities(region)
	has := func(what func(catalog.Engine) bool) bool { return slices.ContainsFunc(can.Engines, what) }
	// What databases of MySQL's family lack there, where those of PostgreSQL have it.
	lacks := func(what func(catalog.Lacks) bool) bool {
		return has(func(e catalog.Engine) bool { return what(e.Lacks) })
	}
	all := []string{databasesCapability}
	for _, c := range []struct {
		name string
		can  bool
	}{
		{postgresqlCapability, has(func(e catalog.Engine) bool { return e.Engine == cluster.PostgreSQL })},
		{mysqlCapability, has(func(e catalog.Engine) bool { return e.Engine == cluster.MySQL })},
		{encryptionCapability, has(func(e catalog.Engine) bool { return e.EncryptionMissing == "" })},
		{backupsCapability, can.Backups && !lacks(func(l catalog.Lacks) bool { return l.Backups })},
		{"PostgreSQL " + backupsCapability, can.Backups && lacks(func(l catalog.Lacks) bool { return l.Backups })},
		{"PostgreSQL " + momentsCapability, can.Backups && lacks(func(l catalog.Lacks) bool { return l.Moments && !l.Backups })},
		{logsCapability, can.Logs && !lacks(func(l catalog.Lacks) bool { return l.Logs })},
		{"PostgreSQL " + logsCapability, can.Logs && lacks(func(l catalog.Lacks) bool { return l.Logs })},
		{"PostgreSQL " + clustersCapability, lacks(func(l catalog.Lacks) bool { return l.Nodes })},
		{restartCapability, can.Restarts},
		{switchoverCapability, can.Switchovers},
		{upgradeCapability, can.Upgrades},
		{poolsCapability, can.Pools && a.Control.Pools.Deps.Pools.Missing == nil},
		{importsCapability, can.Imports},
		{sleepCapability, can.Sleep && a.Control.Clusters.CanSleep},
	} {
		if c.can {
			all = append(all, c.name)
		}
	}
	return all
}

// regionStatus is what the operator says of a region, unless it can't be reached.
func (a *API) regionStatus(r catalog.Region) string {
	if a.Catalog.Abilities(r.ID).Away != "" {
		return "degraded"
	}
	return r.Status
}

type regionView struct {
	ID              string         `json:"id"`
	Label           string         `json:"label"`
	Country         string         `json:"country"`
	Capabilities    []string       `json:"capabilities" nullable:"false" doc:"What databases there can have; the rest is answered with a 400."`
	Status          string         `json:"status" doc:"degraded while the region can't be reached: what is there serves on, and nothing can be changed."`
	SiteType        string         `json:"site_type"`
	Resolvers       resolversView  `json:"resolvers"`
	Monitors        monitorsView   `json:"monitors" doc:"Always empty: databases are watched as any service is."`
	PlacementLimits map[string]any `json:"placement_group_limits" nullable:"true" doc:"Always null: there are no placement groups."`
}

func (a *API) showRegion(r catalog.Region) regionView {
	return regionView{
		ID: r.ID, Label: r.Label, Country: strings.ToLower(r.Country), Capabilities: a.capabilities(r.ID), Status: a.regionStatus(r), SiteType: "core",
		Resolvers: resolversView{r.Resolvers.IPv4, r.Resolvers.IPv6}, Monitors: monitorsView{[]string{}, []string{}},
	}
}

// availabilityView says whether a plan can be had in a region.
type availabilityView struct {
	Region    string `json:"region"`
	Plan      string `json:"plan"`
	Available bool   `json:"available" doc:"false for plans that are deprecated: they go on serving what has them."`
}

// available is every plan in every one of the regions.
func (a *API) available(regions ...catalog.Region) []availabilityView {
	views := make([]availabilityView, 0, len(regions)*len(a.Catalog.Plans))
	for _, r := range regions {
		for _, p := range a.Catalog.Plans {
			views = append(views, availabilityView{r.ID, p.ID, !p.Deprecated})
		}
	}
	return views
}

// itself shows what is a view already.
func itself[T any](v T) T { return v }

func (a *API) registerAvailability() {
	fields := filter.Fields{"region": filter.Text, "plan": filter.Text, "available": filter.Bool}
	everywhere := inMemory[availabilityView]{a.available(a.Catalog.Regions...), fields, func(v availabilityView, field string) any {
		switch field {
		case "region":
			return v.Region
		case "plan":
			return v.Plan
		}
		return v.Available
	}}
	register(a, endpoint{method: http.MethodGet, path: "/v4/regions/availability", id: "listRegionsAvailability", summary: "List which plans can be had in which regions", tag: "Catalog", public: true},
		func(_ context.Context, c call[Listing, none]) (list[availabilityView], error) {
			return listInMemory(everywhere, c.In, itself)
		})
	register(a, endpoint{method: http.MethodGet, path: "/v4/regions/{id}/availability", id: "viewRegionAvailability", summary: "View which plans can be had in a region", tag: "Catalog", public: true},
		func(_ context.Context, c call[textPath, none]) ([]availabilityView, error) {
			r, ok := a.Catalog.Region(c.In.ID)
			if !ok {
				return nil, fault.NewNotFound()
			}
			return a.available(r), nil
		})
}

func (a *API) registerRegions() {
	a.registerAvailability()
	registerCatalog(a, "/v4/regions", "Region", "regions", a.regionsInMemory(a.Catalog.Regions), a.Catalog.Region, a.showRegion)
}
