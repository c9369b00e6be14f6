package mysql

import (
	"context"
	"time"

	"steward/internal/engine"
)

// SetCopyLockWait sets how long a copy waits for one lock.
func (d *Driver) SetCopyLockWait(most time.Duration) { d.copyLockWait = most }

// MakeWriter makes the account that writes what a source sends into a database, and returns how to see whether it is there.
func (d *Driver) MakeWriter(ctx context.Context, n engine.Node, database, slot string) (there func() (string, error), err error) {
	if _, err := d.makeWriter(ctx, n, database, slot); err != nil {
		return nil, err
	}
	return func() (string, error) {
		s, err := d.admin(ctx, n)
		if err != nil {
			return "", err
		}
		defer s.close()
		return s.text(ctx, "SELECT COUNT(*) FROM mysql.user WHERE User = ? AND Host = 'localhost'", slot)
	}, nil
}

// Write writes what a source says of a table, as who follows it does, into a database that notes how far it is.
func (d *Driver) Write(ctx context.Context, n engine.Node, database, slot string) error {
	w, err := d.writer(ctx, n, database, slot, binlogPosition{"log.000001", 4})
	if err != nil {
		return err
	}
	defer w.close()
	w.upTo.at++
	return w.note(ctx)
}

// DropWriter removes the account that writes.
func (d *Driver) DropWriter(ctx context.Context, n engine.Node, slot string) error {
	return d.dropWriter(ctx, n, slot)
}
