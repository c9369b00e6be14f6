package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/wait"
)

// listenPause is between two tries to connect again.
const listenPause = 500 * time.Millisecond

// listen calls heard for each notification of the topic, with its payload, and missed after each
// connect: what was told meanwhile is lost. It has a connection of its own and
// returns when ctx ends.
func (s *Store) listen(ctx context.Context, topic string, missed func(), heard func(payload string)) {
	config := s.leases.config.Copy() // the same keepalives: a vanished store must be noticed
	config.RuntimeParams["application_name"] = "steward listener"
	for ctx.Err() == nil {
		err := listenOnce(ctx, config, topic, missed, heard)
		if ctx.Err() != nil {
			return
		}
		s.log.WarnContext(ctx, "listening to the store ended; it begins anew", "topic", topic, "error", err)
		_ = wait.Sleep(ctx, listenPause) // the loop sees ctx end
	}
}

func listenOnce(ctx context.Context, config *pgx.ConnConfig, topic string, missed func(), heard func(payload string)) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sessionTimeout)
		defer cancel()
		_ = conn.Close(ctx) // nothing hangs on it
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{topic}.Sanitize()); err != nil {
		return err
	}
	missed()
	for {
		told, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		heard(told.Payload)
	}
}
