package postgresql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/durable"
	"steward/internal/engine"
)

// drainPrefix begins names that the server itself removes when it starts.
const drainPrefix = "xlogtemp.steward."

// Drain copies WAL files. Candidate then has the very bytes that dead has, up to the
// last whole record: it will fork off where dead ended, and dead can follow it.
func (Driver) Drain(ctx context.Context, dead, candidate engine.Node) error {
	if err := sameCluster(ctx, dead, candidate); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	conn, err := asOurs(ctx, candidate)
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	at, err := askReplay(ctx, conn)
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	if !at.recovering {
		return nil
	}
	wal, err := openWAL(filepath.Join(dead.Data, "pg_wal"))
	if err != nil {
		return fmt.Errorf("drain: %w: %w", engine.ErrUndrainable, err)
	}
	if uint64(at.applied)/wal.segmentSize < wal.oldest {
		return fmt.Errorf("drain: %w: the candidate needs WAL from %v on, which has been removed", engine.ErrUndrainable, at.applied)
	}
	known, end, err := wal.extent(at.applied, at.received)
	if err != nil {
		return fmt.Errorf("drain: %w: %w", engine.ErrUndrainable, err)
	}
	if known == end {
		return nil
	}
	if err := wal.handTo(filepath.Join(candidate.Data, "pg_wal"), known, end); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	return awaitReplay(ctx, conn, known)
}

// sameCluster keeps WAL from where it doesn't belong.
func sameCluster(ctx context.Context, dead, candidate engine.Node) error {
	a, err := readControl(controlPath(dead.Data))
	if err != nil {
		return fmt.Errorf("%w: %w", engine.ErrUndrainable, err)
	}
	b, err := readLiveControl(ctx, candidate.Data)
	if err != nil {
		return err
	}
	if a.identity().id != b.identity().id {
		return errors.New("the two nodes are of different clusters")
	}
	return nil
}

// replay is how far a replica is.
type replay struct {
	recovering        bool
	received, applied lsn
}

func askReplay(ctx context.Context, conn *pgconn.PgConn) (replay, error) {
	rows, err := query(ctx, conn, `SELECT pg_is_in_recovery(),
		greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), pg_last_wal_replay_lsn()`)
	if err != nil {
		return replay{}, err
	}
	r := replay{recovering: rows[0][0] == "t"}
	if r.received, err = parseLSN(rows[0][1]); err != nil {
		return replay{}, err
	}
	r.applied, err = parseLSN(rows[0][2])
	return r, err
}

// awaitReplay returns when the candidate has applied something that it can only have
// from the copies, and so is sure to apply the rest. It looks for files again
// when it has nothing left to apply, or a signal wakes it; were it promoted
// before it looked, it would end without them.
func awaitReplay(ctx context.Context, conn *pgconn.PgConn, known lsn) error {
	if _, err := query(ctx, conn, "SELECT pg_reload_conf()"); err != nil {
		return fmt.Errorf("drain: wake the candidate: %w", err)
	}
	for {
		at, err := askReplay(ctx, conn)
		if err != nil {
			return fmt.Errorf("drain: %w", err)
		}
		if !at.recovering || at.applied > known {
			return nil
		}
		if _, err := query(ctx, conn, giveWay); err != nil {
			return fmt.Errorf("drain: %w", err)
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("drain: the candidate doesn't read what was copied: %w", err)
		}
	}
}

// handTo copies the WAL between two places, and the histories of timelines.
func (w *walFolder) handTo(dir string, from, to lsn) error {
	owner, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the candidate's WAL: %w", err)
	}
	stat := owner.Sys().(*syscall.Stat_t)
	for _, name := range w.histories {
		if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			if err := copyWAL(w.dir, dir, name, stat); err != nil {
				return err
			}
		}
	}
	for _, name := range w.copied(from, to) {
		if err := copyWAL(w.dir, dir, name, stat); err != nil {
			return err
		}
	}
	return durable.Sync(dir)
}

// copyWAL puts a whole file in place at once: a server that reads the old one
// goes on with that. The two share nothing, since each server overwrites its own.
func copyWAL(from, to, name string, owner *syscall.Stat_t) error {
	source, err := os.Open(filepath.Join(from, name))
	if err != nil {
		return fmt.Errorf("copy WAL: %w", err)
	}
	defer source.Close()
	path := filepath.Join(to, drainPrefix+name)
	target, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("copy WAL: %w", err)
	}
	defer target.Close()
	if err := giveTo(target, owner); err != nil {
		return fmt.Errorf("copy WAL: %w", err)
	}
	if _, err := io.Copy(target, source); err != nil {
		return fmt.Errorf("copy WAL: %w", err)
	}
	if err := errors.Join(target.Sync(), target.Close()); err != nil {
		return fmt.Errorf("copy WAL: %w", err)
	}
	if err := os.Rename(path, filepath.Join(to, name)); err != nil {
		return fmt.Errorf("copy WAL: %w", err)
	}
	return nil
}

// giveTo gives a file away, which only root can; others own it already.
func giveTo(f *os.File, owner *syscall.Stat_t) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}
