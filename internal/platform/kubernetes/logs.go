package kubernetes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"steward/internal/cluster"
	"steward/internal/insight"
)

const (
	// longestLine is how much of a line is read; the rest of one that is longer is passed over.
	longestLine = 128 << 10
	// mostStatement is how much is read of a statement that took long, to be shown without its values.
	mostStatement = 64 << 10
	// mostLog is how much is read of one container's log. What machines keep of each is a tenth of it, unless they were told otherwise.
	mostLog = 128 << 20
)

// tails are how many of a log's last lines are asked for; the next where those before aren't enough.
var tails = []int64{1_000, 1_000_000}

// hidden finds what lines name of where the server runs.
var hidden = insight.Paths("/controller", "/projected", "/run", "/pgdata", "/plugins")

// Logs implements platform.Inspector. Machines keep Pods' logs, for as long as there is the Pod, and those of its container before the
// last restart; the servers aren't asked. Of a machine that doesn't answer there are none, as long as another's does.
func (d *Driver) Logs(ctx context.Context, id cluster.ID, q insight.LogQuery) ([]insight.LogLine, error) {
	v, err := d.look(ctx, d.seen, id)
	if err != nil {
		return nil, fmt.Errorf("cluster %d: %w", id, err)
	}
	reading := d.memory(id).reading
	select {
	case reading <- struct{}{}: // one at a time
		defer func() { <-reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	found, failed := make([][]insight.LogLine, len(v.pods)), make([]error, len(v.pods))
	var work sync.WaitGroup
	for i := range v.pods {
		if q.Node == nil || *q.Node == i {
			work.Go(func() { found[i], failed[i] = d.podLog(ctx, v.op, &v.pods[i], i, q) })
		}
	}
	work.Wait()
	if err := errors.Join(failed...); err != nil {
		if !slices.Contains(failed, nil) || q.Node != nil {
			return nil, fmt.Errorf("cluster %d: %w", id, err)
		}
		d.o.Logger.Warn("not all of a cluster's logs can be read", "cluster_id", id, "error", err)
	}
	return slices.Concat(found...), nil
}

// podLog are the wanted lines of a Pod, or of those as many as a page can have.
func (d *Driver) podLog(ctx context.Context, op operator, p *corev1.Pod, ordinal int, q insight.LogQuery) ([]insight.LogLine, error) {
	r := podLogReader{d: d, op: op, pod: p, node: ordinal, query: q}
	lives := []bool{true, false} // whether it is the life before: a Pod says late that it has another one
	if !q.Oldest {
		slices.Reverse(lives)
	}
	var all []insight.LogLine
	for _, before := range lives {
		found, err := r.life(ctx, before)
		if err != nil {
			return nil, fmt.Errorf("read the log of %s: %w", p.Name, err)
		}
		if q.Oldest {
			all = append(all, found...)
		} else {
			all = append(found, all...)
		}
		if len(all) >= q.Needs() {
			break
		}
	}
	if q.Oldest {
		return all[:min(q.Needs(), len(all))], nil
	}
	return all[max(0, len(all)-q.Needs()):], nil
}

// podLogReader reads a Pod's log.
type podLogReader struct {
	d     *Driver
	op    operator
	pod   *corev1.Pod
	node  int
	query insight.LogQuery
}

// life are the wanted lines of one life of a Pod's container, or of those as many as a page can have.
func (r podLogReader) life(ctx context.Context, before bool) (found []insight.LogLine, err error) {
	if r.query.Oldest {
		found, _, err = r.read(ctx, before, 0)
		return found, err
	}
	for i, tail := range tails {
		lines, read, err := r.read(ctx, before, tail)
		if errors.Is(err, errMuch) && i > 0 {
			return found, nil // the newest were looked through
		}
		if err != nil {
			return nil, err
		}
		if found = lines; len(found) >= r.query.Needs() || read < tail {
			break
		}
	}
	return found, nil
}

// errMuch is answered to a log that is longer than is read.
var errMuch = fmt.Errorf("it is longer than %d MiB", mostLog>>20)

// read reads a container's log, or so many lines of its end, and counts them.
func (r podLogReader) read(ctx context.Context, before bool, tail int64) (found []insight.LogLine, lines int64, err error) {
	ask := r.d.core.Get().Namespace(r.pod.Namespace).Resource("pods").Name(r.pod.Name).SubResource("log").Param("container", r.op.container())
	if before {
		ask.Param("previous", "true")
	}
	if tail > 0 {
		ask.Param("tailLines", strconv.FormatInt(tail, 10))
	}
	if from := r.query.Begins(); !from.IsZero() {
		ask.Param("sinceTime", from.UTC().Format(time.RFC3339)) // of whole seconds, and lines are written after the fact
	}
	stream, err := ask.Stream(ctx)
	if apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) {
		return nil, 0, nil // there is no such container, or none any more
	}
	if err != nil {
		return nil, 0, err
	}
	defer stream.Close()
	limited := &io.LimitedReader{R: stream, N: mostLog}
	in := bufio.NewReaderSize(limited, longestLine)
	for ; ; lines++ {
		line, cut, err := in.ReadLine()
		if errors.Is(err, io.EOF) {
			if limited.N <= 0 {
				err = errMuch
			} else {
				err = nil
			}
			return found, lines, err
		}
		if err != nil {
			return nil, lines, err
		}
		if l, ok := r.line(line, cut); ok && r.query.Wants(l) {
			found = append(found, l)
		}
		if r.query.Oldest && len(found) >= r.query.Needs() {
			return found, lines, nil
		}
		if len(found) > 2*r.query.Needs() {
			found = slices.Clone(found[len(found)-r.query.Needs():])
		}
		for cut && err == nil {
			_, cut, err = in.ReadLine()
		}
	}
}

// line is a line as it is shown; false for one that is not of the server's.
func (r podLogReader) line(text []byte, cut bool) (insight.LogLine, bool) {
	l, more, ok := r.op.logLine(text, cut)
	if !ok {
		return insight.LogLine{}, false
	}
	l.Node = r.node
	if l.Slow == nil {
		l.Text = hidden.ReplaceAllString(l.Text[:min(len(l.Text), insight.MostLog)], "…")
		if more {
			l.Text += "…"
		}
	}
	l.Text = insight.LogText(l.Text)
	return l, true
}
