package host

import (
	"io"
	"os"
	"strings"

	"steward/internal/engine"
)

// noWords stands for the last words of a server that left none.
const noWords = "it left no output"

// lastWords are the last lines of a server's output, which are for operators' logs and for owners. Statements that took long aren't
// among them, nor errors of statements: they are as they were sent. Nor is what was said to sessions that were ended, or not let in
// while it started: there may be any number.
func lastWords(nodeDir string, eng engine.Driver) string {
	return lastLines(nodeDir, func(lines []string, cut bool) []string { return withoutSessions(lines, eng, cut) })
}

// lastPoolerWords are those of a pooler, which logs no statements.
func lastPoolerWords(dir string) string {
	return lastLines(dir, func(lines []string, _ bool) []string { return lines })
}

// lastLines are the last lines of the output in a folder that are to be kept. cut reports whether there were others before them.
func lastLines(dir string, keep func(lines []string, cut bool) []string) string {
	const most, looked = 600, 64 << 10
	f, err := os.Open(outputFile(dir))
	if err != nil {
		return noWords
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return noWords
	}
	first := max(0, info.Size()-looked)
	tail, err := io.ReadAll(io.NewSectionReader(f, first, looked))
	if err != nil || len(tail) == 0 {
		return noWords
	}
	lines := strings.Split(string(tail), "\n")
	if first > 0 {
		lines = lines[1:] // of which the beginning isn't seen
	}
	words := strings.TrimSpace(strings.Join(keep(lines, first > 0), "\n"))
	return strings.TrimSpace(strings.ToValidUTF8(words[max(0, len(words)-most):], ""))
}

// withoutSessions are the lines that aren't of entries about sessions or their statements, whose further lines begin with a tab. within
// reports whether the first line may be such a one.
func withoutSessions(lines []string, eng engine.Driver, within bool) []string {
	var kept []string
	var parse engine.LogReader
	for _, f := range eng.Logs(engine.Node{}) {
		if f.Path == "" {
			parse = f.Reader()
		}
	}
	for _, line := range lines {
		l, begins := parse.Begin(line)
		switch {
		case begins:
			within = l.Slow != nil || l.OfSession
		case !strings.HasPrefix(line, "\t"):
			within = false
		}
		if !within {
			kept = append(kept, line)
		}
	}
	return kept
}
