package process

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"steward/internal/durable"
)

// refused are system calls that no database server makes, and that open much of the kernel to
// whoever has taken one over. Most of the list is what container runtimes refuse by default
// (moby's profiles/seccomp); io_uring is here because servers are told not to use it.
var refused = []string{
	// Other processes.
	"kcmp", "pidfd_getfd", "process_madvise", "process_vm_readv", "process_vm_writev", "ptrace",
	// Name spaces and mounts.
	"chroot", "fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount", "open_tree", "pivot_root",
	"setns", "umount", "umount2", "unshare",
	// The kernel and the machine.
	"acct", "bpf", "clock_adjtime", "clock_settime", "create_module", "delete_module", "finit_module", "get_kernel_syms",
	"init_module", "ioperm", "iopl", "kexec_file_load", "kexec_load", "lookup_dcookie", "nfsservctl", "perf_event_open",
	"query_module", "quotactl", "quotactl_fd", "reboot", "settimeofday", "stime", "swapoff", "swapon", "sysfs", "syslog",
	"_sysctl", "uselib", "ustat", "vhangup", "vm86", "vm86old",
	// Parts of it that are rich in faults.
	"add_key", "fanotify_init", "io_uring_enter", "io_uring_register", "io_uring_setup", "keyctl", "name_to_handle_at",
	"open_by_handle_at", "request_key", "userfaultfd",
}

// families are the kinds of sockets that servers open: none to the machine's host or the
// kernel's cryptography.
var families = []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// filter is a program for the kernel that refuses such calls, in the form in which
// bubblewrap reads it (struct sock_filter).
func filter() ([]byte, error) {
	machine, err := arch.GetInfo("")
	if err != nil {
		return nil, fmt.Errorf("filter of system calls: %w", err)
	}
	names := slices.DeleteFunc(slices.Clone(refused), func(name string) bool { // not every machine has them all
		_, known := machine.SyscallNames[name]
		return !known
	})
	var others seccomp.ArgumentConditions
	for _, family := range families {
		others = append(others, seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: family})
	}
	policy := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{{
		Action: seccomp.ActionErrno, Names: names,
		NamesWithCondtions: []seccomp.NameWithConditions{{Name: "socket", Conditions: others}},
	}}}
	rules, err := policy.Assemble()
	if err != nil {
		return nil, fmt.Errorf("filter of system calls: %w", err)
	}
	const archOffset, word = 4, 4 // struct seccomp_data
	program, err := bpf.Assemble(append([]bpf.Instruction{
		// The library lets programs for other processors do as they like.
		bpf.LoadAbsolute{Off: archOffset, Size: word},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(machine.ID), SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
	}, rules...))
	if err != nil {
		return nil, fmt.Errorf("filter of system calls: %w", err)
	}
	var b bytes.Buffer
	for _, i := range program {
		if err := binary.Write(&b, binary.NativeEndian, unix.SockFilter{Code: i.Op, Jt: i.Jt, Jf: i.Jf, K: i.K}); err != nil {
			return nil, fmt.Errorf("filter of system calls: %w", err)
		}
	}
	return b.Bytes(), nil
}

// writeFilter keeps the filter in a folder that the servers' users can look into.
func writeFilter(dir string) (path string, err error) {
	program, err := filter()
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "calls.bpf")
	if there, err := os.ReadFile(path); err == nil && bytes.Equal(there, program) {
		return path, nil
	}
	err = durable.Write(path, func(f *os.File) error {
		if _, err := f.Write(program); err != nil {
			return err
		}
		return f.Chmod(0o644)
	})
	if err != nil {
		return "", fmt.Errorf("write filter of system calls: %w", err)
	}
	return path, nil
}
