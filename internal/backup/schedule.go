package backup

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"time"

	"steward/internal/cluster"
)

// Schedule is the time of day, in UTC, of automatic backups. Databases are
// spread over the minutes after it, each always at the same.
type Schedule struct {
	Hour, Minute int
	Spread       time.Duration
}

var timeOfDay = regexp.MustCompile(`^([01][0-9]|2[0-3]):([0-5][0-9])$`)

// ParseSchedule reads "00:00".
func ParseSchedule(text string) (Schedule, error) {
	m := timeOfDay.FindStringSubmatch(text)
	if m == nil {
		return Schedule{}, fmt.Errorf("%q is no time of day: write it as 00:00, in UTC", text)
	}
	hour, errHour := strconv.Atoi(m[1])
	minute, errMinute := strconv.Atoi(m[2])
	if errHour != nil || errMinute != nil {
		return Schedule{}, fmt.Errorf("%q is no time of day", text)
	}
	return Schedule{Hour: hour, Minute: minute}, nil
}

// Due reports whether a database's automatic backup is due, and of which day. last
// is when the newest was begun, created when the database was. Days that were
// missed are made up for by one backup, the latest day's.
func Due(now time.Time, last *time.Time, created time.Time, s Schedule, id cluster.ID) (day time.Time, due bool) {
	now = now.UTC()
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	at := s.at(midnight, id)
	for at.After(now) { // twice, where the spread goes beyond midnight
		midnight = midnight.AddDate(0, 0, -1)
		at = s.at(midnight, id)
	}
	if created.After(at) || last != nil && !last.Before(at) {
		return time.Time{}, false
	}
	return midnight, true
}

// at is a database's moment of a day.
func (s Schedule) at(midnight time.Time, id cluster.ID) time.Time {
	at := midnight.Add(time.Duration(s.Hour)*time.Hour + time.Duration(s.Minute)*time.Minute)
	if s.Spread <= 0 {
		return at
	}
	h := fnv.New64a()
	fmt.Fprint(h, int64(id))
	return at.Add(time.Duration(h.Sum64() % uint64(s.Spread)))
}
