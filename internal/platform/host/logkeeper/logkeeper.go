// Package logkeeper keeps files small that servers write to without bounds, however fast they do.
package logkeeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"steward/internal/wait"
)

// File is one that a server holds open in append mode and goes on writing to.
type File struct {
	// Path is the file itself, which may be in a folder of the server's user. Kept begins the names of what was before, .1 and so on.
	Path, Kept string
}

// Bounds are how much is kept of each file.
type Bounds struct {
	// Most is how many bytes a file may have, Files how many of as many bytes, and an eighth for what comes before a file is seen to have
	// them, are kept of what was before.
	Most  int64
	Files int
	// Pause is for how long nothing is kept after something was: what is written faster is left out.
	Pause time.Duration
}

// Keeper keeps files within bounds.
type Keeper struct {
	bounds Bounds
	now    func() time.Time

	// turning is held while a file is kept small.
	turning sync.Mutex
	mu      sync.Mutex
	files   map[string]*kept
}

// kept is what is known of a file.
type kept struct {
	File
	// turned is when its content was last kept, out how many bytes have been left out since.
	turned time.Time
	out    int64
}

// New makes a keeper.
func New(bounds Bounds, now func() time.Time) *Keeper {
	return &Keeper{bounds: bounds, now: now, files: map[string]*kept{}}
}

// Names are the files with what is kept, the newest first.
func (b Bounds) Names(f File) []string {
	names := []string{f.Path}
	for i := range b.Files {
		names = append(names, f.Kept+"."+strconv.Itoa(i+1))
	}
	return names
}

func (b Bounds) kept() int64 { return b.Most + b.Most/8 }

// settle is how long a file's growth goes unseen: so often is looked at most however much is written.
const settle = 100 * time.Millisecond

// Run keeps the files that list tells, which it is asked for each time that long has passed, until ctx ends. failed
// is told what can't be done.
func (k *Keeper) Run(ctx context.Context, every time.Duration, list func() []File, failed func(error)) {
	eyes, err := watch()
	if err != nil {
		failed(err) // without, files are looked at each time only
	}
	defer eyes.close()
	for ended := false; !ended; ended = ctx.Err() != nil {
		k.lookAtAll(eyes, list(), failed)
		k.lookUntil(ctx, time.Now().Add(every), eyes, failed)
	}
}

// lookAtAll keeps all files that nothing is noticed of by itself, and has eyes on the others.
func (k *Keeper) lookAtAll(e *eyes, list []File, failed func(error)) {
	current := map[string]bool{}
	for _, f := range list {
		current[f.Path] = true
		unseen, err := e.add(f.Path)
		k.know(f)
		if unseen {
			err = errors.Join(err, k.Keep(f))
		}
		if err != nil {
			failed(err)
		}
	}
	k.forget(current)
}

// lookUntil keeps files that grow, until then or until ctx ends.
func (k *Keeper) lookUntil(ctx context.Context, then time.Time, e *eyes, failed func(error)) {
	for {
		grown, err := e.wait(ctx, time.Until(then))
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failed(err)
			_ = wait.Sleep(ctx, time.Until(then))
		}
		for _, path := range grown {
			if err := k.look(path); err != nil {
				failed(err)
			}
		}
		if !time.Now().Before(then) || len(grown) > 0 && wait.Sleep(ctx, settle) != nil {
			return
		}
	}
}

func (k *Keeper) know(f File) *kept {
	k.mu.Lock()
	defer k.mu.Unlock()
	of := k.files[f.Path]
	if of == nil {
		of = &kept{File: f}
		k.files[f.Path] = of
	}
	return of
}

// forget lets go of the files that are no more.
func (k *Keeper) forget(current map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for path := range k.files {
		if !current[path] {
			delete(k.files, path)
		}
	}
}

// look keeps a file within its bounds that is known.
func (k *Keeper) look(path string) error {
	k.mu.Lock()
	f, known := k.files[path]
	k.mu.Unlock()
	if !known {
		return nil
	}
	return k.Keep(f.File)
}

// Keep turns a file's content over to what is kept once it is larger than it may be, or leaves it out
// when that has just been done. The few lines that the server writes in the middle of this may be lost.
func (k *Keeper) Keep(f File) error {
	of := k.know(f)
	k.turning.Lock()
	defer k.turning.Unlock()
	// The folder may be the server's own: what is in it must not lead anywhere else.
	in, err := os.OpenFile(f.Path, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep a log small: %w", err)
	}
	defer in.Close()
	info, err := in.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("keep a log small: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("keep a log small: %s is no file", f.Path)
	case info.Size() <= k.bounds.Most:
		return nil
	}
	now := k.now()
	if now.Sub(of.turned) < k.bounds.Pause {
		of.out += info.Size()
	} else {
		of.turned = now
		if err := k.turn(f, in, info.Size()); err != nil {
			return fmt.Errorf("keep a log small: %w", err)
		}
		of.out += max(0, info.Size()-k.bounds.kept())
	}
	if err := in.Truncate(0); err != nil {
		return fmt.Errorf("keep a log small: %w", err)
	}
	if of.out == 0 {
		return nil
	}
	if _, err := in.WriteString(mark(now, of.out)); err != nil {
		return fmt.Errorf("keep a log small: %w", err)
	}
	if of.turned.Equal(now) {
		of.out = 0
	}
	return nil
}

// turn moves the end of a file to what is kept.
func (k *Keeper) turn(f File, in *os.File, size int64) error {
	names := k.bounds.Names(f)
	for i := len(names) - 1; i > 1; i-- {
		if err := os.Rename(names[i-1], names[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	out, err := os.OpenFile(names[1], os.O_CREATE|os.O_TRUNC|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.NewSectionReader(in, max(0, size-k.bounds.kept()), k.bounds.kept()))
	return errors.Join(err, out.Close())
}

const marked = "steward: %s, %d bytes before this were left out"

// mark is the line that says that something was left out.
func mark(at time.Time, bytes int64) string {
	return fmt.Sprintf(marked+"\n", at.UTC().Format(time.RFC3339), bytes)
}

// LeftOut reads a line that says that so many bytes were left out, and when.
func LeftOut(line string) (at time.Time, bytes int64, ok bool) {
	if !strings.HasPrefix(line, "steward: ") {
		return at, 0, false
	}
	var when string
	if n, _ := fmt.Sscanf(strings.Replace(line, ",", " ,", 1), "steward: %s , %d bytes", &when, &bytes); n != 2 {
		return at, 0, false
	}
	at, err := time.Parse(time.RFC3339, when)
	return at, bytes, err == nil && line+"\n" == mark(at, bytes)
}
