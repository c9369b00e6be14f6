package backup

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
)

// Snapshots is how many a database can have (docs/rules.md, Backups).
const Snapshots = 3

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
