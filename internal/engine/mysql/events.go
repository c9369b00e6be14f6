package mysql

import (
	"context"
	"sync"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// On a replica both enabled and disabled events become SLAVESIDE_DISABLED when
// their statement arrives, and nothing there tells which was which. So we note
// which are asleep on the primary whenever it is asked how it stands, and when it
// steps down. An event of which nothing is known is enabled, as most are.

// disabledEvents are the clusters' events that don't run on the primary.
type disabledEvents struct {
	mu     sync.Mutex
	events map[cluster.ID]map[event]bool
}

// event is the name of one.
type event struct{ schema, name string }

func (l *disabledEvents) set(id cluster.ID, events map[event]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events == nil {
		l.events = map[cluster.ID]map[event]bool{}
	}
	delete(l.events, id)
	if len(events) > 0 {
		l.events[id] = events
	}
}

func (l *disabledEvents) has(id cluster.ID, e event) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[id][e]
}

// noteEvents asks a primary which of its events are asleep.
func (d *Driver) noteEvents(ctx context.Context, s *session, n engine.Node) {
	if !clustered(n) {
		return
	}
	rows, err := s.rows(ctx, "SELECT EVENT_SCHEMA, EVENT_NAME FROM information_schema.EVENTS WHERE STATUS <> 'ENABLED'")
	if err != nil {
		d.log.Warn("can't list events", "cluster_id", n.Cluster, "node", n.Ordinal, "error", err)
		return
	}
	events := map[event]bool{}
	for _, r := range rows {
		events[event{r[0], r[1]}] = true
	}
	d.disabled.set(n.Cluster, events)
}

// replicatedEvents are those that came by replication, with all that a change
// would take from the session: whom an event runs as, and how it reads its text.
const replicatedEvents = "SELECT EVENT_SCHEMA, EVENT_NAME, SUBSTRING_INDEX(DEFINER, '@', LENGTH(DEFINER) - LENGTH(REPLACE(DEFINER, '@', ''))), " +
	"SUBSTRING_INDEX(DEFINER, '@', -1), SQL_MODE, TIME_ZONE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION " +
	"FROM information_schema.EVENTS WHERE STATUS IN ('SLAVESIDE_DISABLED', 'REPLICA_SIDE_DISABLED')"

// restoreEvents gives the customers' events back the state that they had on the
// former primary. The change is logged, so that the other nodes put them to
// sleep. An event whose time is over can't be enabled, and needn't.
func (d *Driver) restoreEvents(ctx context.Context, s *session, n engine.Node) {
	log := d.log.With("cluster_id", n.Cluster, "node", n.Ordinal)
	events, err := s.rows(ctx, replicatedEvents)
	if err != nil {
		log.Warn("can't list events", "error", err)
		return
	}
	for _, e := range events {
		state := " ENABLE"
		if d.disabled.has(n.Cluster, event{e[0], e[1]}) {
			state = " DISABLE"
		}
		err := s.exec(ctx, "SET SESSION sql_mode = "+quote(e[4]), "SET SESSION time_zone = "+quote(e[5]),
			"SET SESSION character_set_client = "+quote(e[6]), "SET SESSION collation_connection = "+quote(e[7]),
			"ALTER DEFINER = "+identifier(e[2])+"@"+identifier(e[3])+" EVENT "+identifier(e[0])+"."+identifier(e[1])+state)
		if err != nil {
			log.Warn("can't restore an event", "schema", e[0], "event", e[1], "error", err)
		}
	}
}
