package mysql

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"

	"steward/internal/engine"
)

// Each of a customer's users may have as many connections as the plan provides for,
// so several of them, or strangers who don't log in, can take all there are. The
// server keeps one more for us, which a stranger holds for a moment, too, until he
// is refused. Whoever of us gets in by that makes room for all of us.

// roomPatience is how long a session of ours tries to get into a full server.
const roomPatience = 5 * time.Second

// openAnyway opens a session of ours, also where there are too many. customers are theirs, as a query.
func openAnyway(ctx context.Context, cfg *mysql.Config, customers string) (*session, error) {
	s, err := open(ctx, cfg)
	if err == nil {
		s.customers = customers
	}
	if !is(err, errTooManyConnections) {
		return s, err
	}
	for end := time.Now().Add(roomPatience); is(err, errTooManyConnections) && time.Now().Before(end); {
		if err := pause(ctx, "wait for a connection"); err != nil {
			return nil, err
		}
		s, err = open(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	s.customers = customers
	if _, err := s.ensureRoom(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// rootAnyway is root, which makes room for dbadmin where there is none.
func (d *Driver) rootAnyway(ctx context.Context, n engine.Node) (*session, error) {
	for end := time.Now().Add(roomPatience); ; {
		s, err := d.root(ctx, n)
		if !is(err, errTooManyConnections) || time.Now().After(end) {
			return s, err
		}
		if err := d.makeRoom(ctx, n); err != nil {
			return nil, err
		}
	}
}

// makeRoom returns when there is room, for programs that connect by themselves.
func (d *Driver) makeRoom(ctx context.Context, n engine.Node) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	for end := time.Now().Add(roomPatience); ; {
		room, err := s.ensureRoom(ctx)
		if err != nil || room || time.Now().After(end) {
			return err
		}
		if err := pause(ctx, "wait for room"); err != nil {
			return err
		}
	}
}

// missedLeast puts those of customers' sessions first that are missed least.
const missedLeast = " ORDER BY USER = 'unauthenticated user' DESC, COMMAND = 'Sleep' DESC, ID DESC"

// load is how many connections there are, how many there may be, and how many of
// these a single user.
type load struct{ connected, most, perUser int64 }

// customers is how many connections customers may have together.
func (l load) customers() int64 { return l.most - ownConnections }

// missing is how many connections customers have too many of, if half of our own
// are to be free.
func (l load) missing() int64 { return l.connected + ownConnections/2 - l.most }

func (s *session) load(ctx context.Context) (load, error) {
	var l load
	status, err := s.record(ctx, "SHOW GLOBAL STATUS LIKE 'Threads_connected'")
	if err != nil {
		return l, err
	}
	if l.connected, err = strconv.ParseInt(status["Value"], 10, 64); err != nil {
		return l, fmt.Errorf("count connections: %w", err)
	}
	limits := s.conn.QueryRowContext(ctx, "SELECT @@GLOBAL.max_connections, @@GLOBAL.max_user_connections")
	if err := limits.Scan(&l.most, &l.perUser); err != nil {
		return l, fmt.Errorf("ask how many connections there may be: %w", classify(err))
	}
	return l, nil
}

// ensureRoom holds all of the customers' sessions together below what leaves half
// of our own connections free, and reports whether they were. Where they are more,
// no user may open more than a share of them.
func (s *session) ensureRoom(ctx context.Context) (bool, error) {
	l, err := s.load(ctx)
	if err != nil || l.missing() <= 0 {
		return true, err
	}
	return false, s.ration(ctx, l.customers(), l.missing())
}

// keepRoom is ensureRoom, and ends the rationing when there is plenty again.
func (s *session) keepRoom(ctx context.Context) error {
	l, err := s.load(ctx)
	switch {
	case err != nil:
		return err
	case l.missing() > 0:
		return s.ration(ctx, l.customers(), l.missing())
	case l.perUser != l.customers() && l.connected <= l.customers()/2:
		return s.limitUsers(ctx, l.customers())
	}
	return nil
}

// ration gives each user an equal share of the customers' connections, and ends as
// many sessions as are missing.
func (s *session) ration(ctx context.Context, customers, missing int64) error {
	var users int64
	query := "SELECT COUNT(DISTINCT USER) FROM information_schema.PROCESSLIST WHERE ID IN (" + s.customers + ")"
	if err := s.conn.QueryRowContext(ctx, query).Scan(&users); err != nil {
		return fmt.Errorf("count users with connections: %w", classify(err))
	}
	if err := s.limitUsers(ctx, max(1, customers/max(1, users))); err != nil {
		return err
	}
	return s.kill(ctx, fmt.Sprintf("%s%s LIMIT %d", s.customers, missedLeast, missing))
}

// limitUsers has no user open more connections; those that are open stay.
func (s *session) limitUsers(ctx context.Context, most int64) error {
	return s.exec(ctx, fmt.Sprintf("SET GLOBAL max_user_connections = %d", most))
}
