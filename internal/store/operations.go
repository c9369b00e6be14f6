package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/cluster"
	"steward/internal/filter"
	"steward/internal/operation"
	"steward/internal/store/dbsqlc"
)

// EventFields are what events can be filtered and ordered by.
var EventFields = filter.Fields{
	"id": filter.Number, "action": filter.Text, "created": filter.Time, "status": filter.Text,
	"entity.id": filter.Number, "entity.type": filter.Text, "username": filter.Text,
}

var eventColumns = columns{
	"id": "id", "action": "action", "created": shown("created"), "status": "status",
	"entity.id": "CASE entity_type WHEN 'database' THEN cluster_id ELSE entity_id END", "entity.type": "entity_type", "username": "username",
}

// WakeDelay is when a sweep looks after an operation that nobody has touched
// since: long enough for a worker to have begun, short enough not to be noticed.
const WakeDelay = 5 * time.Second

// CreateOperation records an operation. One born done gets its times set.
func (t *Tx) CreateOperation(ctx context.Context, o operation.Operation) (operation.Operation, error) {
	return t.createOperation(ctx, o, new(t.now().Add(WakeDelay)))
}

// CreateCompanion records an operation that nobody is woken for: another one, whose
// parameters name it as its companion, begins, proceeds and ends with it.
func (t *Tx) CreateCompanion(ctx context.Context, o operation.Operation) (operation.Operation, error) {
	return t.createOperation(ctx, o, nil)
}

// createOperation records an operation that a sweep looks after at wake, should it
// not be done by itself.
func (t *Tx) createOperation(ctx context.Context, o operation.Operation, wake *time.Time) (operation.Operation, error) {
	params, err := json.Marshal(o.Params)
	if err != nil {
		return o, fmt.Errorf("encode parameters: %w", err)
	}
	o.Created = t.now()
	if o.Status.Done() {
		o.Started, o.Finished, o.Percent, wake = &o.Created, &o.Created, 100, nil
	}
	id, err := t.q.OperationCreate(ctx, dbsqlc.OperationCreateParams{
		AccountID: int64(o.Account), ClusterID: int64(o.Cluster),
		EntityType: string(cmp.Or(o.Entity.Type, operation.Database)), EntityID: o.Entity.ID, EntityKey: o.Entity.Key, OwnerID: int64(o.Owner),
		Label: o.Label, Engine: string(o.Engine), Action: string(o.Action),
		Status: string(o.Status), Username: o.Username, Params: params, Percent: int32(o.Percent), Message: o.Message,
		Created: o.Created, Started: o.Started, Finished: o.Finished, WakeAt: wake,
	})
	o.ID = operation.ID(id)
	return o, classify(err)
}

const selectOperation = `SELECT id, account_id, cluster_id, entity_type, entity_id, entity_key, owner_id, label, engine, action, status, username, params,
	percent, message, attempt,
	created, started, finished, seen, read`

func scanOperation(row pgx.Row, more ...any) (operation.Operation, error) {
	var o operation.Operation
	var params []byte
	err := row.Scan(append([]any{
		&o.ID, &o.Account, &o.Cluster, &o.Entity.Type, &o.Entity.ID, &o.Entity.Key, &o.Owner, &o.Label, &o.Engine, &o.Action, &o.Status, &o.Username, &params,
		&o.Percent, &o.Message, &o.Attempt,
		&o.Created, &o.Started, &o.Finished, &o.Seen, &o.Read,
	}, more...)...)
	if err != nil {
		return o, err
	}
	if o.Entity.Type == operation.Database {
		o.Entity = operation.Entity{}
	}
	if err := json.Unmarshal(params, &o.Params); err != nil {
		return o, fmt.Errorf("decode parameters: %w", err)
	}
	return o, nil
}

// visibleEvents is the condition that an operation is the viewer's to see.
func (b *sqlBuilder) visibleEvents(v Viewer) string {
	text := "account_id = " + b.arg(int64(v.Account))
	if v.User != 0 {
		user := b.arg(int64(v.User))
		text += " AND (owner_id = " + user + " OR EXISTS (SELECT 1 FROM grants g WHERE g.cluster_id = operations.cluster_id AND g.user_id = " + user + "))"
	}
	return text
}

// Operation is one operation the viewer sees.
func (q queries) Operation(ctx context.Context, v Viewer, id operation.ID) (operation.Operation, error) {
	b := sqlBuilder{}
	sql := selectOperation + " FROM operations WHERE " + b.visibleEvents(v) + " AND id = " + b.arg(int64(id))
	o, err := scanOperation(q.db.QueryRow(ctx, sql, b.args...))
	return o, classify(err)
}

// Operations is one page of those the viewer sees, newest first, and how many match.
func (q queries) Operations(ctx context.Context, v Viewer, list ListQuery) ([]operation.Operation, int, error) {
	l := listing[operation.Operation]{sqlBuilder: sqlBuilder{columns: eventColumns}, what: selectOperation, own: "id DESC", scan: scanOperation}
	l.from = "operations WHERE " + l.visibleEvents(v)
	return l.page(ctx, q.db, list)
}

// MarkSeen marks the event and all older ones that the viewer sees as seen.
func (q queries) MarkSeen(ctx context.Context, v Viewer, upTo operation.ID) error {
	return classify(q.q.OperationSeen(ctx, dbsqlc.OperationSeenParams{AccountID: int64(v.Account), ID: int64(upTo), UserID: int64(v.User)}))
}

// MarkRead marks one event that the viewer sees as read.
func (q queries) MarkRead(ctx context.Context, v Viewer, id operation.ID) error {
	n, err := q.q.OperationRead(ctx, dbsqlc.OperationReadParams{AccountID: int64(v.Account), ID: int64(id), UserID: int64(v.User)})
	return oneRow(n, err)
}

// OperationForWork is an operation whoever owns it.
func (q queries) OperationForWork(ctx context.Context, id operation.ID) (operation.Operation, error) {
	o, err := scanOperation(q.db.QueryRow(ctx, selectOperation+" FROM operations WHERE id = $1", int64(id)))
	return o, classify(err)
}

// LastOperation is the last of a cluster's with an action; false when there was none.
func (q queries) LastOperation(ctx context.Context, id cluster.ID, action operation.Action) (operation.Operation, bool, error) {
	o, err := scanOperation(q.db.QueryRow(ctx, selectOperation+" FROM operations WHERE cluster_id = $1 AND action = $2 ORDER BY id DESC LIMIT 1", int64(id), string(action)))
	if errors.Is(err, pgx.ErrNoRows) {
		return o, false, nil
	}
	return o, err == nil, classify(err)
}

// UnfinishedOperations are those of a cluster that somebody still has to carry
// out, oldest first.
func (q queries) UnfinishedOperations(ctx context.Context, id cluster.ID) ([]operation.Operation, error) {
	return collect(ctx, q.db, scanOperation, selectOperation+" FROM operations WHERE cluster_id = $1 AND finished IS NULL ORDER BY id", int64(id))
}

// StartOperation notes that carrying it out begins (again), as that of its
// companion does with it. false when it is
// done already. wakeAfter is when a sweep should look if this worker dies.
func (q queries) StartOperation(ctx context.Context, id operation.ID, wakeAfter time.Duration) (bool, error) {
	now := q.now()
	n, err := q.q.OperationStart(ctx, dbsqlc.OperationStartParams{ID: int64(id), Now: now, WakeAt: now.Add(wakeAfter)})
	return n > 0, classify(err)
}

// ProgressOperation notes how far it and its companion are, and when to look again at the latest.
func (q queries) ProgressOperation(ctx context.Context, id operation.ID, percent int, message string, wakeAfter time.Duration) error {
	return classify(q.q.OperationProgress(ctx, dbsqlc.OperationProgressParams{
		ID: int64(id), Percent: int32(percent), Message: message, WakeAt: q.now().Add(wakeAfter),
	}))
}

// SaveParams keeps what an operation has to remember of itself.
func (q queries) SaveParams(ctx context.Context, id operation.ID, p operation.Params) error {
	params, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode parameters: %w", err)
	}
	return classify(q.q.OperationParams(ctx, params, int64(id)))
}

// FinishOperation ends it and its companion, once.
func (t *Tx) FinishOperation(ctx context.Context, id operation.ID, status operation.Status, message string) error {
	_, err := t.q.OperationFinish(ctx, dbsqlc.OperationFinishParams{ID: int64(id), Status: string(status), Message: message, Now: t.now()})
	return classify(err)
}

// FailOtherOperations ends what else was going on with a cluster, for a reason.
func (t *Tx) FailOtherOperations(ctx context.Context, id cluster.ID, except operation.ID, message string) error {
	return classify(t.q.OperationsFinishOthers(ctx, dbsqlc.OperationsFinishOthersParams{
		ClusterID: int64(id), ID: int64(except), Message: message, Now: t.now(),
	}))
}

// DueOperations are unfinished ones that nobody has looked at in time; each is
// put off by WakeDelay, so that other servers don't take it as well.
func (q queries) DueOperations(ctx context.Context, most int) ([]operation.ID, error) {
	now := q.now()
	rows, err := q.q.OperationsWake(ctx, dbsqlc.OperationsWakeParams{Now: now, Next: now.Add(WakeDelay), Most: int32(most)})
	ids := make([]operation.ID, len(rows))
	for i, r := range rows {
		ids[i] = operation.ID(r)
	}
	return ids, classify(err)
}

// WakeAll makes every unfinished operation due that isn't another one's companion: for the start of a server,
// whose predecessor may have died in the middle of any.
func (q queries) WakeAll(ctx context.Context) error {
	return classify(q.q.OperationsWakeAll(ctx, q.now()))
}
