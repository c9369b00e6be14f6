package postgresql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// history is the timelines that led to a server's data, oldest first.
type history []timeline

// timeline is a line of history up to its end, where the next one forks off.
type timeline struct {
	id  uint32
	end lsn
}

// parseHistory reads a history file: a timeline, where it was left and why, per
// line. current is the timeline that the file is of, with its end so far.
func parseHistory(file string, current timeline) (history, error) {
	var l history
	for line := range strings.Lines(file) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 2 {
			return nil, fmt.Errorf("history of a timeline: line %q", line)
		}
		id, err := strconv.ParseUint(fields[0], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("history of a timeline: %w", err)
		}
		end, err := parseLSN(fields[1])
		if err != nil {
			return nil, fmt.Errorf("history of a timeline: %w", err)
		}
		l = append(l, timeline{uint32(id), end})
	}
	return append(l, current), nil
}

// common is where the two lines of history part: up to there they are the same.
func (l history) common(other history) lsn {
	var shared lsn
	for i := range min(len(l), len(other)) {
		if l[i].id != other[i].id {
			break
		}
		shared = min(l[i].end, other[i].end)
		if l[i].end != other[i].end {
			break
		}
	}
	return shared
}

// descent is what a server tells about where its data comes from.
type descent struct {
	identifier string
	recovering bool
	history    history
	// received is the last place it has, applied where its replay stands.
	received, applied lsn
	// oldest is the first segment of WAL that it still has, of the given size.
	oldest, segmentSize uint64
}

// placeQuery is asked before wayQuery: a server that turns to another timeline meanwhile is then thought to be at a place that
// it has passed on its new way. The other way round, what it applied after it had turned counted as of its old timeline, which nobody shares.
const placeQuery = `SELECT (SELECT system_identifier FROM pg_control_system()), pg_is_in_recovery(),
		CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END,
		CASE WHEN pg_is_in_recovery() THEN greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
			ELSE pg_current_wal_flush_lsn() END`

// wayQuery takes the timeline from the names of the WAL's segments: a
// replica has one of a timeline's only once it goes along with it, and what its
// control file says of that may be old.
const wayQuery = `WITH wal AS (
		SELECT name FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'
	), newest AS (SELECT substr(max(name), 1, 8) AS id FROM wal)
	SELECT id, pg_read_file('pg_wal/' || id || '.history', 0, 1000000, true),
		(SELECT min(substr(name, 9)) FROM wal), pg_size_bytes(current_setting('wal_segment_size'))
	FROM newest`

func askDescent(ctx context.Context, conn *pgconn.PgConn) (descent, error) {
	place, err := queryOne(ctx, conn, placeQuery)
	if err != nil {
		return descent{}, err
	}
	way, err := queryOne(ctx, conn, wayQuery)
	if err != nil {
		return descent{}, err
	}
	return parseDescent(place, way)
}

// parseDescent reads the two queries' answers.
func parseDescent(place, way []string) (d descent, err error) {
	d.identifier, d.recovering = place[0], place[1] == "t"
	if d.applied, err = parseLSN(place[2]); err != nil {
		return descent{}, err
	}
	if d.received, err = parseLSN(place[3]); err != nil {
		return descent{}, err
	}
	id, err := strconv.ParseUint(way[0], 16, 32)
	if err != nil {
		return descent{}, fmt.Errorf("timeline: %w", err)
	}
	if d.history, err = parseHistory(way[1], timeline{uint32(id), d.applied}); err != nil {
		return descent{}, err
	}
	if d.segmentSize, err = strconv.ParseUint(way[3], 10, 64); err != nil {
		return descent{}, fmt.Errorf("size of segments: %w", err)
	}
	d.oldest, err = parseSegment(way[2], d.segmentSize)
	return d, err
}

// checkHistory compares a replica, which conn asks, with its source, if that can be asked
// and is a primary. Else there is nothing to say: the replica will stream or not.
func checkHistory(ctx context.Context, n engine.Node, conn *pgconn.PgConn) error {
	replica, err := askDescent(ctx, conn)
	if err != nil {
		return fmt.Errorf("follow: look at the replica's history: %w", err)
	}
	at := n
	at.Run, at.Listen, at.Role = n.Source.Run, n.Source.Listen, cluster.Primary
	there, err := asOurs(ctx, at)
	if err != nil {
		return nil // a source that doesn't answer proves nothing
	}
	defer closeSoon(ctx, there)
	source, err := askDescent(ctx, there)
	if err != nil || source.recovering {
		return nil // nor does one that is no primary
	}
	if why := replica.partsFrom(source); why != nil {
		return fmt.Errorf("follow: %w: %w", engine.ErrDiverged, why)
	}
	return nil
}

// partsFrom is why the replica can't follow the source, asked later, or nil.
func (d descent) partsFrom(source descent) error {
	if d.identifier != source.identifier {
		return errors.New("it is of another cluster")
	}
	if shared := d.history.common(source.history); d.applied > shared {
		return fmt.Errorf("the replica is at %v, and what it shares with its source ends at %v", d.applied, shared)
	}
	if d.received < source.received && uint64(d.received)/d.segmentSize < source.oldest {
		return fmt.Errorf("the replica needs WAL from %v on, which its source has no more", d.received)
	}
	return nil
}
