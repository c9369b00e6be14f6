package mysql

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// gtidSet is a set of MySQL's global transaction ids: to each source, a UUID
// and perhaps a tag, the runs of its numbers, sorted and apart from each other.
type gtidSet map[string][]gtidRun

// gtidRun is the numbers from first to last.
type gtidRun struct{ first, last uint64 }

// parseGTIDs reads what the server shows as a set: "uuid:1-5:7:tag:1-3,\nuuid:9".
// Of gtid_owned's form, "uuid:9#12#13:10#14", it leaves the threads out.
func parseGTIDs(text string) (gtidSet, error) {
	set := gtidSet{}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.ToLower(strings.TrimSpace(part))
		if part == "" {
			continue
		}
		uuid, rest, _ := strings.Cut(part, ":")
		if !isUUID(uuid) {
			return nil, fmt.Errorf("parse GTID set: %q is no UUID", uuid)
		}
		if err := set.parseRuns(uuid, rest); err != nil {
			return nil, fmt.Errorf("parse GTID set: %w", err)
		}
	}
	set.normalise()
	return set, nil
}

// parseRuns reads what follows a UUID: runs, and tags for the runs after them.
func (s gtidSet) parseRuns(uuid, text string) error {
	source := uuid
	for word := range strings.SplitSeq(text, ":") {
		word, _, _ = strings.Cut(strings.TrimSpace(word), "#")
		if isTag(word) {
			source = uuid + ":" + word
			continue
		}
		first, last, more := strings.Cut(word, "-")
		if !more {
			last = first
		}
		run := gtidRun{}
		var err error
		if run.first, err = strconv.ParseUint(first, 10, 63); err != nil {
			return err
		}
		if run.last, err = strconv.ParseUint(last, 10, 63); err != nil {
			return err
		}
		if run.first == 0 || run.last < run.first {
			return fmt.Errorf("%q is no run of numbers", word)
		}
		s[source] = append(s[source], run)
	}
	return nil
}

func isUUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i, c := range []byte(text) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (c == '-') {
			return false
		}
		if c != '-' && !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}

// isTag: a tag begins with a letter or _, and has at most 32 of these and digits.
func isTag(text string) bool {
	if text == "" || len(text) > 32 || text[0] >= '0' && text[0] <= '9' {
		return false
	}
	for _, c := range []byte(text) {
		if !(c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z') {
			return false
		}
	}
	return true
}

// normalise sorts the runs and joins those that touch.
func (s gtidSet) normalise() {
	for source, runs := range s {
		slices.SortFunc(runs, func(a, b gtidRun) int { return cmp.Compare(a.first, b.first) })
		joined := runs[:1]
		for _, r := range runs[1:] {
			if end := &joined[len(joined)-1]; r.first <= end.last+1 {
				end.last = max(end.last, r.last)
			} else {
				joined = append(joined, r)
			}
		}
		s[source] = joined
	}
}

// union is what is in any of the sets.
func union(sets ...gtidSet) gtidSet {
	all := gtidSet{}
	for _, s := range sets {
		for source, runs := range s {
			all[source] = append(all[source], runs...)
		}
	}
	all.normalise()
	return all
}

// holds reports whether everything in other is in s.
func (s gtidSet) holds(other gtidSet) bool {
	for source, runs := range other {
		for _, r := range runs {
			inside := func(mine gtidRun) bool { return mine.first <= r.first && r.last <= mine.last }
			if !slices.ContainsFunc(s[source], inside) {
				return false
			}
		}
	}
	return true
}

// count is the number of transactions in the set.
func (s gtidSet) count() uint64 {
	var n uint64
	for _, runs := range s {
		for _, r := range runs {
			n += r.last - r.first + 1
		}
	}
	return n
}

// String is the set as the server shows it, in one line.
func (s gtidSet) String() string {
	var parts []string
	for source, runs := range s {
		for _, r := range runs {
			source += ":" + strconv.FormatUint(r.first, 10)
			if r.last > r.first {
				source += "-" + strconv.FormatUint(r.last, 10)
			}
		}
		parts = append(parts, source)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}
