package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// markVariable carries a server's mark in its environment and so in that of
// everything it runs.
const markVariable = "STEWARD_PROCESS"

// MarkEnv is the entry of an environment that marks a process and all it runs.
func MarkEnv(mark string) string { return markVariable + "=" + mark }

// Identity tells which processes make up one server. A process belongs when
// any of it fits: servers rewrite their environment to show titles, move to
// sessions of their own and outlive their parents, so no single sign is enough.
type Identity struct {
	// Mark is unique to the server: "<hash of the data folder>/<name>".
	Mark string
	// Dir is a folder that is the server's alone; what works in it belongs,
	// unless it has a terminal: an operator's shell is no server.
	Dir string
	// UID, when not 0, is a user that is the server's alone. What another mark
	// is on, or on an ancestor, is left alone all the same: another steward on
	// this machine may use the same number.
	UID int
}

// fits reports whether a process belongs; false when it is gone. Its state is read of those alone that have a sign of belonging: all
// processes of the machine are looked at, again and again while a server ends, and the state is what takes longest to read.
func (id Identity) fits(pid int, buf []byte) bool {
	marked := id.Mark != "" && mark(pid, buf) == id.Mark
	within := !marked && id.Dir != "" && worksIn(pid, id.Dir)
	owned := !marked && id.UID > 0 && owner(pid) == id.UID
	if !marked && !within && !owned {
		return false
	}
	s, err := readStat(pid)
	if err != nil || s.gone() {
		return false
	}
	return marked || within && s.terminal == 0 || owned && !unborn(pid) && !id.foreign(pid, buf)
}

// unborn reports whether a process was forked by this one and has yet to run its program: it may have the server's user already, and has
// no mark. To be asked before the mark is looked for, which whoever isn't unborn has by then, if ever.
func unborn(pid int) bool {
	exe, err := os.Readlink(procPath(pid, "exe"))
	own, errOwn := os.Readlink("/proc/self/exe")
	return err == nil && errOwn == nil && exe == own
}

// foreign reports whether the process or one of its ancestors has another mark.
func (id Identity) foreign(pid int, buf []byte) bool {
	for pid > 1 {
		if m := mark(pid, buf); m != "" {
			return m != id.Mark
		}
		s, err := readStat(pid)
		if err != nil {
			return false
		}
		pid = s.parent
	}
	return false
}

// Members are the living processes that belong.
func (id Identity) Members() ([]int, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	var list []int
	buf := procBuffer()
	for _, pid := range all {
		if pid != os.Getpid() && id.fits(pid, buf) {
			list = append(list, pid)
		}
	}
	return list, nil
}

// Marked are the marks of living processes that begin with prefix.
func Marked(prefix string) (map[string][]int, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	found := map[string][]int{}
	buf := procBuffer()
	for _, pid := range all {
		if m := mark(pid, buf); m != "" && strings.HasPrefix(m, prefix) {
			found[m] = append(found[m], pid)
		}
	}
	return found, nil
}

// mark is the process's; empty when it has none. buf is to read into.
func mark(pid int, buf []byte) string {
	content, err := readEnviron(pid, buf)
	if err != nil {
		return ""
	}
	const begin = markVariable + "="
	value, ok := bytes.CutPrefix(content, []byte(begin))
	if !ok {
		_, value, _ = bytes.Cut(content, []byte("\x00"+begin))
	}
	value, _, _ = bytes.Cut(value, []byte{0})
	return string(value)
}

const (
	// execPatience bounds the wait for a process in an exec, which takes well under a millisecond on a machine that isn't busy.
	execPatience = 2 * time.Second
	// execsMissed is how often a process may have begun and ended an exec while its environment was read.
	execsMissed = 5
)

// readEnviron reads a process's environment, into buf if it fits. It reads as empty in the middle of an exec, which is waited for, and when
// an exec comes between opening and reading it: the process would be taken for one without a mark, and so for a stranger.
func readEnviron(pid int, buf []byte) ([]byte, error) {
	began := time.Now()
	for missed := 0; ; {
		content, err := readProc(pid, "environ", buf)
		if err != nil || len(content) > 0 {
			return content, err
		}
		switch has, inExec := hasEnviron(pid); {
		case inExec && time.Since(began) < execPatience:
			time.Sleep(100 * time.Microsecond) // nobody tells when an exec is over, and it is so before a poll for it would be set up
		case has && missed < execsMissed:
			missed++
		default:
			return nil, nil
		}
	}
}

func owner(pid int) int {
	var st unix.Stat_t
	if err := unix.Stat(procPath(pid, ""), &st); err != nil {
		return -1
	}
	return int(st.Uid)
}

func worksIn(pid int, dir string) bool {
	var buf [unix.PathMax]byte
	n, err := unix.Readlink(procPath(pid, "cwd"), buf[:])
	if err != nil {
		return false
	}
	cwd := strings.TrimSuffix(string(buf[:n]), " (deleted)")
	dir = filepath.Clean(dir)
	return cwd == dir || strings.HasPrefix(cwd, dir+"/")
}

// signalMember sends a signal to a process if it still belongs. The handle is
// taken before the second look, so that the signal can't hit a newcomer that
// was given the same pid.
func (id Identity) signalMember(pid int, sig syscall.Signal) error {
	return signalExactly(pid, sig, func() bool { return id.fits(pid, procBuffer()) })
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("signal process: %w", err)
	}
	return nil
}
