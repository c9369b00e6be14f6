package mysql

import (
	"context"
	"strconv"
	"time"

	"steward/internal/engine"
)

// rowsWritten tells how many rows a server's sessions have written, replication's
// among them. Its redo log would tell as well, but goes on after they have ended.
func rowsWritten(ctx context.Context, s *session) func() (uint64, error) {
	const query = "SELECT CAST(SUM(VARIABLE_VALUE) AS UNSIGNED) FROM information_schema.GLOBAL_STATUS " +
		"WHERE VARIABLE_NAME IN ('HANDLER_WRITE', 'HANDLER_UPDATE', 'HANDLER_DELETE')"
	return func() (uint64, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		text, err := s.text(ctx, query)
		if err != nil {
			return 0, err
		}
		return strconv.ParseUint(text, 10, 64)
	}
}

// Pace is part of engine.Replicator.
func (d *Driver) Pace(ctx context.Context, n engine.Node) (*engine.Pace, func()) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return nil, func() {}
	}
	return engine.NewPace(ctx, rowsWritten(ctx, s)), s.close
}
