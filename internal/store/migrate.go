package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrateLock is the advisory lock of whoever migrates. Others wait in the
// database and go on at once; goose's own lock makes them ask every few seconds.
const migrateLock = 7003 << 40

// migrate brings the schema up to date: steward's, then the job queue's.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	river, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("migrate job queue: %w", err)
	}
	if migrated(ctx, pool, river.AllVersions()) {
		return nil
	}
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return fmt.Errorf("migrate store: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) // and with it the lock
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(migrateLock)); err != nil {
		return fmt.Errorf("migrate store: %w", err)
	}
	if err := migrateOwn(ctx, pool); err != nil {
		return fmt.Errorf("migrate store: %w", err)
	}
	if _, err := river.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate job queue: %w", err)
	}
	return nil
}

// migrated reports whether all is up to date, in one query: the tools take a connection
// of their own and some twenty, and most starts find nothing to do. Whatever stands in
// the way of an answer, they report it.
func migrated(ctx context.Context, pool *pgxpool.Pool, queue []rivermigrate.Migration) bool {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return false
	}
	var own, queues []int64
	for _, file := range files {
		version, err := goose.NumericComponent(file)
		if err != nil {
			return false
		}
		own = append(own, version)
	}
	for _, m := range queue {
		queues = append(queues, int64(m.Version))
	}
	var same bool
	err = pool.QueryRow(ctx, `SELECT
		(SELECT array_agg(version_id ORDER BY version_id) FROM goose_db_version WHERE is_applied AND version_id > 0) = $1::bigint[]
		AND (SELECT array_agg(version::bigint ORDER BY version) FROM river_migration WHERE line = 'main') = $2::bigint[]`,
		own, queues).Scan(&same)
	return err == nil && same
}

func migrateOwn(ctx context.Context, pool *pgxpool.Pool) error {
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files)
	if err != nil {
		return err
	}
	current, newest, err := provider.GetVersions(ctx)
	if err != nil {
		return err
	}
	if current > newest {
		return fmt.Errorf("the store has schema version %d, this steward knows up to %d: use the newer steward that made it", current, newest)
	}
	_, err = provider.Up(ctx)
	return err
}
