package api

import (
	"cmp"
	"context"
	"net/http"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/logical"
)

// extensionView is an extension, as seen from one logical database.
type extensionView struct {
	Name      string  `json:"name"`
	Version   string  `json:"version" doc:"The version that the server has."`
	Installed *string `json:"installed_version" doc:"The version in the logical database; null when it isn't in it."`
	Schema    *string `json:"schema" doc:"Where its objects are; null when it isn't in the logical database."`
	Offered   bool    `json:"offered" doc:"It can be created: the server trusts it, or steward makes it in a schema of its own."`
	Missing   *string `json:"missing" doc:"What it lacks to be created; null when it can be."`
	Comment   string  `json:"comment"`
}

func showExtension(x logical.Extension) extensionView {
	return extensionView{x.Name, x.Version, textOrNull(x.Installed), textOrNull(x.Schema), x.Offered, textOrNull(x.Missing), x.Comment}
}

// catalogView is an extension that a series of PostgreSQL comes with on this host.
type catalogView struct {
	Name      string  `json:"name"`
	Engine    string  `json:"engine" doc:"The series, as in the list of engines."`
	Version   string  `json:"version" doc:"The extension's version that comes with the series."`
	Offered   bool    `json:"offered" doc:"Databases of this host can have it."`
	Missing   *string `json:"missing" doc:"Why they can't; null when they can."`
	Parameter *string `json:"parameter" doc:"The setting of engine_config that has it loaded, without which it can't be created; null for none."`
	Comment   string  `json:"comment"`
}

// catalogExtension is an extension of a series.
type catalogExtension struct {
	engine string
	catalog.Extension
}

func showCatalogExtension(x catalogExtension) catalogView {
	return catalogView{x.Name, x.engine, x.Version, x.Missing == "", textOrNull(x.Missing), textOrNull(x.Parameter), x.Comment}
}

var catalogFields = filter.Fields{"name": filter.Text, "engine": filter.Text, "version": filter.Text}

func catalogMember(x catalogExtension, field string) any {
	switch field {
	case "name":
		return x.Name
	case "engine":
		return x.engine
	}
	return x.Version
}

// catalogInput are the parameters of the catalog.
type catalogInput struct {
	Version string `query:"version" doc:"A series of PostgreSQL; all when left out."`
	Listing
}

// extensionCatalog are the extensions of a series on this host, "" for all.
func (a *API) extensionCatalog(series string) (all []catalogExtension, err error) {
	known := false
	for _, e := range a.Catalog.Engines {
		if e.Engine != cluster.PostgreSQL || series != "" && e.Series != series {
			continue
		}
		known = true
		for _, x := range e.Extensions {
			all = append(all, catalogExtension{e.ID(), x})
		}
	}
	if !known && series != "" {
		return nil, fault.NotValid("version")
	}
	return all, nil
}

var extensionFields = filter.Fields{"name": filter.Text, "version": filter.Text, "installed_version": filter.Text, "schema": filter.Text}

func extensionMember(x logical.Extension, field string) any {
	switch field {
	case "name":
		return x.Name
	case "version":
		return x.Version
	case "schema":
		return x.Schema
	}
	return x.Installed
}

// extensionInput are the parameters of the list.
type extensionInput struct {
	ID       int64  `path:"instanceId" minimum:"1" doc:"The database."`
	Database string `query:"database" default:"defaultdb" doc:"The logical database."`
	Listing
}

type extensionPath struct {
	ID   int64  `path:"instanceId" minimum:"1" doc:"The database."`
	Name string `path:"extensionName" minLength:"1" maxLength:"256" doc:"The extension's name."`
}

// extensionDrop are the parameters of a delete.
type extensionDrop struct {
	ID       int64  `path:"instanceId" minimum:"1" doc:"The database."`
	Name     string `path:"extensionName" minLength:"1" maxLength:"256" doc:"The extension's name."`
	Database string `query:"database" default:"defaultdb" doc:"The logical database."`
	Cascade  bool   `query:"cascade" doc:"Drop what depends on it, too."`
}

// extensionCreate asks for an extension.
type extensionCreate struct {
	Database *string `json:"database,omitempty" maxLength:"63" minLength:"1" doc:"The logical database; defaultdb when left out."`
	Name     string  `json:"name" maxLength:"63" minLength:"1"`
	Schema   *string `json:"schema,omitempty" maxLength:"63" minLength:"1" doc:"Where its objects are made. When left out, public, or for an extension that needs a schema of its own a new one of its name."`
}

// extensionUpdate brings one to a version.
type extensionUpdate struct {
	Database *string `json:"database,omitempty" maxLength:"63" minLength:"1" doc:"The logical database; defaultdb when left out."`
	Version  *string `json:"version,omitempty" maxLength:"63" minLength:"1" doc:"The one that the server has when left out."`
}

// registerExtensions adds the operations on extensions of PostgreSQL.
func (a *API) registerExtensions() {
	inside := a.Control.Logical
	const all, tag = "/v4/databases/postgresql/instances/{instanceId}/extensions", "PostgreSQL databases"
	const one = all + "/{extensionName}"
	register(a, endpoint{
		method: http.MethodGet, path: "/v4/databases/postgresql/extensions", id: "listOfferedExtensions", summary: "List the extensions that PostgreSQL comes with on this host", tag: "Catalog", public: true,
	}, func(_ context.Context, c call[catalogInput, none]) (list[catalogView], error) {
		found, err := a.extensionCatalog(c.In.Version)
		if err != nil {
			return list[catalogView]{}, err
		}
		return listInMemory(inMemory[catalogExtension]{found, catalogFields, catalogMember}, c.In.Listing, showCatalogExtension)
	})
	register(a, endpoint{
		method: http.MethodGet, path: all, id: "listExtensions", summary: "List the extensions that a database offers, and that are in a logical database", tag: tag, scope: readDatabases,
	}, func(ctx context.Context, c call[extensionInput, none]) (list[extensionView], error) {
		if _, err := c.In.query(extensionFields); err != nil { // before a server is asked
			return list[extensionView]{}, err
		}
		found, err := inside.Extensions(ctx, c.Principal, cluster.ID(c.In.ID), cmp.Or(c.In.Database, defaultDatabase), nil)
		if err != nil {
			return list[extensionView]{}, err
		}
		return listInMemory(inMemory[logical.Extension]{found, extensionFields, extensionMember}, c.In.Listing, showExtension)
	})
	register(a, endpoint{
		method: http.MethodPost, path: all, id: "createExtension", summary: "Create an extension in a logical database, with all that it needs", tag: tag, scope: writeDatabases,
	}, func(ctx context.Context, c call[instancePath, extensionCreate]) (extensionView, error) {
		in := control.AskedExtension{Database: orDefault(c.Body.Database, defaultDatabase), Name: c.Body.Name, Schema: orEmpty(c.Body.Schema)}
		made, err := inside.CreateExtension(ctx, c.Principal, cluster.ID(c.In.ID), in, c.Faults)
		return showExtension(made), err
	})
	register(a, endpoint{
		method: http.MethodPut, path: one, id: "updateExtension", summary: "Bring an extension of a logical database to another version", tag: tag, scope: writeDatabases,
	}, func(ctx context.Context, c call[extensionPath, extensionUpdate]) (extensionView, error) {
		in := control.AskedExtension{Database: orDefault(c.Body.Database, defaultDatabase), Name: c.In.Name, Version: orEmpty(c.Body.Version)}
		changed, err := inside.UpdateExtension(ctx, c.Principal, cluster.ID(c.In.ID), in, c.Faults)
		return showExtension(changed), err
	})
	register(a, endpoint{
		method: http.MethodDelete, path: one, id: "deleteExtension", summary: "Drop an extension from a logical database", tag: tag, scope: writeDatabases,
	}, func(ctx context.Context, c call[extensionDrop, none]) (empty, error) {
		in := control.AskedExtension{Database: cmp.Or(c.In.Database, defaultDatabase), Name: c.In.Name, Cascade: c.In.Cascade}
		return empty{}, inside.DropExtension(ctx, c.Principal, cluster.ID(c.In.ID), in, c.Faults)
	})
}
