package postgresql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// firstCreateRole is the series from which on dbadmin manages users by SQL of the server's own.
const firstCreateRole = 16

// AdoptSeries implements engine.MajorUpgrader. pg_upgrade doesn't know of settings for all roles, which Fence makes.
func (d Driver) AdoptSeries(ctx context.Context, n engine.Node) error {
	major, err := majorOf(n.Installation)
	if err != nil || n.Role == cluster.Replica {
		return err
	}
	statements := []string{
		"ALTER ROLE " + customerRole + " " + rightsOf(major),
		"REVOKE ALL ON DATABASE template1 FROM PUBLIC", "REVOKE ALL ON DATABASE postgres FROM PUBLIC",
	}
	if major >= firstCreateRole {
		// What steward.create_user made dbadmin a member of it can change and drop from now on, as what it makes itself.
		users, err := ask(ctx, n, "SELECT format('GRANT %1$I TO "+customerRole+" WITH ADMIN OPTION; COMMENT ON ROLE %1$I IS NULL', r.rolname) FROM pg_roles r "+
			"WHERE NOT r.rolsuper AND shobj_description(r.oid, 'pg_authid') = 'made by steward.create_user'")
		if err != nil {
			return fmt.Errorf("adopt users: %w", err)
		}
		for _, row := range users {
			statements = append(statements, row[0])
		}
	}
	if _, err := ask(ctx, n, strings.Join(statements, "; ")); err != nil {
		return fmt.Errorf("adopt roles: %w", err)
	}
	if major < firstCreateRole {
		return nil
	}
	return eachDatabase(ctx, n, func(ctx context.Context, database string) error {
		conn, err := asAdminIn(ctx, n, database, ownParameters())
		if err != nil {
			return err
		}
		defer closeSoon(ctx, conn)
		rows, err := query(ctx, conn, "SELECT 1 FROM pg_namespace WHERE nspname = 'steward' AND nspowner = '"+adminRole+"'::regrole")
		if err == nil && len(rows) > 0 {
			_, err = query(ctx, conn, "DROP SCHEMA steward CASCADE")
		}
		return err
	})
}

// eachDatabase does something with each database that can be connected to.
func eachDatabase(ctx context.Context, n engine.Node, do func(ctx context.Context, database string) error) error {
	rows, err := ask(ctx, n, "SELECT datname FROM pg_database WHERE datallowconn AND datconnlimit <> -2 ORDER BY oid")
	if err != nil {
		return fmt.Errorf("list databases: %w", err)
	}
	for _, row := range rows {
		if err := do(ctx, row[0]); err != nil {
			return fmt.Errorf("database %s: %w", row[0], err)
		}
	}
	return nil
}

// polishTime is how long statistics of one table, or an index that is built anew, may take at least, and polishSlowest how
// many bytes a second are expected beyond that.
const (
	polishTime    = time.Minute
	polishSlowest = 4 << 20
)

// FinishUpgrade implements engine.MajorUpgrader: indexes whose texts sort otherwise by another version of a library are built anew,
// tables get statistics, and extensions the version that the server has. Large tables get better statistics once all have some.
func (d Driver) FinishUpgrade(ctx context.Context, n engine.Node) (note string, err error) {
	p := &upgradeFinish{n: n}
	if err := eachDatabase(ctx, n, p.finish); err != nil {
		return "", fmt.Errorf("finish upgrade: %w", err)
	}
	for _, target := range []int{betterTarget, ownTarget} {
		for _, database := range p.large {
			if err := p.refine(ctx, database, target); err != nil {
				return "", fmt.Errorf("finish upgrade: database %s: %w", database, err)
			}
		}
	}
	return p.note(), nil
}

// The targets of large tables' statistics, one after the other, as of vacuumdb's --analyze-in-stages; ownTarget stands for each table's own.
const (
	roughTarget  = 1
	betterTarget = 10
	ownTarget    = 0
)

// smallTable is for how many bytes, at most, a table's own statistics take hardly longer than rough ones: a sample of it is most of it.
const smallTable = 1 << 20

// upgradeFinish does what follows an upgrade, and keeps what couldn't be done.
type upgradeFinish struct {
	n          engine.Node
	unfinished []string
	extensions []string
	// large are the databases with tables that are no small ones.
	large []string
}

// finish does all for a database but for the better statistics of large tables.
func (p *upgradeFinish) finish(ctx context.Context, database string) error {
	f := &databaseFinish{upgradeFinish: p, database: database}
	if err := f.open(ctx, ownTarget); err != nil {
		return err
	}
	defer f.close(ctx)
	for _, step := range []func(context.Context) error{f.reindex, f.analyze, f.updateExtensions} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// refine gives a database's large tables statistics by a target.
func (p *upgradeFinish) refine(ctx context.Context, database string, target int) error {
	f := &databaseFinish{upgradeFinish: p, database: database}
	if err := f.open(ctx, target); err != nil {
		return err
	}
	defer f.close(ctx)
	_, large, err := f.tables(ctx)
	if err != nil {
		return err
	}
	return f.all(ctx, large)
}

func (p *upgradeFinish) note() string {
	var notes []string
	if len(p.unfinished) > 0 {
		notes = append(notes, fmt.Sprintf("%d tables or indexes couldn't be analysed or built anew in time, the first of them %s.", len(p.unfinished), p.unfinished[0]))
	}
	if len(p.extensions) > 0 {
		notes = append(notes, "These extensions have an older version than the server offers: "+strings.Join(p.extensions, ", ")+".")
	}
	return strings.Join(notes, " ")
}

// todo is a statement about something of so many bytes.
type todo struct {
	name, statement string
	bytes           int64
}

// sortedOtherwise are the indexes by a collation, or in a database, whose library has another version than they were made with.
const sortedOtherwise = `SELECT format('%I.%I', s.nspname, c.relname), format('REINDEX INDEX CONCURRENTLY %I.%I', s.nspname, c.relname), pg_relation_size(c.oid)
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace s ON s.oid = c.relnamespace
	WHERE c.relkind = 'i' AND s.nspname NOT IN ('pg_catalog', 'pg_toast') AND EXISTS (
		SELECT FROM pg_collation o WHERE o.oid = ANY (i.indcollation::oid[]) AND (o.collversion <> pg_collation_actual_version(o.oid)
			OR o.collname = 'default' AND EXISTS (SELECT FROM pg_database d WHERE d.datname = current_database() AND d.datcollversion <> pg_database_collation_actual_version(d.oid))))`

// databaseFinish does what there is to do in a database, in one session for each target of its statistics.
type databaseFinish struct {
	*upgradeFinish
	database string
	conn     *pgconn.PgConn
	target   int
}

// open begins a session whose statistics have a target. What is done in it has limits of its own.
func (f *databaseFinish) open(ctx context.Context, target int) (err error) {
	parameters := ownParameters()
	parameters["statement_timeout"] = "0"
	if target != ownTarget {
		parameters["default_statistics_target"] = strconv.Itoa(target)
	}
	f.target = target
	f.conn, err = asAdminIn(ctx, f.n, f.database, parameters)
	return err
}

func (f *databaseFinish) close(ctx context.Context) {
	if f.conn != nil {
		closeSoon(ctx, f.conn)
	}
}

// reindex builds those anew, and says then that the versions fit.
func (f *databaseFinish) reindex(ctx context.Context) error {
	indexes, err := f.list(ctx, sortedOtherwise)
	if err != nil {
		return err
	}
	before := len(f.unfinished)
	if err := f.all(ctx, indexes); err != nil || len(f.unfinished) > before {
		return err
	}
	rows, err := query(ctx, f.conn, `SELECT format('ALTER COLLATION %I.%I REFRESH VERSION', s.nspname, o.collname) FROM pg_collation o JOIN pg_namespace s ON s.oid = o.collnamespace
		WHERE o.collversion <> pg_collation_actual_version(o.oid)
		UNION ALL SELECT format('ALTER DATABASE %I REFRESH COLLATION VERSION', datname) FROM pg_database
		WHERE datname = current_database() AND datcollversion <> pg_database_collation_actual_version(oid)`)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := query(ctx, f.conn, row[0]); err != nil {
			return err
		}
	}
	return nil
}

// analyze gives small tables their statistics, and large ones rough ones.
func (f *databaseFinish) analyze(ctx context.Context) error {
	small, large, err := f.tables(ctx)
	if err != nil {
		return err
	}
	if err := f.all(ctx, small); err != nil || len(large) == 0 {
		return err
	}
	f.large = append(f.large, f.database)
	f.close(ctx)
	if err := f.open(ctx, roughTarget); err != nil {
		return err
	}
	return f.all(ctx, large)
}

// tables are those that have statistics, the smallest first. The server samples tables with all that inherit from them, partitions too.
func (f *databaseFinish) tables(ctx context.Context) (small, large []todo, err error) {
	all, err := f.list(ctx, `SELECT format('%I.%I', s.nspname, c.relname), format('ANALYZE %I.%I', s.nspname, c.relname), (
			WITH RECURSIVE tree AS (SELECT c.oid UNION SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = tree.oid)
			SELECT coalesce(sum(pg_table_size(oid)), 0)::bigint FROM tree)
		FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'm', 'p') AND c.relpersistence <> 't' AND s.nspname <> 'pg_toast' ORDER BY 3`)
	if err != nil {
		return nil, nil, err
	}
	for i, t := range all {
		if t.bytes > smallTable {
			return all[:i], all[i:], nil
		}
	}
	return all, nil, nil
}

// list is what a query found to be done.
func (f *databaseFinish) list(ctx context.Context, sql string) (all []todo, err error) {
	rows, err := query(ctx, f.conn, sql)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		one := todo{name: row[0], statement: row[1]}
		if _, err := fmt.Sscan(row[2], &one.bytes); err != nil {
			return nil, fmt.Errorf("size of %s: %w", one.name, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// all carries out what was found. Functions of customers' run, as their owners, while an index is built or analysed, as they do when
// the server does that by itself: who goes on for ever is ended.
func (f *databaseFinish) all(ctx context.Context, found []todo) error {
	for _, one := range found {
		ended, err := f.one(ctx, one)
		if err != nil {
			return err
		}
		if !ended {
			if err := f.open(ctx, f.target); err != nil {
				return err
			}
		}
	}
	return nil
}

// one carries a statement out; ended is false when it took too long, and its connection is gone.
func (f *databaseFinish) one(ctx context.Context, t todo) (ended bool, err error) {
	limited, cancel := context.WithTimeout(ctx, polishTime+time.Duration(t.bytes/polishSlowest)*time.Second)
	defer cancel()
	_, err = query(limited, f.conn, t.statement)
	refused, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil, ok && !f.conn.IsClosed() && dropped(refused):
		return true, nil
	case ok && !f.conn.IsClosed():
		f.unfinished = append(f.unfinished, t.name)
		return true, nil
	case limited.Err() != nil && ctx.Err() == nil:
		f.unfinished = append(f.unfinished, t.name)
		f.close(ctx)
		return false, endSession(ctx, f.n, f.conn.PID())
	}
	return false, err
}

// updateExtensions gives extensions the version that the server has files of. dbadmin's are updated as dbadmin: what a customer planted
// would have our rights otherwise. Those that only we can make are updated by us.
func (f *databaseFinish) updateExtensions(ctx context.Context) error {
	rows, err := f.outdated(ctx)
	if err != nil {
		return err
	}
	x := extensions{f.n, f.database}
	for _, row := range rows {
		if err := x.UpdateExtension(ctx, row[0], ""); err != nil {
			if errors.Is(err, engine.ErrStarting) || ctx.Err() != nil {
				return err
			}
			f.extensions = append(f.extensions, row[0])
		}
	}
	return nil
}

// outdated are a database's extensions with an older version than the server has, but for our own.
func (f *databaseFinish) outdated(ctx context.Context) ([][]string, error) {
	const own = "SELECT e.extname, %s FROM pg_extension e JOIN pg_available_extensions a ON a.name = e.extname WHERE e.extversion <> a.default_version AND (e.extowner %s '" + adminRole + "'::regrole%s)"
	if f.database == adminDatabase { // nobody else has made anything there
		rows, err := query(ctx, f.conn, fmt.Sprintf(own, "format('ALTER EXTENSION %I UPDATE', e.extname)", "=", ""))
		for i := 0; err == nil && i < len(rows); i++ {
			_, err = query(ctx, f.conn, rows[i][1])
		}
		return nil, err
	}
	return query(ctx, f.conn, fmt.Sprintf(own, "''", "<>", " OR e.extname IN ('"+strings.Join(slices.Sorted(maps.Keys(vetted)), "', '")+"')"))
}
