package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	handles "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Do runs f in the network namespace at a path; in the caller's own when that is empty.
// Sockets and processes that f makes stay there. f must not leave its goroutine.
func Do(path string, f func() error) (err error) {
	if path == "" {
		return f()
	}
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// What is asked of /proc/self and /proc/net is this thread's, whoever asks. While it is held here, others run elsewhere.
		done := make(chan error)
		go func() { done <- Do(path, f) }()
		err := <-done
		runtime.UnlockOSThread()
		return err
	}
	home, err := handles.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("network namespace: %w", err)
	}
	defer home.Close()
	there, err := handles.GetFromPath(path)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("network namespace %s: %w", path, err)
	}
	defer there.Close()
	if err := handles.Set(there); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	defer func() {
		if back := handles.Set(home); back != nil {
			err = errors.Join(err, fmt.Errorf("leave network namespace: %w", back))
			return // the thread ends with its goroutine, locked
		}
		runtime.UnlockOSThread()
	}()
	return f()
}

// isNamespace reports whether a file is one, and not what its mount left behind.
func isNamespace(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Type == unix.NSFS_MAGIC
}

// makeNamespace makes one that lives as long as the file at the path is mounted.
func makeNamespace(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o400)
	if err != nil {
		return err
	}
	file.Close()
	return onItsOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "", unix.MS_BIND, "")
	})
}

// onItsOwnThread runs f on a thread that is never used again. It isn't the process's first, which
// doesn't end before the process does, and whose namespace /proc/self shows to all.
func onItsOwnThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			done <- f()
			return // the thread ends with its goroutine, locked
		}
		err := onItsOwnThread(f) // on another one, since this one is held here
		runtime.UnlockOSThread()
		done <- err
	}()
	return <-done
}

// keepNamespace has the namespace that a process is in found at the path.
func keepNamespace(path string, pid int) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o400)
	if err != nil {
		return err
	}
	file.Close()
	return unix.Mount(fmt.Sprintf("/proc/%d/ns/net", pid), path, "", unix.MS_BIND, "")
}

// removeNamespace is done when there is none, too.
func removeNamespace(path string) error {
	for isNamespace(path) { // mounted more than once, if two were quick
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			return err
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// setting writes one of the network's settings, of the namespace that the thread is in.
func setting(name, value string) error { return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0) }

// listed lists again what was changed while it was listed.
func listed[T any](list func() ([]T, error)) (all []T, err error) {
	for range 100 {
		if all, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return all, err
}

// Taken are the networks that the machine's addresses and routes are in, but for links with the prefix.
func Taken(prefix string) ([]netip.Prefix, error) {
	links, err := listed(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	own := map[int]bool{}
	for _, l := range links {
		own[l.Attrs().Index] = prefix != "" && strings.HasPrefix(l.Attrs().Name, prefix)
	}
	var taken []netip.Prefix
	add := func(ip []byte, ones int) {
		if a, ok := netip.AddrFromSlice(ip); ok && ones > 0 {
			taken = append(taken, netip.PrefixFrom(a.Unmap(), ones).Masked())
		}
	}
	addresses, err := listed(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		if ones, _ := a.Mask.Size(); !own[a.LinkIndex] {
			add(a.IP.To4(), ones)
		}
	}
	routes, err := listed(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if r.Dst != nil && !own[r.LinkIndex] {
			ones, _ := r.Dst.Mask.Size()
			add(r.Dst.IP.To4(), ones)
		}
	}
	return taken, nil
}

// Choose is the first of the candidates that overlaps with nothing that is taken.
func Choose(candidates, taken []netip.Prefix) (netip.Prefix, error) {
next:
	for _, c := range candidates {
		for _, t := range taken {
			if c.Overlaps(t) {
				continue next
			}
		}
		return c, nil
	}
	return netip.Prefix{}, fmt.Errorf("none of the networks %v is free", candidates)
}

// Candidates are networks that few use, each large enough for 65,000 nodes.
func Candidates() (list []netip.Prefix) {
	for second := 213; second < 250; second++ {
		list = append(list, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(second), 0, 0}), 16))
	}
	for second := 20; second < 32; second++ {
		list = append(list, netip.PrefixFrom(netip.AddrFrom4([4]byte{172, byte(second), 0, 0}), 16))
	}
	return list
}
