package postgresql

import (
	"context"
	"fmt"

	"steward/internal/engine"
	"steward/internal/scram"
)

// whoLogsIn are customers' roles with a password that hasn't expired. A verifier of another kind than SCRAM's lets nobody in here, so
// that it isn't told to anybody.
const whoLogsIn = `SELECT rolname, rolpassword FROM pg_authid
	WHERE rolcanlogin AND NOT rolsuper AND NOT rolreplication AND rolname !~* '^(pg_|steward)' AND rolpassword LIKE 'SCRAM-SHA-256$%'
		AND (rolvaliduntil IS NULL OR rolvaliduntil > now())`

// Verifiers implements engine.Pooled.
func (Driver) Verifiers(ctx context.Context, n engine.Node) (map[string]string, error) {
	rows, err := ask(ctx, n, whoLogsIn)
	if err != nil {
		return nil, fmt.Errorf("look who may log in: %w", err)
	}
	all := make(map[string]string, len(rows))
	for _, row := range rows {
		all[row[0]] = row[1]
	}
	return all, nil
}

// Verifier implements engine.Pooled.
func (Driver) Verifier(password string) (string, error) {
	return scram.Verifier(password, scram.OwnRounds)
}
