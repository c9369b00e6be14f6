package postgresql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
)

// Ping asks a query. While the server starts, its pid file says so and no
// connection is tried: Ping is then cheap enough to be called every few
// milliseconds.
func (Driver) Ping(ctx context.Context, n engine.Node) error {
	if n.Remote == nil {
		if err := checkPidFile(n.Data); err != nil {
			return err
		}
	}
	conn, err := eitherPassword(ctx, n)
	if isFull(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := query(ctx, conn, "SELECT 1"); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}

// isFull tells of a server that has all the sessions it takes, even those
// reserved for us: it is alive, and ending it would help nobody.
func isFull(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == "53300"
}

// checkPidFile looks at line 8 of postmaster.pid, where the server keeps its
// state. A file left by a crash may say "ready"; connecting tells.
func checkPidFile(data string) error {
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: there is no postmaster.pid", engine.ErrStarting)
	}
	if err != nil {
		return fmt.Errorf("read state of the server: %w", err)
	}
	lines := strings.Split(string(content), "\n")
	if len(lines) < 8 {
		return fmt.Errorf("%w: postmaster.pid tells no state yet", engine.ErrStarting)
	}
	switch state := strings.TrimSpace(lines[7]); state {
	case "ready", "standby":
		return nil
	default:
		return fmt.Errorf("%w: state is %q", engine.ErrStarting, state)
	}
}

// eitherPassword connects with the cluster's own admin password, or with the
// template's, which a clone has until Bootstrap, or until it has received what
// its primary's did. That may happen between two tries.
func eitherPassword(ctx context.Context, n engine.Node) (*pgconn.PgConn, error) {
	passwords := []string{n.AdminPassword}
	if n.TemplatePassword != "" {
		passwords = append(passwords, n.TemplatePassword, n.AdminPassword)
	}
	for i, password := range passwords {
		conn, err := asAdmin(ctx, n, password)
		if i == len(passwords)-1 || !errors.Is(err, engine.ErrAuthentication) {
			return conn, err
		}
	}
	return nil, engine.ErrAuthentication
}

// Version is what the server says of itself: "15.18".
func (Driver) Version(ctx context.Context, n engine.Node) (string, error) {
	row, err := askOne(ctx, n, "SHOW server_version")
	if err != nil {
		return "", fmt.Errorf("ask for the version: %w", err)
	}
	version, _, _ := strings.Cut(row[0], " ")
	return version, nil
}
