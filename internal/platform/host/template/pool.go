// Package template keeps pristine data folders, one per server build, and clones of them
// that wait for the next create.
package template

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"steward/internal/cluster"
	"steward/internal/durable"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/platform/host/build"
	"steward/internal/platform/host/state"
	"steward/internal/process"
)

// Options are what a Pool is made of.
type Options struct {
	// Dir holds a folder for each template.
	Dir string
	// Size is how many clones wait per template in use; 0 is none.
	Size int
	// User makes the data when steward is root.
	User int
	// Engine and Run make the data of a family of servers.
	Engine func(cluster.Engine) (engine.Templater, error)
	Run    engine.Runner
	// Installations are the builds on this machine.
	Installations func() []engine.Installation
	// Discard throws a folder away.
	Discard func(path string) error
	// Busy reports whether something else is going on; Quiet waits until nothing is, and
	// reports false when the context ended.
	Busy  func() bool
	Quiet func(ctx context.Context) bool
	Log   *slog.Logger
}

// Pool makes templates, and keeps clones of those in use ready: taking one is a rename.
type Pool struct {
	o    Options
	wake chan struct{}

	mu  sync.Mutex
	all map[string]*template
	// inUse are the series that there are clusters of.
	inUse map[string]bool
}

// template is one installation's. Its folder holds data, the file with its password, and
// pool with the clones.
type template struct {
	inst engine.Installation
	dir  string
	// making is held while the template is made.
	making sync.Mutex
	info   state.Template
	made   bool

	mu    sync.Mutex
	ready []string
}

// New makes nothing yet.
func New(o Options) *Pool {
	return &Pool{o: o, wake: make(chan struct{}, 1), all: map[string]*template{}, inUse: map[string]bool{}}
}

// Ready returns how many clones of an installation wait.
func (p *Pool) Ready(inst engine.Installation) int { return p.of(inst).count() }

// Make makes the template of an installation unless it is there.
func (p *Pool) Make(ctx context.Context, inst engine.Installation) error {
	return p.ensure(ctx, p.of(inst))
}

func (p *Pool) of(inst engine.Installation) *template {
	p.mu.Lock()
	defer p.mu.Unlock()
	tm := p.all[inst.ID()]
	if tm == nil {
		tm = &template{inst: inst, dir: filepath.Join(p.o.Dir, inst.ID())}
		p.all[inst.ID()] = tm
	}
	return tm
}

// Take puts a clone's data into a node's folder, owned by the user. With it
// goes the note, which comes first: data without one would be a customer's.
func (p *Pool) Take(ctx context.Context, inst engine.Installation, nodeDir string, user int) (state.Template, error) {
	tm := p.of(inst)
	if err := p.ensure(ctx, tm); err != nil {
		return state.Template{}, err
	}
	clone, ok := tm.pop()
	p.Use(inst)
	p.Wake()
	if !ok {
		var err error
		if clone, err = p.makeClone(ctx, tm); err != nil {
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
func (p *Pool) ensure(ctx context.Context, tm *template) error {
	tm.making.Lock()
	defer tm.making.Unlock()
	if tm.made {
		return nil
	}
	maker, err := maker()
	if err != nil {
		return err
	}
	n, err := state.ReadTemplate(tm.dir)
	if err != nil || n.Maker != maker {
		if n, err = p.make(ctx, tm, maker); err != nil {
			return fmt.Errorf("make template of %s: %w", tm.inst.ID(), err)
		}
	}
	tm.info = n
	if err := p.findClones(tm); err != nil {
		return err
	}
	tm.made = true
	return nil
}

// make makes a template beside its place and moves it there whole.
func (p *Pool) make(ctx context.Context, tm *template, maker string) (state.Template, error) {
	began := time.Now()
	if err := p.o.Discard(tm.dir); err != nil {
		return state.Template{}, err
	}
	dir, err := os.MkdirTemp(p.o.Dir, unfinished)
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
	if err := giveTree(data, p.o.User); err != nil {
		return state.Template{}, err
	}
	eng, err := p.o.Engine(tm.inst.Family())
	if err != nil {
		return state.Template{}, err
	}
	n := state.Template{Password: rand.Text(), Maker: maker}
	if err := eng.Template(ctx, tm.inst, data, n.Password, p.o.Run); err != nil {
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
	p.o.Log.Info("template made", "installation", tm.inst.ID(), "ms", float64(time.Since(began).Microseconds())/1000)
	return n, nil
}

// unfinished begins the names of what is being made.
const unfinished = ".making-"

// findClones lists the clones that an earlier process made ready.
func (p *Pool) findClones(tm *template) error {
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
		} else if err := p.o.Discard(dir); err != nil {
			return err
		}
	}
	return nil
}

// makeClone makes a clone, a server of its own, in the template's pool.
func (p *Pool) makeClone(ctx context.Context, tm *template) (string, error) {
	dir, err := os.MkdirTemp(tm.pool(), unfinished)
	if err != nil {
		return "", fmt.Errorf("make clone: %w", err)
	}
	fail := func(err error) (string, error) {
		return "", errors.Join(fmt.Errorf("make clone of %s: %w", tm.inst.ID(), err), os.RemoveAll(dir))
	}
	eng, err := p.o.Engine(tm.inst.Family())
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
	if err := tm.info.Write(dir); err != nil {
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

// Wake has KeepReady look for what is missing: a clone was taken, or a build found.
func (p *Pool) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// KeepReady makes templates and clones ahead of use, one at a time, at low
// priority, and only in quiet moments, until ctx ends.
func (p *Pool) KeepReady(ctx context.Context) {
	if p.o.Size == 0 {
		return
	}
	process.LowPriority()
	p.clearUnfinished()
	// Templates that perhaps nobody will want come when the rush of a start is over.
	const later = 30 * time.Second
	others := time.NewTimer(later)
	defer others.Stop()
	for {
		p.each(ctx, p.likely(), p.fill)
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-others.C:
			p.each(ctx, p.offered(), p.ensure)
		}
	}
}

// each does something for each installation, in quiet moments.
func (p *Pool) each(ctx context.Context, list []engine.Installation, do func(context.Context, *template) error) {
	for _, inst := range list {
		if !p.o.Quiet(ctx) {
			return
		}
		if err := do(ctx, p.of(inst)); err != nil && ctx.Err() == nil {
			p.o.Log.Warn("clones can't be made ahead", "installation", inst.ID(), "error", err)
		}
	}
}

// offered are the newest installations of each series: those that new clusters get.
func (p *Pool) offered() []engine.Installation {
	var list []engine.Installation
	for _, i := range p.o.Installations() {
		if best, ok := build.Newest(p.o.Installations(), i.Family(), i.Series); ok && best.ID() == i.ID() {
			list = append(list, i)
		}
	}
	return list
}

// likely are those of the offered whose clones will be wanted next: of series
// that are in use, and the newest of each flavour.
func (p *Pool) likely() []engine.Installation {
	latest := map[engine.Flavour]string{}
	for _, i := range p.offered() {
		if s, ok := latest[i.Flavour]; !ok || engine.CompareVersions(i.Series, s) > 0 {
			latest[i.Flavour] = i.Series
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []engine.Installation
	for _, i := range p.offered() {
		if latest[i.Flavour] == i.Series || p.inUse[seriesOf(i)] {
			list = append(list, i)
		}
	}
	return list
}

// Use records that there are clusters of the installation's series.
func (p *Pool) Use(i engine.Installation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse[seriesOf(i)] = true
}

func seriesOf(i engine.Installation) string { return string(i.Family()) + "/" + i.Series }

// fill makes the template's clones ready.
func (p *Pool) fill(ctx context.Context, tm *template) error {
	if err := p.ensure(ctx, tm); err != nil {
		return err
	}
	for tm.count() < p.o.Size {
		if !p.o.Quiet(ctx) {
			return nil
		}
		clone, err := p.makeClone(ctx, tm)
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

// clearUnfinished throws away what an earlier process didn't finish, and
// templates of builds that are gone.
func (p *Pool) clearUnfinished() {
	entries, err := os.ReadDir(p.o.Dir)
	if err != nil {
		p.o.Log.Warn("look for templates", "error", err)
		return
	}
	known := map[string]bool{}
	for _, i := range p.o.Installations() {
		known[i.ID()] = true
	}
	for _, e := range entries {
		if known[e.Name()] || strings.HasPrefix(e.Name(), unfinished) && p.o.Busy() {
			continue
		}
		if err := p.o.Discard(filepath.Join(p.o.Dir, e.Name())); err != nil {
			p.o.Log.Warn("throw away template", "error", err)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// User makes templates when steward is root: initdb insists on a user
// with a name. Clones are given to their clusters' own users.
func User() int {
	if os.Geteuid() != 0 {
		return 0
	}
	const nobody = 65534
	if u, err := user.Lookup("nobody"); err == nil {
		if uid, err := strconv.Atoi(u.Uid); err == nil && uid != 0 {
			return uid
		}
	}
	return nobody
}
