package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/filter"
	"steward/internal/migration"
	"steward/internal/seal"
	"steward/internal/store/dbsqlc"
)

// MigrationFields are what migrations can be filtered and ordered by.
var MigrationFields = filter.Fields{"id": filter.Number, "status": filter.Text, "created": filter.Time}

var migrationColumns = columns{"id": "id", "status": "status", "created": shown("created")}

const selectMigration = `SELECT id, account_id, cluster_id, host, port, username, tls, ca, mode, databases, status, progress, cutover, problem, created, finished`

func scanMigration(row pgx.Row, more ...any) (migration.Migration, error) {
	var m migration.Migration
	var databases, progress []byte
	err := row.Scan(append([]any{
		&m.ID, &m.Account, &m.Cluster, &m.Source.Host, &m.Source.Port, &m.Source.Username, &m.Source.TLS, &m.Source.CA, &m.Mode,
		&databases, &m.Status, &progress, &m.Cutover, &m.Problem, &m.Created, &m.Finished,
	}, more...)...)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(databases, &m.Databases); err != nil {
		return m, fmt.Errorf("decode databases: %w", err)
	}
	if err := json.Unmarshal(progress, &m.Progress); err != nil {
		return m, fmt.Errorf("decode progress: %w", err)
	}
	return m, nil
}

func sourcePlace(id migration.ID) string { return fmt.Sprintf("migration/%d/password", id) }

// CreateMigration adds one, with the source's password sealed with the account's key.
func (t *Tx) CreateMigration(ctx context.Context, m migration.Migration, key seal.Key, password seal.Secret) (migration.Migration, error) {
	id, err := t.q.MigrationID(ctx)
	if err != nil {
		return m, classify(err)
	}
	m.ID, m.Created, m.Status = migration.ID(id), t.now(), migration.Pending
	databases, err := json.Marshal(m.Databases)
	if err != nil {
		return m, fmt.Errorf("encode databases: %w", err)
	}
	return m, classify(t.q.MigrationCreate(ctx, dbsqlc.MigrationCreateParams{
		ID: id, AccountID: int64(m.Account), ClusterID: int64(m.Cluster), Host: m.Source.Host, Port: int32(m.Source.Port), Username: m.Source.Username,
		Tls: string(m.Source.TLS), Ca: m.Source.CA, SealedPassword: key.Seal([]byte(password.Reveal()), sourcePlace(m.ID)), Mode: string(m.Mode),
		Databases: databases, Created: m.Created,
	}))
}

// Migration is one of a cluster's.
func (q queries) Migration(ctx context.Context, of cluster.ID, id migration.ID) (migration.Migration, error) {
	m, err := scanMigration(q.db.QueryRow(ctx, selectMigration+" FROM migrations WHERE cluster_id = $1 AND id = $2", int64(of), int64(id)))
	return m, classify(err)
}

// MigrationForWork is one whoever owns it.
func (q queries) MigrationForWork(ctx context.Context, id migration.ID) (migration.Migration, error) {
	m, err := scanMigration(q.db.QueryRow(ctx, selectMigration+" FROM migrations WHERE id = $1", int64(id)))
	return m, classify(err)
}

// Migrations is one page of a cluster's, newest first, and how many match.
func (q queries) Migrations(ctx context.Context, of cluster.ID, list ListQuery) ([]migration.Migration, int, error) {
	l := listing[migration.Migration]{sqlBuilder: sqlBuilder{columns: migrationColumns}, what: selectMigration, own: "id DESC", scan: scanMigration}
	l.from = "migrations WHERE cluster_id = " + l.arg(int64(of))
	return l.page(ctx, q.db, list)
}

// SourcePassword is the password of a migration's source, which is there until the migration has ended.
func (s *Store) SourcePassword(ctx context.Context, of account.ID, id migration.ID) (seal.Secret, error) {
	key, err := s.DataKey(ctx, of)
	if err != nil {
		return seal.Secret{}, err
	}
	sealed, err := s.q.MigrationSealed(ctx, int64(id))
	if err != nil {
		return seal.Secret{}, classify(err)
	}
	password, err := key.Unseal(sealed, sourcePlace(id))
	if err != nil {
		return seal.Secret{}, fmt.Errorf("unseal the password of migration %d: %w", id, err)
	}
	return seal.NewSecret(string(password)), nil
}

// BeginMigration notes that it runs; false when it has ended or its end was asked for.
func (q queries) BeginMigration(ctx context.Context, id migration.ID) (bool, error) {
	n, err := q.q.MigrationBegin(ctx, int64(id))
	return n > 0, classify(err)
}

// ProgressMigration notes how far it is, and returns whether it is to go on.
func (q queries) ProgressMigration(ctx context.Context, id migration.ID, p migration.Progress) (migration.Status, error) {
	progress, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("encode progress: %w", err)
	}
	status, err := q.q.MigrationProgress(ctx, progress, int64(id))
	return migration.Status(status), classify(err)
}

// MigrationAsked is what is asked of one that is followed: its status, and whether it is to be cut over.
func (q queries) MigrationAsked(ctx context.Context, id migration.ID) (status migration.Status, cutover bool, err error) {
	row, err := q.q.MigrationAsked(ctx, int64(id))
	return migration.Status(row.Status), row.Cutover != nil, classify(err)
}

// CutOverMigration asks for the cutover of one that keeps up with its source; again does nothing more.
func (t *Tx) CutOverMigration(ctx context.Context, of cluster.ID, id migration.ID) error {
	n, err := t.q.MigrationCutover(ctx, dbsqlc.MigrationCutoverParams{Now: t.now(), ID: int64(id), ClusterID: int64(of)})
	return oneRow(n, err)
}

// SaveMigrationDatabases notes which databases are made and which are complete.
func (q queries) SaveMigrationDatabases(ctx context.Context, id migration.ID, all []migration.Database) error {
	databases, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode databases: %w", err)
	}
	n, err := q.q.MigrationDatabases(ctx, databases, int64(id))
	return oneRow(n, err)
}

// CancelMigration asks for the end of one that goes on.
func (t *Tx) CancelMigration(ctx context.Context, of cluster.ID, id migration.ID) error {
	n, err := t.q.MigrationCancel(ctx, int64(id), int64(of))
	return oneRow(n, err)
}

// DeleteMigration forgets one that has ended.
func (t *Tx) DeleteMigration(ctx context.Context, of cluster.ID, id migration.ID) error {
	n, err := t.q.MigrationDelete(ctx, int64(id), int64(of))
	return oneRow(n, err)
}

// FinishMigration ends one, once, and forgets its source's password.
func (t *Tx) FinishMigration(ctx context.Context, m migration.Migration) error {
	progress, err := json.Marshal(m.Progress)
	if err != nil {
		return fmt.Errorf("encode progress: %w", err)
	}
	_, err = t.q.MigrationFinish(ctx, dbsqlc.MigrationFinishParams{ID: int64(m.ID), Status: string(m.Status), Problem: m.Problem, Progress: progress, Now: t.now()})
	return classify(err)
}
