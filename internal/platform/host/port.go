package host

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"steward/internal/platform/host/state"
)

// PortUsable reports whether a cluster that has no port yet could get this one: the
// gateway and all of its servers could listen there.
func (d *Driver) PortUsable(port int) bool {
	if d.o.Gateway.Usable(port) != nil {
		return false
	}
	addresses := []netip.AddrPort{scratchAddress(port)}
	for ordinal := range state.MaxNodes {
		addresses = append(addresses, listenAddress(ordinal, port))
	}
	for _, at := range addresses {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		if err != nil || l.Close() != nil {
			return false
		}
	}
	return true
}

// checkPort returns a permanentError naming the program that uses the server's address.
func checkPort(ctx context.Context, at netip.AddrPort) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
	if err == nil {
		return l.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d: %w", at.Port(), err)
	}
	who := "another program"
	if name, pid, ok := listener(at); ok {
		who = fmt.Sprintf("%s (process %d)", name, pid)
	}
	return &permanentError{fmt.Sprintf("%s is used by %s: stop it, or choose other gateway.ports", at, who)}
}

// listener finds the program that listens on an address or on all of them.
func listener(at netip.AddrPort) (name string, pid int, ok bool) {
	inode, ok := listeningInode(at)
	if !ok {
		return "", 0, false
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return "", 0, false
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != "socket:["+inode+"]" {
			continue
		}
		dir := filepath.Dir(filepath.Dir(link))
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			continue
		}
		return strings.TrimSpace(string(comm)), pid, true
	}
	return "", 0, false
}

func listeningInode(at netip.AddrPort) (string, bool) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		inode, ok := findListener(bufio.NewScanner(f), at)
		f.Close()
		if ok {
			return inode, true
		}
	}
	return "", false
}

// findListener reads lines such as
//
//	0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 12345 …
func findListener(lines *bufio.Scanner, at netip.AddrPort) (string, bool) {
	const listening = "0A"
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != listening {
			continue
		}
		address, ok := tableAddress(f[1])
		if ok && address.Port() == at.Port() && (address.Addr().IsUnspecified() || address.Addr().Unmap() == at.Addr()) {
			return f[9], true
		}
	}
	return "", false
}

// tableAddress reads the kernel's hexadecimal form: words in the machine's order.
func tableAddress(text string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(text, ":")
	raw, errHost := hex.DecodeString(host)
	number, errPort := strconv.ParseUint(port, 16, 16)
	if !ok || errHost != nil || errPort != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	address, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(address, uint16(number)), ok
}
