package backup

import (
	"slices"
	"time"
)

// ForkFrom are the backups that a fork can begin with, best first: complete
// ones that nothing is known against, the newest before the others. With a
// point in time they are those that began in its second, which is how times are shown.
func ForkFrom(all []Backup, at *time.Time) []Backup {
	var good []Backup
	for _, b := range all {
		if b.State == Complete && b.Problem == "" && (at == nil || SameSecond(b.Created, *at)) {
			good = append(good, b)
		}
	}
	slices.SortStableFunc(good, func(a, b Backup) int { return b.Created.Compare(a.Created) })
	return good
}

// ForkBefore are the backups to begin with that were begun by a point in time, best first.
func ForkBefore(all []Backup, at time.Time) []Backup {
	return slices.DeleteFunc(ForkFrom(all, nil), func(b Backup) bool { return b.Created.After(at) })
}

// SameSecond reports whether two points in time look the same in the API.
func SameSecond(a, b time.Time) bool { return a.Truncate(time.Second).Equal(b.Truncate(time.Second)) }

// RecoverFrom are the backups that a point in time can be recovered from with what was
// archived since, best first: those that were complete by then, the newest before
// the others. restored is when the data was last replaced before it: from
// older backups only what was before leads on.
func RecoverFrom(all []Backup, at, restored time.Time) []Backup {
	return slices.DeleteFunc(ForkFrom(all, nil), func(b Backup) bool {
		return b.Finished == nil || b.Finished.After(at) || !b.Created.After(restored)
	})
}

// Needs is the time since when archived files are needed: when the oldest backup
// began that is kept or being taken. Without any backup nothing older than now is.
func Needs(all []Backup, now time.Time) time.Time {
	oldest := now
	for _, b := range all {
		if (b.State == Complete || b.State == Running) && b.Created.Before(oldest) {
			oldest = b.Created
		}
	}
	return oldest
}
