package pgbouncer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Console is the way to a pooler that runs: its own commands, by the unix socket.
type Console struct {
	// Run is the folder of the socket, Port its number.
	Run  string
	Port int
	// Password is our own account's.
	Password string
}

// consoleTimeout bounds a command that nobody else has to be waited for with.
const consoleTimeout = 5 * time.Second

// ask runs one command and returns its rows. A command that waits for clients is given up with ctx.
func (c Console) ask(ctx context.Context, command string) ([][]string, error) {
	// The parsed text only brings the defaults; nothing of our own environment decides where this goes.
	config, err := pgconn.ParseConfig("host=/nowhere sslmode=disable")
	if err != nil {
		return nil, fmt.Errorf("prepare connection: %w", err)
	}
	config.Host, config.Port, config.Fallbacks = c.Run, uint16(c.Port), nil
	config.User, config.Password, config.Database = admin, c.Password, "pgbouncer"
	config.RuntimeParams = map[string]string{}
	config.ConnectTimeout = consoleTimeout
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("reach the pooler: %w", err)
	}
	defer func() {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(short) // nothing hangs on it
	}()
	results, err := conn.Exec(ctx, command).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	var rows [][]string
	for _, result := range results {
		for _, row := range result.Rows {
			texts := make([]string, len(row))
			for i, value := range row {
				texts[i] = string(value)
			}
			rows = append(rows, texts)
		}
	}
	return rows, nil
}

func (c Console) tell(ctx context.Context, command string) error {
	ctx, cancel := context.WithTimeout(ctx, consoleTimeout)
	defer cancel()
	_, err := c.ask(ctx, command)
	return err
}

// Ping is nil when the pooler answers.
func (c Console) Ping(ctx context.Context) error { return c.tell(ctx, "SHOW VERSION") }

// Reload has the pooler read its files again, the users' and the certificate's among them.
func (c Console) Reload(ctx context.Context) error { return c.tell(ctx, "RELOAD") }

// Pause has the clients of a pool wait with their next transaction, and returns once none is at one: the pool has no connection
// to the server then. When ctx ends before, they go on waiting.
func (c Console) Pause(ctx context.Context, label string) error {
	_, err := c.ask(ctx, "PAUSE "+quoteName(label))
	return ignore(err, "already")
}

// Resume has them go on. A pool that isn't paused stays as it is.
func (c Console) Resume(ctx context.Context, label string) error {
	return ignore(c.tell(ctx, "RESUME "+quoteName(label)), "is not paused", "not paused")
}

// Reconnect ends a pool's connections to the server as they become free, and has those who log in be told anew what the server is.
func (c Console) Reconnect(ctx context.Context, label string) error {
	return c.tell(ctx, "RECONNECT "+quoteName(label))
}

// Kill ends all connections of a pool, clients' and to the server, and has new ones wait for Resume.
func (c Console) Kill(ctx context.Context, label string) error {
	return c.tell(ctx, "KILL "+quoteName(label))
}

// Users are who is connected to each pool, by its label.
func (c Console) Users(ctx context.Context) (map[string][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, consoleTimeout)
	defer cancel()
	rows, err := c.ask(ctx, "SHOW CLIENTS")
	if err != nil {
		return nil, err
	}
	users := map[string][]string{}
	const user, database = 1, 2 // the second and third column, in all versions
	for _, row := range rows {
		if len(row) > database && !slices.Contains(users[row[database]], row[user]) {
			users[row[database]] = append(users[row[database]], row[user])
		}
	}
	return users, nil
}

// quoteName writes a label as the console reads it.
func quoteName(label string) string { return `"` + strings.ReplaceAll(label, `"`, `""`) + `"` }

// ignore drops an error of the pooler's that says that there is nothing to do.
func ignore(err error, words ...string) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		for _, w := range words {
			if strings.Contains(refused.Message, w) {
				return nil
			}
		}
	}
	return err
}
