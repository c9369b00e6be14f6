// Package port finds the program that uses a port.
package port

import (
	"bufio"
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Listener finds the program that listens on an address or on all of them.
func Listener(at netip.AddrPort) (name string, pid int, ok bool) {
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
