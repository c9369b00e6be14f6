// Package work wakes workers. A job is a wake-up that carries an operation's id
// and nothing else: losing or repeating one is harmless, since the worker reads
// everything anew and a sweep finds what was forgotten.
package work

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"steward/internal/operation"
)

// Wake tells a worker to look at an operation.
type Wake struct {
	Operation operation.ID `json:"operation"`
}

// Kind is River's name for the job.
func (Wake) Kind() string { return "operation" }

// InsertOpts are River's for every wake-up: a few tries, since the sweep wakes
// what still isn't done.
func (Wake) InsertOpts() river.InsertOpts { return river.InsertOpts{MaxAttempts: 4} }

// Timings. A job is one pass of an operation, which bounds itself: by minutes,
// or by hours where all of a database is copied. River's own rescue is for jobs
// of dead workers, and only a second net: the sweep is the first.
const (
	jobTimeout  = 13 * time.Hour
	rescueAfter = 14 * time.Hour
	sweepEvery  = 2 * time.Second
	sweepMost   = 50
	// fetchCooldown bounds how soon after a notification a job is fetched.
	fetchCooldown = 5 * time.Millisecond
	// fetchPoll bounds how late a pass comes that was put off, or whose
	// notification was lost with the store's connection.
	fetchPoll = 2 * time.Second
	// resignTimeout bounds how long a stop waits for a store that hangs: the term ends by itself, after some 15 s.
	resignTimeout = 5 * time.Second
	// keepDone is how long finished jobs stay: they say nothing that the
	// operation doesn't.
	keepDone = time.Minute
)

// Options are what a Work is made of.
type Options struct {
	// Workers is how many operations are carried out at once.
	Workers int
	// Run does one pass over an operation; again is when to look next, 0 for never.
	Run func(ctx context.Context, id operation.ID) (again time.Duration, err error)
	// Due are unfinished operations that nobody has looked at in time.
	Due    func(ctx context.Context, most int) ([]operation.ID, error)
	Logger *slog.Logger
}

// Work fetches wake-ups and sweeps for forgotten operations.
type Work struct {
	o      Options
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	stop   context.CancelFunc
	swept  sync.WaitGroup
}

// New prepares the workers; Start starts them.
func New(pool *pgxpool.Pool, o Options) (*Work, error) {
	w := &Work{o: o, pool: pool}
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{run: o.Run})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:                      map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: o.Workers}},
		FetchCooldown:               fetchCooldown,
		FetchPollInterval:           fetchPoll,
		Workers:                     workers,
		JobTimeout:                  jobTimeout,
		RescueStuckJobsAfter:        rescueAfter,
		CompletedJobRetentionPeriod: keepDone,
		DiscardedJobRetentionPeriod: time.Hour,
		Logger:                      slog.New(quiet{o.Logger.Handler()}),
		ErrorHandler:                &reporter{o.Logger},
	})
	if err != nil {
		return nil, fmt.Errorf("job queue: %w", err)
	}
	w.client = client
	return w, nil
}

// Enqueue adds a wake-up that becomes visible when tx commits.
func (w *Work) Enqueue(ctx context.Context, tx pgx.Tx, id operation.ID) error {
	if _, err := w.client.InsertTx(ctx, tx, Wake{id}, nil); err != nil {
		return fmt.Errorf("enqueue operation %d: %w", id, err)
	}
	// River leaves out notifications that follow another within its cooldown,
	// also when the other's transaction is rolled back, or was fetched before
	// this one commits: the job then waits for the next poll.
	if _, err := tx.Exec(ctx, "SELECT pg_notify(current_schema() || '.river_insert', $1)", `{"queue": "`+river.QueueDefault+`"}`); err != nil {
		return fmt.Errorf("enqueue operation %d: %w", id, err)
	}
	return nil
}

// Start begins to carry out operations.
func (w *Work) Start(ctx context.Context) error {
	ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := w.client.Start(ctx); err != nil {
		w.stop()
		return fmt.Errorf("start workers: %w", err)
	}
	w.swept.Go(func() { w.sweep(ctx) })
	return nil
}

// Stop lets running passes end until ctx does, then cancels them.
func (w *Work) Stop(ctx context.Context) error {
	if w.stop == nil {
		return nil
	}
	defer w.stop()
	err := w.client.Stop(ctx)
	if err != nil {
		cancelled, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = w.client.StopAndCancel(cancelled)
	}
	w.stop()
	w.swept.Wait()
	if err == nil {
		err = w.resign(ctx)
	}
	if err != nil {
		return fmt.Errorf("stop workers: %w", err)
	}
	return nil
}

// resign makes way for another server to look after the queue. River does so itself, but for a client that is elected while
// it stops: others would wait until its term ends. The store may have yet to commit that election, which the lock waits for.
func (w *Work) resign(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "LOCK TABLE river_leader IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM river_leader WHERE leader_id = $1", w.client.ID())
		return err
	})
}

// sweep wakes what was forgotten: at once, and then every few seconds.
func (w *Work) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := w.sweepOnce(ctx); err != nil && ctx.Err() == nil {
			w.o.Logger.WarnContext(ctx, "sweep for forgotten operations", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *Work) sweepOnce(ctx context.Context) error {
	due, err := w.o.Due(ctx, sweepMost)
	if err != nil {
		return err
	}
	if len(due) == 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		for _, id := range due {
			if err := w.Enqueue(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

type worker struct {
	river.WorkerDefaults[Wake]
	run func(ctx context.Context, id operation.ID) (time.Duration, error)
}

// Work does one pass. The operation keeps its own count of attempts and its own
// backoff, so the job is done whatever came of it, unless it wants to be woken.
func (w *worker) Work(ctx context.Context, job *river.Job[Wake]) error {
	again, err := w.run(ctx, job.Args.Operation)
	if err != nil {
		return fmt.Errorf("operation %d: %w", job.Args.Operation, err)
	}
	if again > 0 {
		return river.JobSnooze(again)
	}
	return nil
}

type reporter struct{ log *slog.Logger }

func (r *reporter) HandleError(ctx context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	r.log.WarnContext(ctx, "pass over an operation failed", "error", err, "attempt", job.Attempt)
	return nil
}

func (r *reporter) HandlePanic(ctx context.Context, _ *rivertype.JobRow, panicked any, trace string) *river.ErrorHandlerResult {
	r.log.ErrorContext(ctx, "pass over an operation panicked", "panic", panicked, "trace", trace)
	return nil
}
