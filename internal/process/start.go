package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spec is a server to be started.
type Spec struct {
	Identity
	// Argv is the command line, sandbox included; Argv[0] an absolute path.
	Argv []string
	// Env is the whole environment. The mark is added.
	Env []string
	// Dir is the working folder.
	WorkDir string
	// User and Group are whom it runs as; both 0 for the caller's own.
	User, Group int
	// Output is a file that standard output and error are appended to.
	Output  string
	PidFile string
	Limits  Rlimits
	// OOMScore is how willingly the kernel ends it when memory is short; a lower
	// one than the caller's own needs privileges and is left out without.
	OOMScore int
	// Group of the kernel with limits; nil for none.
	Cgroup Group
	// Sandboxed reports whether Argv starts a sandbox, whose child is the server.
	Sandboxed bool
}

// Rlimits bound a single process. 0 leaves a limit as it is.
type Rlimits struct {
	OpenFiles    uint64
	AddressSpace uint64
}

// gate holds the process back until it is told to go on. When steward dies
// before that, read sees the end of its input and the process ends: no server
// runs that isn't on record.
const gate = `umask 077; read -r go || exit 111; exec "$@" </dev/null`

// Start starts a server and returns once it is on record and let go.
func Start(s Spec) (*Process, error) {
	output, err := os.OpenFile(s.Output, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open output file: %w", err)
	}
	defer output.Close()
	hold, release, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make gate: %w", err)
	}
	defer release.Close()
	sys := &syscall.SysProcAttr{Setsid: true}
	if s.User != 0 {
		sys.Credential = &syscall.Credential{Uid: uint32(s.User), Gid: uint32(s.Group)}
	}
	limits, err := s.Limits.script()
	if err != nil {
		return nil, err
	}
	argv := append([]string{"/bin/sh", "-c", limits + gate, "sh"}, s.Argv...)
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir:   s.WorkDir,
		Env:   append(withoutMark(s.Env), markVariable+"="+s.Mark),
		Files: []uintptr{hold.Fd(), output.Fd(), output.Fd()},
		Sys:   sys,
	})
	hold.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Argv[0], err)
	}
	p, err := s.admit(pid, release)
	if err != nil {
		release.Close() // ends it
		reap(pid)
		return nil, fmt.Errorf("start %s: %w", s.Argv[0], err)
	}
	return p, nil
}

// admit sets up what has to be in place before the server's first instruction.
func (s Spec) admit(pid int, release *os.File) (*Process, error) {
	st, err := readStat(pid)
	if err != nil {
		return nil, err
	}
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	if s.Cgroup != nil {
		if err := s.Cgroup.Add(pid); err != nil {
			return nil, err
		}
	}
	if s.OOMScore != 0 {
		// Best effort: without the privilege the server is only less protected.
		_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(strconv.Itoa(s.OOMScore)), 0)
	}
	r := record{Pid: pid, Start: st.start, Boot: boot, Mark: s.Mark, Sandboxed: s.Sandboxed}
	if err := r.write(s.PidFile); err != nil {
		return nil, err
	}
	if _, err := release.WriteString("go\n"); err != nil {
		return nil, fmt.Errorf("open gate: %w", err)
	}
	return newProcess(r, s.Identity, true), nil
}

// script sets the limits in the process itself while it waits at the gate:
// from outside, those of another user's process need a privilege that root may
// lack in containers. Hard limits that only a privileged user may raise bound
// what is asked for. A dump of a server's memory would hold customers' data.
func (l Rlimits) script() (string, error) {
	var script strings.Builder
	script.WriteString("ulimit -c 0; ")
	for _, limit := range []struct {
		resource     int
		option       string
		value, scale uint64
	}{{unix.RLIMIT_NOFILE, "-n", l.OpenFiles, 1}, {unix.RLIMIT_AS, "-v", l.AddressSpace, 1024}} {
		if limit.value == 0 {
			continue
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(limit.resource, &now); err != nil {
			return "", fmt.Errorf("read limits: %w", err)
		}
		script.WriteString(fmt.Sprintf("ulimit %s %d; ", limit.option, min(limit.value, now.Max)/limit.scale))
	}
	return script.String(), nil
}

func withoutMark(env []string) []string {
	kept := make([]string, 0, len(env)+1)
	for _, e := range env {
		if !strings.HasPrefix(e, markVariable+"=") {
			kept = append(kept, e)
		}
	}
	return kept
}
