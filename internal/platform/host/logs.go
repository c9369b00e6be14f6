package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/platform/host/logkeeper"
	"steward/internal/platform/host/state"
)

// Of each of a server's files the newest logMost bytes are kept, and logFiles times as much of what was before, for
// logDays days. What is written faster than logMost in logPause is left out.
const (
	logMost  = 8 << 20
	logFiles = 3
	logPause = 10 * time.Second
	logDays  = 14
)

// logBounds are for each of a server's files.
var logBounds = logkeeper.Bounds{Most: logMost, Files: logFiles, Pause: logPause}

// logFile is one of a node's files with what is kept of it: in the node's folder, which is steward's.
func logFile(nodeDir, path string) logkeeper.File {
	if path == "" {
		path = outputFile(nodeDir)
	}
	return logkeeper.File{Path: path, Kept: filepath.Join(nodeDir, filepath.Base(path))}
}

// longestLine is how much of a line is read; the rest of one that is longer is passed over.
const longestLine = 8 << 10

// Logs implements platform.Inspector. Files are read newest first, and no more of them than are
// needed; the servers aren't asked.
func (d *Driver) Logs(ctx context.Context, id cluster.ID, q insight.LogQuery) ([]insight.LogLine, error) {
	top, err := d.topology(id)
	if err != nil {
		return nil, fmt.Errorf("cluster %d: %w", id, err)
	}
	var all []insight.LogLine
	for ordinal := range top.Size {
		if q.Node != nil && *q.Node != ordinal {
			continue
		}
		found, err := d.nodeLogs(ctx, id, ordinal, q)
		if err != nil {
			return nil, fmt.Errorf("read the log of node %d: %w", ordinal, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// nodeLogs are the lines of one node that are wanted, or of those as many as a page can have. Nobody reads
// a node's files beside another.
func (d *Driver) nodeLogs(ctx context.Context, id cluster.ID, ordinal int, q insight.LogQuery) ([]insight.LogLine, error) {
	dir := d.layout.node(id, ordinal)
	rec, err := state.ReadNode(dir)
	if err != nil || rec == nil || !rec.Bootstrapped {
		return nil, err
	}
	eng, err := d.engine(rec.Engine)
	if err != nil {
		return nil, err
	}
	reading := d.clusterState(id).node(ordinal).readingLog
	select {
	case reading <- struct{}{}:
		defer func() { <-reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var all []insight.LogLine
	node := engine.Node{Ordinal: ordinal, Log: filepath.Join(dir, "log"), Installation: d.installation(rec.Installation)}
	for _, f := range eng.Logs(node) {
		r := logReader{query: q, node: ordinal, hide: d.hidden(id), reader: f.Reader}
		found, err := r.files(ctx, logBounds.Names(logFile(dir, f.Path)))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// hidden finds what lines name of this machine: folders, and where programs are.
func (d *Driver) hidden(id cluster.ID) *regexp.Regexp {
	own := []string{d.layout.cluster(id), d.layout.data, d.layout.run}
	if d.layout.keys != "" {
		own = append(own, d.layout.keys)
	}
	return insight.Paths(own...)
}

// logReader reads the files of one log of a node.
type logReader struct {
	query  insight.LogQuery
	node   int
	reader func() engine.LogReader
	hide   *regexp.Regexp
}

// files are the wanted lines of files, the newest file first, or of those as many as a page can have.
func (r logReader) files(ctx context.Context, names []string) ([]insight.LogLine, error) {
	var all []insight.LogLine
	for _, path := range names {
		found, err := r.file(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(found, all...)
		if !r.query.Oldest && len(all) >= r.query.Needs() {
			return all[len(all)-r.query.Needs():], nil // older files have older lines
		}
	}
	return all[:min(r.query.Needs(), len(all))], nil
}

// logEntry is one that is being read.
type logEntry struct {
	insight.LogLine
	text strings.Builder
	// cut reports whether there is more of it than text.
	cut bool
}

// add goes on with an entry.
func (e *logEntry) add(text string) {
	most := insight.MostLog
	if e.Slow != nil {
		most = mostSlow
	}
	if e.text.Len() >= most {
		e.cut = true
		return
	}
	e.text.WriteString(text)
}

// mostSlow is how much is read of the statement of an entry, to be shown without its values.
const mostSlow = 64 << 10

// file are the wanted lines of one file, in its order. No more than a page's are held of each.
func (r logReader) file(ctx context.Context, path string) ([]insight.LogLine, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // its folder may be the server's
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []insight.LogLine
	var entry *logEntry
	parse := r.reader()
	end := func() {
		if entry == nil {
			return
		}
		l := r.completed(parse, entry)
		if entry = nil; r.query.Wants(l) && (!r.query.Oldest || len(found) < r.query.Needs()) {
			found = append(found, l)
		}
		if !r.query.Oldest && len(found) > 2*r.query.Needs() {
			found = slices.Clone(found[len(found)-r.query.Needs():])
		}
	}
	in := bufio.NewReaderSize(f, longestLine)
	for n := 0; ; n++ {
		line, more, err := in.ReadLine()
		if errors.Is(err, io.EOF) {
			end()
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if n%1000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		text := string(line)
		if at, bytes, ok := logkeeper.LeftOut(text); ok {
			end()
			entry = &logEntry{LogLine: insight.LogLine{Time: at, Severity: insight.Warning, Text: fmt.Sprintf("%d bytes were logged too fast before this, and left out", bytes)}}
			entry.add(entry.Text)
		} else if l, ok := parse.Begin(text); ok {
			end()
			entry = &logEntry{LogLine: l}
			entry.add(l.Text)
		} else if entry != nil {
			entry.add("\n" + text)
		}
		if err := r.rest(in, parse, entry, more); err != nil {
			return nil, err
		}
	}
}

// rest passes over what follows of a line that is too long, of which a statement is read on.
func (r logReader) rest(in *bufio.Reader, parse engine.LogReader, entry *logEntry, more bool) error {
	for more {
		piece, still, err := in.ReadLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		text := string(piece)
		parse.Rest(text)
		if entry != nil && entry.Slow != nil {
			entry.add(text)
		} else if entry != nil {
			entry.cut = true
		}
		more = still && err == nil
	}
	return nil
}

// completed is an entry as it is shown.
func (r logReader) completed(parse engine.LogReader, entry *logEntry) insight.LogLine {
	l := entry.LogLine
	l.Node = r.node
	if l.Slow != nil {
		parse.Complete(&l, entry.text.String(), entry.cut)
		l.Text = insight.LogText(l.Text) // as it is, a statement names nothing of this machine
		return l
	}
	text := entry.text.String()
	if entry.cut {
		text += "…"
	}
	l.Text = insight.LogText(r.hide.ReplaceAllString(text, "…"))
	return l
}

// dropOldLogs removes rotated output that is older than logDays.
func (d *Driver) dropOldLogs() error {
	files, err := filepath.Glob(filepath.Join(d.layout.clusters(), "*", "node-*", "*.log.*"))
	for _, f := range files {
		info, failed := os.Stat(f)
		if failed == nil && d.o.Now().Sub(info.ModTime()) > logDays*24*time.Hour {
			failed = os.Remove(f)
		}
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// serverLogs are the files that servers of nodes with these folders write their logs to.
func serverLogs(nodes []string) []logkeeper.File {
	files := make([]logkeeper.File, 0, 2*len(nodes))
	for _, dir := range nodes {
		files = append(files, logFile(dir, ""), logFile(dir, filepath.Join(dir, "log", "slow.log")))
	}
	return files
}

// runningNodes are the folders of nodes whose servers run, as far as is known.
func (d *Driver) runningNodes() (folders []string) {
	for _, cs := range d.all() {
		for _, ordinal := range cs.ordinals() {
			if cs.node(ordinal).running() {
				folders = append(folders, d.layout.node(cs.id, ordinal))
			}
		}
	}
	return folders
}

// keepLogsSmall bounds what servers log that run, and once a minute all that is there; then it also removes what was kept for
// long enough.
func (d *Driver) keepLogsSmall() {
	const (
		every  = 5 * time.Second
		rounds = 12 // a minute
	)
	round := 0
	failed := func(err error) {
		if err != nil {
			d.log.Warn("keep servers' logs small", "error", err)
		}
	}
	logkeeper.New(logBounds, d.o.Now).Run(d.quit, every, func() []logkeeper.File {
		nodes := d.runningNodes()
		if round%rounds == 0 {
			var err error
			nodes, err = filepath.Glob(filepath.Join(d.layout.clusters(), "*", "node-*"))
			failed(errors.Join(err, d.dropOldLogs(), d.dropSetAside()))
		}
		round++
		return serverLogs(nodes)
	}, failed)
}
