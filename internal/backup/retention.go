package backup

import (
	"slices"
	"time"
)

// Autos is how many automatic backups of a database are kept unless the operator says otherwise (docs/rules.md, Backups).
const Autos = 7

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
