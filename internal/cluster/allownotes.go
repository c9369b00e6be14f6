package cluster

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"steward/internal/fault"
)

// AllowNotes say what items of an allow list are for, in the owner's words.
type AllowNotes map[string]string

// mostNote bounds a note, in characters: it stands on a line beside its address.
const mostNote = 100

// ParseAllowNotes checks notes on the items of a list, in the list's spelling. Empty ones are left out; nil is none.
func ParseAllowNotes(notes map[string]string, list AllowList) (AllowNotes, error) {
	var unknown, bad []string
	kept := AllowNotes{}
	for item, note := range notes {
		note = strings.TrimSpace(note)
		switch {
		case note == "":
		case !slices.Contains(list, item):
			unknown = append(unknown, item)
		case utf8.RuneCountInString(note) > mostNote || strings.ContainsFunc(note, func(r rune) bool { return !unicode.IsPrint(r) }):
			bad = append(bad, item)
		default:
			kept[item] = note
		}
	}
	var faults fault.Faults
	if len(unknown) > 0 {
		slices.Sort(unknown)
		faults.Add("allow_list_notes", "Notes on what isn't in allow_list: %s", fault.Quote(unknown))
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		faults.Add("allow_list_notes", "Must be at most %d printable characters on one line: the notes on %s", mostNote, fault.Quote(bad))
	}
	return kept.Of(list), faults.Err()
}

// Of are those on the items of a list; nil for none.
func (n AllowNotes) Of(list AllowList) AllowNotes {
	kept := AllowNotes{}
	for _, item := range list {
		if note, ok := n[item]; ok {
			kept[item] = note
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}
