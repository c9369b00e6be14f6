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
	"strconv"
	"strings"
	"time"

	"steward/internal/cluster"
	"steward/internal/insight"
	"steward/internal/platform/host/state"
)

// Of a server's output the newest logMost bytes are kept, and logFiles times as much of what was before, for
// logDays days.
const (
	logMost  = 8 << 20
	logFiles = 3
	logDays  = 14
)

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
	reading := d.clusterState(id).node(ordinal).logReading()
	select {
	case reading <- struct{}{}:
		defer func() { <-reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r := logReader{query: q, node: ordinal, parse: eng.LogLine, hide: d.hidden(id)}
	var all []insight.LogLine
	for i := range logFiles + 1 {
		path := outputFile(dir)
		if i > 0 {
			path += "." + strconv.Itoa(i)
		}
		found, err := r.file(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(found, all...)
		if !q.Oldest && len(all) > q.Most+q.After.Skip {
			break // older files have older lines
		}
	}
	if most := q.Most + q.After.Skip + 1; len(all) > most {
		if q.Oldest {
			return all[:most], nil
		}
		return all[len(all)-most:], nil
	}
	return all, nil
}

// logReading is full while somebody reads the node's log.
func (ns *nodeState) logReading() chan struct{} {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.reading == nil {
		ns.reading = make(chan struct{}, 1)
	}
	return ns.reading
}

// hidden finds what lines name of this machine: folders, and where programs are.
func (d *Driver) hidden(id cluster.ID) *regexp.Regexp {
	own := []string{regexp.QuoteMeta(d.layout.cluster(id)), regexp.QuoteMeta(d.layout.data), regexp.QuoteMeta(d.layout.run), "/usr", "/var", "/dev/shm", "/tmp", "/proc", "/etc", "/home", "/root", "/opt", "/srv"}
	if d.layout.keys != "" {
		own = append(own, regexp.QuoteMeta(d.layout.keys))
	}
	return regexp.MustCompile(`(?:` + strings.Join(own, "|") + `)(?:/[^\s'",:;)]*)?`)
}

// logReader reads the files of one node.
type logReader struct {
	query insight.LogQuery
	node  int
	parse func(line string) (insight.LogLine, bool)
	hide  *regexp.Regexp
}

// file are the wanted lines of one file, in its order. No more than a page's are held of each.
func (r logReader) file(ctx context.Context, path string) ([]insight.LogLine, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var found []insight.LogLine
	var entry *insight.LogLine
	var text strings.Builder
	most := r.query.Most + r.query.After.Skip + 1
	end := func() {
		if entry == nil {
			return
		}
		entry.Node, entry.Text = r.node, insight.LogText(r.hide.ReplaceAllString(text.String(), "…"))
		if r.query.Wants(*entry) && (!r.query.Oldest || len(found) < most) {
			found = append(found, *entry)
		}
		if !r.query.Oldest && len(found) > 2*most {
			found = slices.Clone(found[len(found)-most:])
		}
	}
	in := bufio.NewReaderSize(f, longestLine)
	for n := 0; ; n++ {
		line, cut, err := readLine(in)
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
		if l, ok := r.parse(line); ok {
			end()
			entry = &l
			text.Reset()
			text.WriteString(l.Text)
		} else if text.Len() < insight.MostLog {
			text.WriteString("\n" + line)
		}
		if cut {
			text.WriteString("…")
		}
	}
}

// readLine is the next line, or its beginning when it is too long.
func readLine(in *bufio.Reader) (line string, cut bool, err error) {
	raw, more, err := in.ReadLine()
	if err != nil {
		return "", false, err
	}
	line = string(raw)
	for more && err == nil {
		cut = true
		_, more, err = in.ReadLine()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return line, cut, err
}

// dropOldLogs removes rotated output that is older than logDays.
func (d *Driver) dropOldLogs() error {
	files, err := filepath.Glob(filepath.Join(d.layout.clusters(), "*", "node-*", "output.log.*"))
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
