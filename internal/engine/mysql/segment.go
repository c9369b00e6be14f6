package mysql

import (
	"fmt"
	"strconv"
	"strings"

	"steward/internal/engine"
)

// What is archived of a history of transactions comes in segments, one a binary
// log of a primary. Their names say which transactions are in them, whichever
// node's log they come from, as positions: how many came before. The term is how
// often the primary had changed: a later one's segments begin at or before the
// point where it took over, and what an earlier one wrote beyond that was lost.

// segment is an archived binary log: the transactions after from, up to to.
type segment struct {
	term     uint64
	from, to uint64
}

func (p segment) String() string { return fmt.Sprintf("%08X.%016X.%016X", p.term, p.from, p.to) }

func parseSegment(name string) (segment, error) {
	var numbers [3]uint64
	words := strings.Split(name, ".")
	if len(words) != len(numbers) {
		return segment{}, fmt.Errorf("%q is no archived log", name)
	}
	for i, word := range words {
		var err error
		if numbers[i], err = strconv.ParseUint(word, 16, 64); err != nil {
			return segment{}, fmt.Errorf("%q is no archived log: %w", name, err)
		}
	}
	return segment{numbers[0], numbers[1], numbers[2]}, nil
}

func parseSegments(names []string) ([]segment, error) {
	all := make([]segment, 0, len(names))
	for _, name := range names {
		p, err := parseSegment(name)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// following is the segment that goes on from a position, and the position up to
// which it counts; false at the end of the history, engine.ErrGap before a hole.
// At a position only the segments of the last term count that had begun by then.
func following(all []segment, at uint64) (best segment, until uint64, found bool, err error) {
	term := uint64(0)
	for _, p := range all {
		if p.from <= at {
			term = max(term, p.term)
		}
	}
	more := false
	for _, p := range all {
		if p.term < term || p.to <= at {
			continue
		}
		more = true
		if p.term == term && p.from <= at && (!found || p.to > best.to) {
			best, found = p, true
		}
	}
	if !found {
		if more {
			return best, 0, false, fmt.Errorf("after transaction %d: %w", at, engine.ErrGap)
		}
		return best, 0, false, nil
	}
	until = best.to
	for _, p := range all {
		if p.term > term && p.from < until {
			until = p.from // of these all begin after at
		}
	}
	return best, until, true, nil
}
