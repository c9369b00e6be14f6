package backup_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/backup"
)

func TestWindows(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		t.Helper()
		moment, err := time.Parse("15:04:05.9", text)
		if err != nil {
			t.Fatal(err)
		}
		return moment.AddDate(2026, 0, 0)
	}
	times := func(texts string) (all []time.Time) {
		for text := range strings.FieldsSeq(texts) {
			all = append(all, at(text))
		}
		return all
	}
	good := func(from, to string) backup.Backup {
		return backup.Backup{State: backup.Complete, Created: at(from), Finished: new(at(to))}
	}
	broken := good("01:00:00", "01:01:00")
	broken.Problem = "it doesn't restore"
	running := backup.Backup{State: backup.Running, Created: at("01:00:00")}
	one, two, three := good("02:00:00.5", "02:10:00.5"), good("04:00:00", "04:10:00"), good("06:00:00", "06:10:00")
	const now = "08:00:00"
	for name, c := range map[string]struct {
		all            []backup.Backup
		continuous     bool
		restores, gaps string
		want           string
	}{
		"nothing":                       {continuous: true},
		"none that is good":             {all: []backup.Backup{broken, running}, continuous: true},
		"backups alone":                 {all: []backup.Backup{three, broken, two, one}, want: "02:00:00 04:00:00 06:00:00"},
		"an archive":                    {all: []backup.Backup{three, broken, two, one}, continuous: true, want: "02:00:00 02:10:01-07:58:45"},
		"a backup that was just taken":  {all: []backup.Backup{good("07:59:00", "07:59:50")}, continuous: true, want: "07:59:00 07:59:50"},
		"a restore":                     {all: []backup.Backup{three, two, one}, continuous: true, restores: "05:00:00", want: "02:00:00 02:10:01-05:00:00 06:00:00 06:10:00-07:58:45"},
		"a restore during a backup":     {all: []backup.Backup{two, one}, continuous: true, restores: "04:05:00", want: "02:00:00 02:10:01-04:05:00"},
		"a restore and nothing since":   {all: []backup.Backup{one}, continuous: true, restores: "05:00:00", want: "02:00:00 02:10:01-05:00:00"},
		"a gap":                         {all: []backup.Backup{three, two, one}, continuous: true, gaps: "05:00:00", want: "02:00:00 02:10:01-04:10:00 06:00:00 06:10:00-07:58:45"},
		"a gap before the first backup": {all: []backup.Backup{one}, continuous: true, gaps: "01:00:00", want: "02:00:00 02:10:01-07:58:45"},
		"a gap and a restore":           {all: []backup.Backup{three, two, one}, continuous: true, gaps: "03:00:00", restores: "05:00:00", want: "02:00:00 02:10:01 04:00:00 04:10:00-05:00:00 06:00:00 06:10:00-07:58:45"},
	} {
		var got []string
		for _, w := range backup.Windows(c.all, c.continuous, times(c.restores), times(c.gaps), at(now)) {
			text := w.From.Format(time.TimeOnly)
			if !w.To.Equal(w.From) {
				text += "-" + w.To.Format(time.TimeOnly)
			}
			got = append(got, text)
		}
		if !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: got %v, want %s", name, got, c.want)
		}
	}
}
