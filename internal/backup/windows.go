package backup

import (
	"slices"
	"time"
)

// Window is a time from whose moments each can be restored; From and To are the same where it is one moment.
type Window struct {
	From, To time.Time
}

// ArchiveDelay is after how long what a server has written is archived: it hands files over each minute
// at the latest, and the archive takes them within a quarter of that.
const ArchiveDelay = 75 * time.Second

// Windows are those of a database, oldest first. Each good backup is one, for its own moment; where what servers write
// is archived, they reach from a backup's end up to now, but for the archive's delay. A restore begins
// a history of its own: from older backups only what was before leads on. At a gap it isn't
// known since when files are missing, so the last backup before it is what is sure.
func Windows(all []Backup, continuous bool, restores, gaps []time.Time, now time.Time) []Window {
	good := ForkFrom(all, nil)
	slices.SortFunc(good, func(a, b Backup) int { return a.Created.Compare(b.Created) })
	var windows []Window
	if continuous {
		breaks := append(slices.Clone(restores), gaps...)
		slices.SortFunc(breaks, time.Time.Compare)
		since := time.Time{}
		for _, until := range append(breaks, now.Add(time.Second)) {
			w, ok := window(good, since, until)
			if ok && !slices.ContainsFunc(gaps, until.Equal) {
				w.To = later(w.From, until)
				if until.After(now) {
					w.To = later(w.From, now.Add(-ArchiveDelay))
				}
			}
			if ok {
				windows = append(windows, Window{w.From, w.To.Truncate(time.Second)})
			}
			since = until
		}
	}
	for _, b := range good {
		at := b.Created.Truncate(time.Second)
		if !slices.ContainsFunc(windows, func(w Window) bool { return !at.Before(w.From) && !at.After(w.To) }) {
			windows = append(windows, Window{at, at})
		}
	}
	slices.SortFunc(windows, func(a, b Window) int { return a.From.Compare(b.From) })
	return windows
}

// window reaches from the first to the last of the backups that were begun and complete within a time; not ok
// without any.
func window(good []Backup, since, until time.Time) (w Window, ok bool) {
	for _, b := range good {
		if b.Finished == nil || !b.Created.After(since) || b.Finished.After(until) {
			continue
		}
		at := b.Finished.Add(time.Second - 1).Truncate(time.Second) // the first whole second by which it was complete
		if !ok || at.Before(w.From) {
			w.From = at
		}
		w.To, ok = later(w.To, at), true
	}
	return w, ok
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
