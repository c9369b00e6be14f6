package postgresql

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"steward/internal/engine"
)

// The programs in Node.Conf that archive WAL and fetch it. The server runs them
// as itself, inside its sandbox.
const (
	archiveScript = "archive-wal.sh"
	fetchScript   = "fetch-wal.sh"
)

// segmentMB is what initdb makes.
const segmentMB = 16

// archiveDirSegments is how many finished segments wait at most: a tenth of the disk.
func archiveDirSegments(n engine.Node) int { return max(4, n.Plan.DiskMB/10/segmentMB) }

// archiveSettings make every node archive what it finishes, replicas too: what
// a dead primary couldn't is then there. Where that was switched off a server goes
// on archiving until its next restart; without a command it would keep all WAL.
func archiveSettings(n engine.Node) []setting {
	if n.ArchiveDir == "" {
		return []setting{{name: "archive_command", value: "/bin/true"}}
	}
	return []setting{
		{name: "archive_mode", value: "always"},
		{name: "archive_command", value: script(n, archiveScript, `"%p" "%f"`)},
		{name: "archive_timeout", value: "60s"},
	}
}

// recoverySettings have the server begin with the copy it finds and go on with
// what was archived. It lets nobody in before it has ended that: then it need
// not be as large as the server it was.
func recoverySettings(n engine.Node) []setting {
	r := n.Recovery
	if r == nil {
		return nil
	}
	all := []setting{
		{name: "hot_standby", value: "off"},
		{name: "restore_command", value: script(n, fetchScript, `"%f" "%p"`)},
		{name: "recovery_target_timeline", value: "latest"},
		{name: "recovery_target_action", value: "promote"},
	}
	if !r.Until.IsZero() {
		all = append(all, setting{name: "recovery_target_time", value: r.Until.UTC().Format("2006-01-02 15:04:05.999999+00")})
	}
	return all
}

// script is a command line of one of ours. The server replaces what follows a %.
func script(n engine.Node, name, args string) string {
	path := strings.ReplaceAll(shell(filepath.Join(n.Conf, name)), "%", "%%")
	return "/bin/sh " + path + " " + args
}

// shell quotes for a shell.
func shell(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// scripts are the programs that the settings name.
func scripts(n engine.Node) []engine.File {
	var files []engine.File
	if n.ArchiveDir != "" {
		files = append(files, engine.File{Path: filepath.Join(n.Conf, archiveScript), Content: []byte(renderArchive(n))})
	}
	if n.Recovery != nil {
		files = append(files,
			engine.File{Path: filepath.Join(n.Conf, fetchScript), Content: []byte(renderFetch(n))},
			engine.File{Path: filepath.Join(n.Data, recoverySignal)})
	}
	return files
}

// renderArchive copies a segment so that it is whole under its name or not there
// at all, also after a crash. With the folder full it drops what it is given: the
// database goes on, the archive has a gap. Histories are small and always kept.
func renderArchive(n engine.Node) string {
	return fmt.Sprintf(`# Written by steward; changes are overwritten.
dir=%s
case "$2" in
*.history) ;;
*)
	if [ "$(ls "$dir" | wc -l)" -ge %d ]; then
		[ -e "$dir/%s" ] || : >"$dir/%s"
		exit 0
	fi
	;;
esac
cp "$1" "$dir/%[5]s" && sync "$dir/%[5]s" && mv "$dir/%[5]s" "$dir/$2" && sync "$dir"
`, shell(n.ArchiveDir), archiveDirSegments(n), archiveGapReported, archiveGap, archiveTemp)
}

// renderFetch asks for a file in the restore directory and waits for the answer.
func renderFetch(n engine.Node) string {
	return fmt.Sprintf(`# Written by steward; changes are overwritten.
dir=%s
rm -f "$dir/$1" "$dir/$1%[2]s"
: >"$dir/$1%[3]s" || exit 255
while :; do
	if [ -e "$dir/$1" ]; then
		cp "$dir/$1" "$2" && rm -f "$dir/$1" && exit 0
		exit 255
	fi
	if [ -e "$dir/$1%[2]s" ]; then
		rm -f "$dir/$1%[2]s"
		exit 1
	fi
	sleep 0.02
done
`, shell(n.Recovery.RestoreDir), restoreMissing, restoreWanted)
}

// segmentNumber is a segment's place in the WAL, whatever its timeline; false for
// what is no segment.
func segmentNumber(name string) (uint64, bool) {
	if !segmentName.MatchString(name) {
		return 0, false
	}
	high, errHigh := strconv.ParseUint(name[8:16], 16, 64)
	low, errLow := strconv.ParseUint(name[16:], 16, 64)
	return high<<32 | low, errHigh == nil && errLow == nil
}

// parseTime reads a time as the server writes it: microseconds since 1970, or
// nothing.
func parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("time of the last change: %w", err)
	}
	return time.UnixMicro(micros).UTC(), nil
}
