package api

import (
	"context"
	"fmt"
	"net/http"

	"steward/internal/cluster"
	"steward/internal/filter"
	"steward/internal/logical"
)

// logicalView is a logical database.
type logicalView struct {
	Name      string  `json:"name"`
	Owner     *string `json:"owner" doc:"The user that it belongs to; null for MySQL and MariaDB, where databases have none."`
	Encoding  string  `json:"encoding"`
	Collation string  `json:"collation"`
}

func showLogical(d logical.Database) logicalView {
	return logicalView{d.Name, textOrNull(d.Owner), d.Encoding, d.Collation}
}

// logicalCreate asks for a logical database.
type logicalCreate struct {
	Name      string  `json:"name" maxLength:"64" minLength:"1"`
	Owner     *string `json:"owner,omitempty" maxLength:"64" minLength:"1" doc:"The user that it belongs to; dbadmin when left out. PostgreSQL only."`
	Encoding  *string `json:"encoding,omitempty" maxLength:"64" minLength:"1" doc:"In the server's words, such as UTF8 or utf8mb4; the server's own when left out."`
	Collation *string `json:"collation,omitempty" maxLength:"64" minLength:"1" doc:"In the server's words, such as de-x-icu or utf8mb4_general_ci; the server's own when left out."`
}

// grantedView is what a user may do in a logical database.
type grantedView struct {
	Database  string `json:"database" maxLength:"64" minLength:"1"`
	Privilege string `json:"privilege" enum:"read,write,owner" doc:"Each includes those before it, for the tables that are there and those to come."`
}

// loginUserView is a user of a database.
type loginUserView struct {
	Username string        `json:"username"`
	Grants   []grantedView `json:"grants" nullable:"false"`
}

func showLoginUser(u logical.User) loginUserView {
	v := loginUserView{u.Name, make([]grantedView, len(u.Grants))}
	for i, g := range u.Grants {
		v.Grants[i] = grantedView{g.Database, string(g.Privilege)}
	}
	return v
}

// madeUserView is a user with its password.
type madeUserView struct {
	Username string        `json:"username"`
	Grants   []grantedView `json:"grants" nullable:"false"`
	Password string        `json:"password" doc:"It is answered this once, and kept nowhere."`
}

// loginUserCreate asks for a user.
type loginUserCreate struct {
	Username string         `json:"username" maxLength:"63" minLength:"1"`
	Grants   *[]grantedView `json:"grants,omitempty" maxItems:"200"`
}

// loginUserUpdate changes a user.
type loginUserUpdate struct {
	Grants *[]grantedView `json:"grants,omitempty" maxItems:"200" doc:"All that the user is to have; others are taken."`
}

// userPasswordView is a password that was made.
type userPasswordView struct {
	Username string `json:"username"`
	Password string `json:"password" doc:"It is answered this once, and kept nowhere."`
}

// grantsOf are those of a body.
func grantsOf(body *[]grantedView) *[]logical.Grant {
	if body == nil {
		return nil
	}
	grants := make([]logical.Grant, len(*body))
	for i, g := range *body {
		grants[i] = logical.Grant{Database: g.Database, Privilege: logical.Privilege(g.Privilege)}
	}
	return &grants
}

// orEmpty is what a member that may be left out has, "" when it is.
func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

type logicalPath struct {
	ID   int64  `path:"instanceId" minimum:"1" doc:"The database."`
	Name string `path:"databaseName" minLength:"1" maxLength:"256" doc:"The logical database's name."`
}

type loginUserPath struct {
	ID   int64  `path:"instanceId" minimum:"1" doc:"The database."`
	Name string `path:"databaseUser" minLength:"1" maxLength:"256" doc:"The user's name."`
}

// logicalInput are the parameters of the lists.
type logicalInput struct {
	ID int64 `path:"instanceId" minimum:"1" doc:"The database."`
	Listing
}

var (
	logicalFields   = filter.Fields{"name": filter.Text, "owner": filter.Text, "encoding": filter.Text, "collation": filter.Text}
	loginUserFields = filter.Fields{"username": filter.Text}
)

func logicalMember(d logical.Database, field string) any {
	switch field {
	case "name":
		return d.Name
	case "owner":
		return d.Owner
	case "encoding":
		return d.Encoding
	}
	return d.Collation
}

func loginUserMember(u logical.User, _ string) any { return u.Name }

// registerLogical adds the operations on logical databases and users of one engine's databases.
func (a *API) registerLogical(engine cluster.Engine, name string) {
	a.registerLogicalDatabases(engine, name)
	a.registerLogicalUsers(engine, name)
}

func (a *API) registerLogicalDatabases(engine cluster.Engine, name string) {
	inside := a.Control.Logical
	all := fmt.Sprintf("/v4/databases/%s/instances/{instanceId}/databases", engine)
	one := all + "/{databaseName}"
	tag := name + " databases"
	register(a, endpoint{
		method: http.MethodGet, path: all, id: "listLogicalOf" + name + "Database", summary: "List the logical databases of a database", tag: tag, scope: readDatabases,
	}, func(ctx context.Context, c call[logicalInput, none]) (list[logicalView], error) {
		if _, err := c.In.query(logicalFields); err != nil { // before a server is asked
			return list[logicalView]{}, err
		}
		found, err := inside.Databases(ctx, c.Principal, engine, cluster.ID(c.In.ID))
		if err != nil {
			return list[logicalView]{}, err
		}
		return listInMemory(inMemory[logical.Database]{found, logicalFields, logicalMember}, c.In.Listing, showLogical)
	})
	register(a, endpoint{
		method: http.MethodPost, path: all, id: "createLogicalOf" + name + "Database", summary: "Create a logical database", tag: tag, scope: writeDatabases,
	}, func(ctx context.Context, c call[instancePath, logicalCreate]) (logicalView, error) {
		asked := logical.Database{Name: c.Body.Name, Owner: orEmpty(c.Body.Owner), Encoding: orEmpty(c.Body.Encoding), Collation: orEmpty(c.Body.Collation)}
		made, err := inside.CreateDatabase(ctx, c.Principal, engine, cluster.ID(c.In.ID), asked, c.Faults)
		return showLogical(made), err
	})
	register(a, endpoint{
		method: http.MethodGet, path: one, id: "viewLogicalOf" + name + "Database", summary: "View a logical database", tag: tag, scope: readDatabases,
	}, func(ctx context.Context, c call[logicalPath, none]) (logicalView, error) {
		found, err := inside.Database(ctx, c.Principal, engine, cluster.ID(c.In.ID), c.In.Name)
		return showLogical(found), err
	})
	register(a, endpoint{
		method: http.MethodDelete, path: one, id: "deleteLogicalOf" + name + "Database", summary: "Delete a logical database and all its data", tag: tag, scope: writeDatabases,
	}, func(ctx context.Context, c call[logicalPath, none]) (empty, error) {
		return empty{}, inside.DeleteDatabase(ctx, c.Principal, engine, cluster.ID(c.In.ID), c.In.Name)
	})
}

func (a *API) registerLogicalUsers(engine cluster.Engine, name string) {
	inside := a.Control.Logical
	all := fmt.Sprintf("/v4/databases/%s/instances/{instanceId}/users", engine)
	one := all + "/{databaseUser}"
	tag := name + " databases"
	register(a, endpoint{
		method: http.MethodGet, path: all, id: "listUsersOf" + name + "Database", summary: "List the users of a database, but its root user", tag: tag, scope: readDatabases,
	}, func(ctx context.Context, c call[logicalInput, none]) (list[loginUserView], error) {
		if _, err := c.In.query(loginUserFields); err != nil { // before a server is asked
			return list[loginUserView]{}, err
		}
		found, err := inside.Users(ctx, c.Principal, engine, cluster.ID(c.In.ID))
		if err != nil {
			return list[loginUserView]{}, err
		}
		return listInMemory(inMemory[logical.User]{found, loginUserFields, loginUserMember}, c.In.Listing, showLoginUser)
	})
	register(a, endpoint{
		method: http.MethodPost, path: all, id: "createUserOf" + name + "Database", summary: "Create a user; its password is answered this once", tag: tag, scope: writeDatabases, secret: true,
	}, func(ctx context.Context, c call[instancePath, loginUserCreate]) (madeUserView, error) {
		asked := logical.User{Name: c.Body.Username}
		if grants := grantsOf(c.Body.Grants); grants != nil {
			asked.Grants = *grants
		}
		made, password, err := inside.CreateUser(ctx, c.Principal, engine, cluster.ID(c.In.ID), asked, c.Faults)
		v := showLoginUser(made)
		return madeUserView{v.Username, v.Grants, password}, err
	})
	register(a, endpoint{
		method: http.MethodGet, path: one, id: "viewUserOf" + name + "Database", summary: "View a user of a database", tag: tag, scope: readDatabases,
	}, func(ctx context.Context, c call[loginUserPath, none]) (loginUserView, error) {
		found, err := inside.User(ctx, c.Principal, engine, cluster.ID(c.In.ID), c.In.Name)
		return showLoginUser(found), err
	})
	register(a, endpoint{
		method: http.MethodPut, path: one, id: "updateUserOf" + name + "Database", summary: "Give a user other grants", tag: tag, scope: writeDatabases,
	}, func(ctx context.Context, c call[loginUserPath, loginUserUpdate]) (loginUserView, error) {
		changed, err := inside.UpdateUser(ctx, c.Principal, engine, cluster.ID(c.In.ID), c.In.Name, grantsOf(c.Body.Grants), c.Faults)
		return showLoginUser(changed), err
	})
	register(a, endpoint{
		method: http.MethodDelete, path: one, id: "deleteUserOf" + name + "Database", summary: "Delete a user that owns nothing", tag: tag, scope: writeDatabases,
	}, func(ctx context.Context, c call[loginUserPath, none]) (empty, error) {
		return empty{}, inside.DeleteUser(ctx, c.Principal, engine, cluster.ID(c.In.ID), c.In.Name)
	})
	register(a, endpoint{
		method: http.MethodPost, path: one + "/credentials/reset", id: "resetUserOf" + name + "Database", summary: "Give a user a new password, answered this once, and end its sessions",
		tag: tag, scope: writeDatabases, secret: true,
	}, func(ctx context.Context, c call[loginUserPath, none]) (userPasswordView, error) {
		password, err := inside.ResetUser(ctx, c.Principal, engine, cluster.ID(c.In.ID), c.In.Name)
		return userPasswordView{c.In.Name, password}, err
	})
}
