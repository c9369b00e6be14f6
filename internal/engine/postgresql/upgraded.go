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

// statisticsTargets are those of the rounds: rough statistics of everything come first.
var statisticsTargets = []int{1, 10, 0}

// polishTime is how long statistics of one table, or an index that is built anew, may take at least, and polishSlowest how
// many bytes a second are expected beyond that.
const (
	polishTime    = time.Minute
	polishSlowest = 4 << 20
)

// FinishUpgrade implements engine.MajorUpgrader: indexes whose texts sort otherwise by another version of a library are built anew,
// tables get statistics, and extensions the version that the server has.
func (d Driver) FinishUpgrade(ctx context.Context, n engine.Node) (note string, err error) {
	p := &upgradeFinish{n: n}
	for _, step := range []func(context.Context, string) error{p.reindex, p.analyze(statisticsTargets[0]), p.analyze(statisticsTargets[1]), p.analyze(statisticsTargets[2]), p.updateExtensions} {
		if err := eachDatabase(ctx, n, step); err != nil {
			return "", fmt.Errorf("finish upgrade: %w", err)
		}
	}
	return p.note(), nil
}

// upgradeFinish does what follows an upgrade, and keeps what couldn't be done.
type upgradeFinish struct {
	n          engine.Node
	unfinished []string
	extensions []string
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

// reindex builds those anew, and says then that the versions fit.
func (p *upgradeFinish) reindex(ctx context.Context, database string) error {
	if err := p.all(ctx, database, sortedOtherwise, nil); err != nil {
		return err
	}
	conn, err := asAdminIn(ctx, p.n, database, ownParameters())
	if err != nil {
		return err
	}
	defer closeSoon(ctx, conn)
	rows, err := query(ctx, conn, `SELECT format('ALTER COLLATION %I.%I REFRESH VERSION', s.nspname, o.collname) FROM pg_collation o JOIN pg_namespace s ON s.oid = o.collnamespace
		WHERE o.collversion <> pg_collation_actual_version(o.oid)
		UNION ALL SELECT format('ALTER DATABASE %I REFRESH COLLATION VERSION', datname) FROM pg_database
		WHERE datname = current_database() AND datcollversion <> pg_database_collation_actual_version(oid)`)
	if err != nil || len(p.unfinished) > 0 {
		return err
	}
	for _, row := range rows {
		if _, err := query(ctx, conn, row[0]); err != nil {
			return err
		}
	}
	return nil
}

// analyze makes statistics with a target, 0 for each table's own.
func (p *upgradeFinish) analyze(target int) func(context.Context, string) error {
	const tables = `SELECT format('%I.%I', s.nspname, c.relname), format('ANALYZE %I.%I', s.nspname, c.relname), coalesce(pg_table_size(c.oid), 0)
		FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'm', 'p') AND c.relpersistence <> 't' AND s.nspname <> 'pg_toast' ORDER BY 3`
	more := map[string]string{}
	if target > 0 {
		more["default_statistics_target"] = strconv.Itoa(target)
	}
	return func(ctx context.Context, database string) error { return p.all(ctx, database, tables, more) }
}

// all carries out what a query lists. Functions of customers' run, as their owners, while an index is built or analysed, as they do when
// the server does that by itself: who goes on for ever is ended.
func (p *upgradeFinish) all(ctx context.Context, database, list string, more map[string]string) error {
	parameters := ownParameters()
	parameters["statement_timeout"] = "0"
	maps.Copy(parameters, more)
	open := func() (*pgconn.PgConn, error) { return asAdminIn(ctx, p.n, database, parameters) }
	conn, err := open()
	if err != nil {
		return err
	}
	defer func() { closeSoon(ctx, conn) }()
	rows, err := query(ctx, conn, list)
	if err != nil {
		return err
	}
	for _, row := range rows {
		one := todo{name: row[0], statement: row[1]}
		if _, err := fmt.Sscan(row[2], &one.bytes); err != nil {
			return fmt.Errorf("size of %s: %w", one.name, err)
		}
		ended, err := p.one(ctx, conn, one)
		if err != nil {
			return err
		}
		if !ended {
			if conn, err = open(); err != nil {
				return err
			}
		}
	}
	return nil
}

// one carries a statement out; ended is false when it took too long, and its connection is gone.
func (p *upgradeFinish) one(ctx context.Context, conn *pgconn.PgConn, t todo) (ended bool, err error) {
	limited, cancel := context.WithTimeout(ctx, polishTime+time.Duration(t.bytes/polishSlowest)*time.Second)
	defer cancel()
	_, err = query(limited, conn, t.statement)
	refused, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil, ok && !conn.IsClosed() && dropped(refused):
		return true, nil
	case ok && !conn.IsClosed():
		p.unfinished = append(p.unfinished, t.name)
		return true, nil
	case limited.Err() != nil && ctx.Err() == nil:
		p.unfinished = append(p.unfinished, t.name)
		closeSoon(ctx, conn)
		return false, endSession(ctx, p.n, conn.PID())
	}
	return false, err
}

// updateExtensions gives extensions the version that the server has files of. dbadmin's are updated as dbadmin: what a customer planted
// would have our rights otherwise. Those that only we can make are updated by us.
func (p *upgradeFinish) updateExtensions(ctx context.Context, database string) error {
	rows, err := p.outdated(ctx, database)
	if err != nil {
		return err
	}
	x := extensions{p.n, database}
	for _, row := range rows {
		if err := x.UpdateExtension(ctx, row[0], ""); err != nil {
			if errors.Is(err, engine.ErrStarting) || ctx.Err() != nil {
				return err
			}
			p.extensions = append(p.extensions, row[0])
		}
	}
	return nil
}

// outdated are a database's extensions with an older version than the server has, but for our own.
func (p *upgradeFinish) outdated(ctx context.Context, database string) ([][]string, error) {
	conn, err := asAdminIn(ctx, p.n, database, ownParameters())
	if err != nil {
		return nil, err
	}
	defer closeSoon(ctx, conn)
	const own = "SELECT e.extname, %s FROM pg_extension e JOIN pg_available_extensions a ON a.name = e.extname WHERE e.extversion <> a.default_version AND (e.extowner %s '" + adminRole + "'::regrole%s)"
	if database == adminDatabase { // nobody else has made anything there
		rows, err := query(ctx, conn, fmt.Sprintf(own, "format('ALTER EXTENSION %I UPDATE', e.extname)", "=", ""))
		for i := 0; err == nil && i < len(rows); i++ {
			_, err = query(ctx, conn, rows[i][1])
		}
		return nil, err
	}
	return query(ctx, conn, fmt.Sprintf(own, "''", "<>", " OR e.extname IN ('"+strings.Join(slices.Sorted(maps.Keys(vetted)), "', '")+"')"))
}
