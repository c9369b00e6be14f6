package backup

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/cluster"
	"steward/internal/fault"
)

// Snapshots is how many a database can have, Autos how many automatic backups
// are kept unless the operator says otherwise (docs/rules.md, Backups).
const (
	Snapshots = 3
	Autos     = 7
)

var labelForm = regexp.MustCompile(`^[A-Za-z0-9]*$`)

// ValidateLabel checks a snapshot's label: 1..30 of ASCII letters and digits.
// Older backups may have others.
func ValidateLabel(label string) fault.Faults {
	var faults fault.Faults
	if len(label) < 1 || len(label) > 30 {
		faults = append(faults, fault.Length("label", 1, 30))
	}
	if !labelForm.MatchString(label) {
		faults.Add("label", "May only contain ASCII letters and digits")
	}
	return faults
}

// ValidateTarget checks the node a snapshot is to be taken from.
func ValidateTarget(t Target) fault.Faults {
	if t == FromPrimary || t == FromSecondary {
		return nil
	}
	return fault.Faults{fault.OneOf("target", FromPrimary, FromSecondary)}
}

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

// AutoLabel names an automatic backup of a day: auto20260131, or auto20260131b and
// so on where one of the database's backups has that label.
func AutoLabel(day time.Time, existing []Backup) string {
	return free("auto"+day.UTC().Format("20060102"), existing)
}

// FinalLabel names the last backup of a database that is deleted.
func FinalLabel(existing []Backup) string { return free("final", existing) }

// free is a label that none of the backups has: the first, or that with a letter behind it.
func free(first string, existing []Backup) string {
	label, letter := first, 'a'
	for slices.ContainsFunc(existing, func(b Backup) bool { return b.Label == label }) {
		if letter++; letter > 'z' {
			first, letter = first+"z", 'b'
		}
		label = first + string(letter)
	}
	return label
}

// UpgradeLabel names the backup that a move to another series begins with: before17, or before17b and so on where one of
// the database's backups has that label.
func UpgradeLabel(series string, existing []Backup) string {
	return free("before"+strings.ReplaceAll(series, ".", ""), existing)
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

// Expired are the automatic backups to drop: complete ones beyond the newest to
// keep, and failed ones after a day. The last complete one always stays.
func Expired(all []Backup, keep int, now time.Time) []Backup {
	var expired, complete []Backup
	for _, b := range all {
		switch {
		case b.Type != Auto:
		case b.State == Complete:
			complete = append(complete, b)
		case b.State == Failed && now.Sub(b.Created) > 24*time.Hour:
			expired = append(expired, b)
		}
	}
	slices.SortStableFunc(complete, func(a, b Backup) int { return b.Created.Compare(a.Created) })
	if keep = max(1, keep); len(complete) > keep {
		expired = append(expired, complete[keep:]...)
	}
	return expired
}
