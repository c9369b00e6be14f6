package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"steward/internal/cluster"
	"steward/internal/migration"
	"steward/internal/seal"
	"steward/internal/store"
)

// sourceBody is a server elsewhere.
type sourceBody struct {
	Host     string  `json:"host" maxLength:"253" minLength:"1" doc:"Its name or address. Private addresses are reached only where the operator allows it."`
	Port     int     `json:"port" minimum:"1" maximum:"65535"`
	Username string  `json:"username" maxLength:"256" minLength:"1" doc:"A user who can read all of the databases."`
	Password string  `json:"password" maxLength:"256" minLength:"1" doc:"Kept sealed until the migration has ended, and never answered."`
	TLS      *string `json:"tls,omitempty" enum:"verify,require,off" default:"verify" doc:"verify: the certificate must be of a known authority, for host. require: encrypted, whoever answers. off: in the clear, the password of MariaDB and PostgreSQL only as a proof of it."`
	CA       *string `json:"ca,omitempty" maxLength:"65536" minLength:"1" doc:"Certificates, as PEM, of the authorities for tls: verify; the system's when left out."`
}

// migratedBody is a database of a source's.
type migratedBody struct {
	Name string  `json:"name" maxLength:"256" minLength:"1" doc:"Its name at the source."`
	As   *string `json:"as,omitempty" maxLength:"64" minLength:"1" doc:"The name that it gets here, where none of that name may be; the same when left out."`
}

// migrationBody asks for databases to be brought over.
type migrationBody struct {
	Source    sourceBody     `json:"source"`
	Databases []migratedBody `json:"databases" minItems:"1" maxItems:"20" nullable:"false"`
	Mode      *string        `json:"mode,omitempty" enum:"dump,replicate" default:"dump" doc:"dump: a copy as of one moment; what is written afterwards stays behind. replicate: what is written afterwards comes over, too, until the cutover."`
}

// migration is what the body asks for, and the source's password.
func (b migrationBody) migration() (migration.Migration, seal.Secret) {
	m := migration.Migration{
		Source: migration.Source{Host: b.Source.Host, Port: b.Source.Port, Username: b.Source.Username, TLS: migration.TLS(cmp.Or(orEmpty(b.Source.TLS), string(migration.Verify))), CA: orEmpty(b.Source.CA)},
		Mode:   migration.Mode(cmp.Or(orEmpty(b.Mode), string(migration.Dump))),
	}
	for _, d := range b.Databases {
		m.Databases = append(m.Databases, migration.Database{From: d.Name, To: cmp.Or(orEmpty(d.As), d.Name)})
	}
	return m, seal.NewSecret(b.Source.Password)
}

// sourceView is a source without its password.
type sourceView struct {
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Username string `json:"username"`
	TLS      string `json:"tls" enum:"verify,require,off"`
}

// migratedView is a database on its way.
type migratedView struct {
	Name string `json:"name"`
	As   string `json:"as"`
	Done bool   `json:"done"`
}

// migratedTableView is how far a table is.
type migratedTableView struct {
	Database   string `json:"database"`
	Name       string `json:"name"`
	Bytes      int64  `json:"bytes" doc:"Received so far."`
	TotalBytes int64  `json:"total_bytes" doc:"About what it takes on the source's disk; 0 where that isn't known."`
	Done       bool   `json:"done"`
}

// migrationProblemView is something about a source that its owner should know.
type migrationProblemView struct {
	Database *string `json:"database" doc:"The database at the source; null for the server."`
	Blocking bool    `json:"blocking" doc:"Whether nothing is brought over while it lasts."`
	Message  string  `json:"message"`
}

// migrationView is a migration.
type migrationView struct {
	ID         int64                  `json:"id"`
	Source     sourceView             `json:"source"`
	Databases  []migratedView         `json:"databases" nullable:"false"`
	Mode       string                 `json:"mode" enum:"dump,replicate"`
	Status     string                 `json:"status" enum:"pending,running,canceling,finished,failed,canceled"`
	Phase      *string                `json:"phase" enum:"checking,schema,copying,indexes,analyzing,following,cutting_over,validating" doc:"What is done, or was done last; null before it has begun. With mode replicate: in following it waits for the cutover, from validating on the databases here are to be written to."`
	Bytes      int64                  `json:"bytes" doc:"Rows received so far."`
	TotalBytes int64                  `json:"total_bytes" doc:"About what the databases take on the source's disk, with indexes."`
	Tables     []migratedTableView    `json:"tables" nullable:"false" doc:"At most 500 of them."`
	TablesDone int                    `json:"tables_done"`
	TablesAll  int                    `json:"tables_all"`
	Problems   []migrationProblemView `json:"problems" nullable:"false" doc:"What was found about the source."`
	LagBytes   *int64                 `json:"lag_bytes" doc:"How much the source has logged that isn't here yet; null while it isn't followed."`
	LagSeconds *int64                 `json:"lag_seconds" doc:"How long ago all was here that the source had, as far as is known: it grows while the source sends nothing. Null while it isn't followed."`
	Cutover    *string                `json:"cutover" format:"date-time" doc:"When the cutover was asked for."`
	Problem    *string                `json:"problem" doc:"Why it failed, or what is left to do at the source; while it runs, why nothing goes on now, and until when that is waited for."`
	Created    string                 `json:"created" format:"date-time"`
	Finished   *string                `json:"finished" format:"date-time"`
}

func showMigration(m migration.Migration) migrationView {
	p := m.Progress
	v := migrationView{
		ID: int64(m.ID), Source: sourceView{m.Source.Host, m.Source.Port, m.Source.Username, string(m.Source.TLS)}, Mode: string(m.Mode), Status: string(m.Status),
		Phase: textOrNull(string(p.Phase)), Bytes: p.Bytes, TotalBytes: p.TotalBytes, TablesDone: p.TablesDone, TablesAll: p.TablesAll,
		Databases: []migratedView{}, Tables: []migratedTableView{}, Problems: showProblems(p.Problems), Problem: textOrNull(m.Problem), Cutover: optionalTime(m.Cutover),
		Created: showTime(m.Created), Finished: optionalTime(m.Finished),
	}
	if p.Lag != nil && !m.Status.Ended() {
		v.LagBytes, v.LagSeconds = &p.Lag.Bytes, &p.Lag.Seconds
	}
	if !m.Status.Ended() {
		v.Problem = textOrNull(cmp.Or(m.Problem, p.Waiting))
	}
	for _, d := range m.Databases {
		v.Databases = append(v.Databases, migratedView{d.From, d.To, d.Done})
	}
	for _, t := range p.Tables {
		v.Tables = append(v.Tables, migratedTableView(t))
	}
	return v
}

func showProblems(all []migration.Problem) []migrationProblemView {
	views := make([]migrationProblemView, len(all))
	for i, p := range all {
		views[i] = migrationProblemView{textOrNull(p.Database), p.Blocking, p.Message}
	}
	return views
}

// migrationReportView is what was found out about a source.
type migrationReportView struct {
	Possible   bool                   `json:"possible" doc:"Whether a migration would begin."`
	Version    string                 `json:"version" doc:"The source's."`
	TotalBytes int64                  `json:"total_bytes" doc:"About what the databases take on the source's disk."`
	Replicates bool                   `json:"replicates" doc:"Whether the source's settings and the user's rights would let it be followed by replication."`
	Problems   []migrationProblemView `json:"problems" nullable:"false"`
}

type migrationPath struct {
	ID        int64 `path:"instanceId" minimum:"1" doc:"The database."`
	Migration int64 `path:"migrationId" minimum:"1" doc:"The migration."`
}

type migrationListing struct {
	ID int64 `path:"instanceId" minimum:"1" doc:"The database."`
	Listing
}

// registerMigrations adds the operations that bring databases over from servers elsewhere.
func (a *API) registerMigrations(engine cluster.Engine, name string) {
	migrations := a.Control.Migrations
	all := fmt.Sprintf("/v4/databases/%s/instances/{instanceId}/migrations", engine)
	one := all + "/{migrationId}"
	e := func(method, path, verb, noun, summary string) endpoint {
		return endpoint{method: method, path: path, id: verb + name + noun, summary: summary, tag: name + " databases", scope: writeDatabases}
	}
	read := func(e endpoint) endpoint {
		e.scope = readDatabases
		return e
	}
	register(a, read(e(http.MethodGet, all, "list", "Migrations", "List a database's migrations from servers elsewhere, newest first")),
		func(ctx context.Context, c call[migrationListing, none]) (list[migrationView], error) {
			return listPage(c.In.Listing, store.MigrationFields, showMigration, func(q store.ListQuery) ([]migration.Migration, int, error) {
				return migrations.List(ctx, c.Principal, engine, cluster.ID(c.In.ID), q)
			})
		})
	register(a, e(http.MethodPost, all, "create", "Migration", "Begin to bring logical databases over from a server elsewhere"),
		func(ctx context.Context, c call[instancePath, migrationBody]) (migrationView, error) {
			m, password := c.Body.migration()
			made, err := migrations.Create(ctx, c.Principal, engine, cluster.ID(c.In.ID), m, password, c.Faults)
			return showMigration(made), err
		})
	register(a, e(http.MethodPost, all+"/check", "check", "Migration", "Say whether logical databases could be brought over from a server elsewhere; nothing is kept of it"),
		func(ctx context.Context, c call[instancePath, migrationBody]) (migrationReportView, error) {
			m, password := c.Body.migration()
			r, err := migrations.Check(ctx, c.Principal, engine, cluster.ID(c.In.ID), m, password, c.Faults)
			return migrationReportView{!r.Blocks(), r.Version, r.Bytes, r.Replicates, showProblems(r.Problems)}, err
		})
	register(a, read(e(http.MethodGet, one, "view", "Migration", "View a migration")),
		func(ctx context.Context, c call[migrationPath, none]) (migrationView, error) {
			found, err := migrations.View(ctx, c.Principal, engine, cluster.ID(c.In.ID), migration.ID(c.In.Migration))
			return showMigration(found), err
		})
	register(a, e(http.MethodPost, one+"/cutover", "cutOver", "Migration", "End following the source: what it has by now comes over, then the databases here take its place. Stop writing to the source first"),
		func(ctx context.Context, c call[migrationPath, none]) (migrationView, error) {
			found, err := migrations.CutOver(ctx, c.Principal, engine, cluster.ID(c.In.ID), migration.ID(c.In.Migration))
			return showMigration(found), err
		})
	register(a, e(http.MethodDelete, one, "delete", "Migration", "Cancel a migration and remove what isn't complete, or forget one that has ended"),
		func(ctx context.Context, c call[migrationPath, none]) (empty, error) {
			return empty{}, migrations.Delete(ctx, c.Principal, engine, cluster.ID(c.In.ID), migration.ID(c.In.Migration))
		})
}
