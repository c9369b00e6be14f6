package host

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/durable"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/platform/host/build"
	"steward/internal/platform/host/state"
)

// templates makes pristine data folders, one per installation, and keeps some
// clones of those in use ready: taking one is a rename.
type templates struct {
	d *Driver
	// maker is a digest of this program, computed when first needed.
	maker func() (string, error)
	// working counts the reconciliations under way; copying waits for a quiet moment.
	working atomic.Int32
	wake    chan struct{}

	mu  sync.Mutex
	all map[string]*template
	// inUse are the series that there are clusters of.
	inUse map[string]bool
}

// template is one installation's. Its folder holds data, the note, and pool
// with the clones.
type template struct {
	inst engine.Installation
	dir  string
	// making is held while the template is made.
	making sync.Mutex
	note   state.Template
	made   bool

	mu    sync.Mutex
	ready []string
}

func newTemplates(d *Driver) *templates {
	return &templates{d: d, maker: sync.OnceValues(maker), wake: make(chan struct{}, 1), all: map[string]*template{}, inUse: map[string]bool{}}
}

func (t *templates) of(inst engine.Installation) *template {
	t.mu.Lock()
	defer t.mu.Unlock()
	tm := t.all[inst.ID()]
	if tm == nil {
		tm = &template{inst: inst, dir: t.d.layout.template(inst.ID())}
		t.all[inst.ID()] = tm
	}
	return tm
}

// busy counts a reconciliation as under way until the returned function is called.
func (t *templates) busy() (done func()) {
	t.working.Add(1)
	return func() { t.working.Add(-1) }
}

// take puts a clone's data into a node's folder, owned by the user. With it
// goes the note, which comes first: data without one would be a customer's.
func (t *templates) take(ctx context.Context, inst engine.Installation, nodeDir string, user int) (state.Template, error) {
	tm := t.of(inst)
	if err := t.ensure(ctx, tm); err != nil {
		return state.Template{}, err
	}
	clone, ok := tm.pop()
	t.use(inst)
	t.nudge()
	if !ok {
		var err error
		if clone, err = t.makeClone(ctx, tm); err != nil {
			return state.Template{}, err
		}
		if err := durable.SyncFileSystem(clone); err != nil {
			return state.Template{}, err
		}
	}
	if err := giveTree(filepath.Join(clone, "data"), user); err != nil {
		return state.Template{}, err
	}
	for _, name := range []string{filepath.Base(state.TemplateFile("")), "data"} {
		if err := os.Rename(filepath.Join(clone, name), filepath.Join(nodeDir, name)); err != nil {
			return state.Template{}, fmt.Errorf("move clone: %w", err)
		}
		failpoint.Here("host: moved " + name + " of a clone")
	}
	if err := os.Remove(clone); err != nil {
		return state.Template{}, fmt.Errorf("remove emptied folder: %w", err)
	}
	return state.ReadTemplate(nodeDir)
}

func (tm *template) pop() (string, bool) {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	if len(tm.ready) == 0 {
		return "", false
	}
	clone := tm.ready[0]
	tm.ready = tm.ready[1:]
	return clone, true
}

func (tm *template) count() int {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return len(tm.ready)
}

func (tm *template) push(clone string) {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	tm.ready = append(tm.ready, clone)
}

func (tm *template) pool() string { return filepath.Join(tm.dir, "pool") }

// ensure makes the template unless it is there.
func (t *templates) ensure(ctx context.Context, tm *template) error {
	tm.making.Lock()
	defer tm.making.Unlock()
	if tm.made {
		return nil
	}
	maker, err := t.maker()
	if err != nil {
		return err
	}
	n, err := state.ReadTemplate(tm.dir)
	if err != nil || n.Maker != maker {
		if n, err = t.make(ctx, tm, maker); err != nil {
			return fmt.Errorf("make template of %s: %w", tm.inst.ID(), err)
		}
	}
	tm.note = n
	if err := t.findClones(tm); err != nil {
		return err
	}
	tm.made = true
	return nil
}

// make makes a template beside its place and moves it there whole.
func (t *templates) make(ctx context.Context, tm *template, maker string) (state.Template, error) {
	began := time.Now()
	if err := t.d.trash.put(tm.dir); err != nil {
		return state.Template{}, err
	}
	dir, err := os.MkdirTemp(t.d.layout.templates(), unfinished)
	if err != nil {
		return state.Template{}, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil {
		return state.Template{}, err
	}
	data := filepath.Join(dir, "data")
	if err := errors.Join(os.Mkdir(data, 0o700), os.Mkdir(filepath.Join(dir, "pool"), 0o711)); err != nil {
		return state.Template{}, err
	}
	if err := giveTree(data, t.d.templateUser()); err != nil {
		return state.Template{}, err
	}
	eng, err := t.d.engine(tm.inst.Family())
	if err != nil {
		return state.Template{}, err
	}
	n := state.Template{Password: rand.Text(), Maker: maker}
	if err := eng.Template(ctx, tm.inst, data, n.Password, t.d.runAsOwner); err != nil {
		return state.Template{}, err
	}
	if err := n.Write(dir); err != nil {
		return state.Template{}, err
	}
	if err := durable.SyncFileSystem(dir); err != nil {
		return state.Template{}, err
	}
	failpoint.Here("host: before a template is put in place")
	if err := os.Rename(dir, tm.dir); err != nil {
		return state.Template{}, err
	}
	t.d.log.Info("template made", "installation", tm.inst.ID(), "ms", milliseconds(time.Since(began)))
	return n, nil
}

// unfinished begins the names of what is being made.
const unfinished = ".making-"

// findClones lists the clones that an earlier process made ready.
func (t *templates) findClones(tm *template) error {
	spreadFolder(tm.pool())
	entries, err := os.ReadDir(tm.pool())
	if err != nil {
		return fmt.Errorf("look for clones: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(tm.pool(), e.Name())
		whole := !strings.HasPrefix(e.Name(), unfinished) && exists(state.TemplateFile(dir)) && exists(filepath.Join(dir, "data"))
		if whole {
			tm.push(dir)
		} else if err := t.d.trash.put(dir); err != nil {
			return err
		}
	}
	return nil
}

// makeClone makes a clone, a server of its own, in the template's pool.
func (t *templates) makeClone(ctx context.Context, tm *template) (string, error) {
	dir, err := os.MkdirTemp(tm.pool(), unfinished)
	if err != nil {
		return "", fmt.Errorf("make clone: %w", err)
	}
	fail := func(err error) (string, error) {
		return "", errors.Join(fmt.Errorf("make clone of %s: %w", tm.inst.ID(), err), os.RemoveAll(dir))
	}
	eng, err := t.d.engine(tm.inst.Family())
	if err != nil {
		return fail(err)
	}
	data := filepath.Join(dir, "data")
	if err := copyTree(ctx, filepath.Join(tm.dir, "data"), data); err != nil {
		return fail(err)
	}
	if err := eng.RegenerateIdentity(ctx, data); err != nil {
		return fail(err)
	}
	if err := tm.note.Write(dir); err != nil {
		return fail(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return fail(err)
	}
	ready := filepath.Join(tm.pool(), strings.TrimPrefix(filepath.Base(dir), unfinished))
	if err := os.Rename(dir, ready); err != nil {
		return fail(err)
	}
	return ready, nil
}

// nudge wakes keepReady: a clone was taken.
func (t *templates) nudge() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// keepReady makes templates and clones ahead of use, one at a time, at low
// priority, and never while a cluster is being reconciled.
func (t *templates) keepReady() {
	if t.d.o.PoolSize == 0 {
		return
	}
	lowPriority()
	t.clearUnfinished()
	// Templates that perhaps nobody will want come when the rush of a start is over.
	const later = 30 * time.Second
	others := time.NewTimer(later)
	defer others.Stop()
	for {
		t.each(t.likely(), t.fill)
		select {
		case <-t.d.quit.Done():
			return
		case <-t.wake:
		case <-others.C:
			t.each(t.offered(), func(tm *template) error { return t.ensure(t.d.quit, tm) })
		}
	}
}

// each does something for each installation, in quiet moments.
func (t *templates) each(list []engine.Installation, do func(*template) error) {
	for _, inst := range list {
		if !t.quiet() {
			return
		}
		if err := do(t.of(inst)); err != nil && t.d.quit.Err() == nil {
			t.d.log.Warn("clones can't be made ahead", "installation", inst.ID(), "error", err)
		}
	}
}

// offered are the newest installations of each series: those that new clusters get.
func (t *templates) offered() []engine.Installation {
	var list []engine.Installation
	for _, i := range t.d.Installations() {
		if best, ok := build.Newest(t.d.Installations(), i.Family(), i.Series); ok && best.ID() == i.ID() {
			list = append(list, i)
		}
	}
	return list
}

// likely are those of the offered whose clones will be wanted next: of series
// that are in use, and the newest of each flavour.
func (t *templates) likely() []engine.Installation {
	latest := map[engine.Flavour]string{}
	for _, i := range t.offered() {
		if s, ok := latest[i.Flavour]; !ok || engine.CompareVersions(i.Series, s) > 0 {
			latest[i.Flavour] = i.Series
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []engine.Installation
	for _, i := range t.offered() {
		if latest[i.Flavour] == i.Series || t.inUse[seriesOf(i)] {
			list = append(list, i)
		}
	}
	return list
}

// use notes that there are clusters of the installation's series.
func (t *templates) use(i engine.Installation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inUse[seriesOf(i)] = true
}

func seriesOf(i engine.Installation) string { return string(i.Family()) + "/" + i.Series }

// fill makes the template's clones ready.
func (t *templates) fill(tm *template) error {
	if err := t.ensure(t.d.quit, tm); err != nil {
		return err
	}
	for tm.count() < t.d.o.PoolSize {
		if !t.quiet() {
			return nil
		}
		clone, err := t.makeClone(t.d.quit, tm)
		if err != nil {
			return err
		}
		if err := durable.SyncFileSystem(clone); err != nil {
			return err
		}
		tm.push(clone)
	}
	return nil
}

// quiet waits until no cluster has been reconciled for a moment; false when the
// driver is closed.
func (t *templates) quiet() bool {
	const moment = 100 * time.Millisecond
	for calm := time.Duration(0); calm < moment; {
		const look = 25 * time.Millisecond
		select {
		case <-t.d.quit.Done():
			return false
		case <-time.After(look):
		}
		if t.working.Load() == 0 {
			calm += look
		} else {
			calm = 0
		}
	}
	return true
}

// clearUnfinished throws away what an earlier process didn't finish, and
// templates of builds that are gone.
func (t *templates) clearUnfinished() {
	entries, err := os.ReadDir(t.d.layout.templates())
	if err != nil {
		t.d.log.Warn("look for templates", "error", err)
		return
	}
	known := map[string]bool{}
	for _, i := range t.d.Installations() {
		known[i.ID()] = true
	}
	for _, e := range entries {
		if known[e.Name()] || strings.HasPrefix(e.Name(), unfinished) && t.working.Load() > 0 {
			continue
		}
		if err := t.d.trash.put(filepath.Join(t.d.layout.templates(), e.Name())); err != nil {
			t.d.log.Warn("throw away template", "error", err)
		}
	}
}

// maker names the running program by its content, so that another steward
// makes its templates anew.
func maker() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the running program: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the running program: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read the running program: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
