package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Sandbox starts a server in a view of the machine that holds its own files only,
// with process, IPC and UTS namespaces of its own, and refuses system calls that no server
// makes. A nil Sandbox is valid and isolates nothing.
type Sandbox struct {
	program string
	strict  bool
	// filter is the file with the filter of system calls; empty where the kernel has none.
	filter string
}

// View is what a server sees beside the system's programs.
type View struct {
	// Read are paths it can read, Write those it can also write. Paths that
	// don't exist are left out of Read.
	Read, Write []string
	// Alone takes it the network, too, but for loopback of its own.
	Alone bool
}

// FindSandbox looks for bubblewrap and tries it as the given user (0: the
// caller's own). Without a working one it returns nil and the reason. dir is where
// the filter of system calls is kept, for all servers that are started: their users can look into it.
func FindSandbox(ctx context.Context, uid int, dir string) (*Sandbox, error) {
	program, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, errors.New("bubblewrap isn't installed")
	}
	if program, err = filepath.Abs(program); err != nil {
		return nil, fmt.Errorf("bubblewrap: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	filter, err := writeFilter(dir)
	if err != nil {
		return nil, err
	}
	for _, s := range []*Sandbox{{program, true, filter}, {program, false, filter}, {program, true, ""}, {program, false, ""}} {
		if err = s.try(ctx, uid); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("bubblewrap can't be used: %w", err)
}

// Filters reports whether system calls are filtered.
func (s *Sandbox) Filters() bool { return s != nil && s.filter != "" }

func (s *Sandbox) try(ctx context.Context, uid int) error {
	argv := s.Wrap([]string{"/usr/bin/env", "true"}, View{}, "/")
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin"}
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

// etcFiles are what servers and their libraries need of /etc.
var etcFiles = []string{
	"/etc/ld.so.cache", "/etc/localtime", "/etc/timezone", "/etc/hosts", "/etc/nsswitch.conf",
	"/etc/host.conf", "/etc/gai.conf", "/etc/ssl/openssl.cnf", "/etc/alternatives",
}

// Wrap puts the sandbox before a command line. The sandbox doesn't end with steward:
// the server lives on.
func (s *Sandbox) Wrap(argv []string, v View, workDir string) []string {
	if s == nil {
		return argv
	}
	var line []string
	if s.filter != "" {
		// bubblewrap takes it from a descriptor, which whoever runs the line needn't know of.
		line = append(line, "/bin/sh", "-c", `exec "$@" 3<"$0"`, s.filter)
	}
	line = append(line, s.program, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--as-pid-1", "--cap-drop", "ALL")
	if v.Alone {
		line = append(line, "--unshare-net", "--die-with-parent")
	}
	if s.filter != "" {
		line = append(line, "--seccomp", "3")
	}
	if s.strict {
		// No further user name spaces inside: they open much of the kernel.
		line = append(line, "--unshare-user", "--disable-userns")
	}
	line = append(line, "--ro-bind", "/usr", "/usr")
	line = append(line, systemFolders()...)
	line = append(line, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/dev/shm", "--tmpfs", "/tmp")
	for _, file := range etcFiles {
		line = append(line, "--ro-bind-try", file, file)
	}
	for _, path := range v.Read {
		line = append(line, "--ro-bind-try", path, path)
	}
	for _, path := range v.Write {
		line = append(line, "--bind", path, path)
	}
	line = append(line, "--chdir", workDir, "--")
	return append(line, argv...)
}

// WrapTool is Wrap for a program that steward waits for: the sandbox, and all in it, ends with steward. accounts is a file that
// it sees as the system's list of users, for programs that ask for the name of their own.
func (s *Sandbox) WrapTool(argv []string, v View, workDir, accounts string) []string {
	line := s.Wrap(argv, v, workDir)
	if s == nil {
		return line
	}
	line = slices.Insert(line, slices.Index(line, "--chdir"), "--ro-bind", accounts, "/etc/passwd")
	return slices.Insert(line, slices.Index(line, "--unshare-pid"), "--die-with-parent")
}

// systemFolders are /bin, /lib and the like: links into /usr on systems that
// merged them, folders elsewhere.
func systemFolders() []string {
	var line []string
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		info, err := os.Lstat(dir)
		if err != nil {
			continue
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			line = append(line, "--ro-bind", dir, dir)
		} else if target, err := os.Readlink(dir); err == nil {
			line = append(line, "--symlink", target, dir)
		}
	}
	return line
}
