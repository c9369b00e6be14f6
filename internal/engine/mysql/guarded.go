package mysql

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
)

// guarded has sessions at sources: the driver trusts the lengths that a server sends, and panics where they lie. That ends the session, with an error,
// and not steward.
type guarded struct {
	driver.Connector
	// hangUp closes the connection that was dialed last.
	hangUp func()
}

// Connect implements driver.Connector.
func (g guarded) Connect(ctx context.Context) (c driver.Conn, err error) {
	defer func() {
		if recover() != nil {
			g.hangUp()
			c, err = nil, errNotMySQL
		}
	}()
	opened, err := g.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &guardedConn{Conn: opened}, nil
}

// guardedConn is a connection that is of no more use once the driver has panicked. It has what the driver's own have, as far as sources are asked.
type guardedConn struct {
	driver.Conn
	broken atomic.Bool
}

// guard makes an error of a panic.
func (c *guardedConn) guard(err *error) {
	if recover() != nil {
		c.broken.Store(true)
		*err = errNotMySQL
	}
}

// IsValid implements driver.Validator.
func (c *guardedConn) IsValid() bool { return !c.broken.Load() && c.Conn.(driver.Validator).IsValid() }

// ResetSession implements driver.SessionResetter.
func (c *guardedConn) ResetSession(ctx context.Context) (err error) {
	defer c.guard(&err)
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *guardedConn) CheckNamedValue(v *driver.NamedValue) (err error) {
	defer c.guard(&err)
	return c.Conn.(driver.NamedValueChecker).CheckNamedValue(v)
}

// BeginTx implements driver.ConnBeginTx.
func (c *guardedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (tx driver.Tx, err error) {
	defer c.guard(&err)
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

// ExecContext implements driver.ExecerContext.
func (c *guardedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Result, err error) {
	defer c.guard(&err)
	if c.broken.Load() {
		return nil, errNotMySQL
	}
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

// QueryContext implements driver.QueryerContext.
func (c *guardedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Rows, err error) {
	defer c.guard(&err)
	if c.broken.Load() {
		return nil, errNotMySQL
	}
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	return guardedRows{rows, c}, nil
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *guardedConn) PrepareContext(ctx context.Context, query string) (s driver.Stmt, err error) {
	defer c.guard(&err)
	if c.broken.Load() {
		return nil, errNotMySQL
	}
	prepared, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return guardedStmt{prepared, c}, nil
}

type guardedStmt struct {
	driver.Stmt
	c *guardedConn
}

// CheckNamedValue implements driver.NamedValueChecker.
func (s guardedStmt) CheckNamedValue(v *driver.NamedValue) error { return s.c.CheckNamedValue(v) }

// QueryContext implements driver.StmtQueryContext.
func (s guardedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (r driver.Rows, err error) {
	defer s.c.guard(&err)
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		return nil, err
	}
	return guardedRows{rows, s.c}, nil
}

// ExecContext implements driver.StmtExecContext.
func (s guardedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (r driver.Result, err error) {
	defer s.c.guard(&err)
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

type guardedRows struct {
	driver.Rows
	c *guardedConn
}

// Next implements driver.Rows.
func (r guardedRows) Next(dest []driver.Value) (err error) {
	defer r.c.guard(&err)
	return r.Rows.Next(dest)
}

// Close implements driver.Rows: it reads what is left.
func (r guardedRows) Close() (err error) {
	defer r.c.guard(&err)
	return r.Rows.Close()
}
