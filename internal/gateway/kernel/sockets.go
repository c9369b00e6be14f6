package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// socket is a server's side of a connection.
type socket struct {
	family byte
	state  byte
	// id is how the kernel names it (struct inet_diag_sockid).
	id            []byte
	local, remote netip.AddrPort
	// received is how many bytes the server's side has received.
	received uint64
}

// Numbers and sizes of the kernel's interface to sockets (sock_diag.h, inet_diag.h).
const (
	diagByFamily, diagDestroy = 20, 21
	diagIDSize                = 48
	diagMessageHead           = 4
	diagMessageSize           = 72
	// diagInfo is the attribute with struct tcp_info, asked for by its bit.
	diagInfo = 2
	// connected are the states from a handshake to the end: being established, established,
	// closing by one side or the other.
	connected = 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<8 | 1<<9 | 1<<11
)

// States of sockets: in use, and closed by their server, when the client hasn't said that it heard, and has.
const stateEstablished, stateFinWait1, stateFinWait2 = 1, 4, 5

// closed reports whether the server has closed the connection, and the client hasn't.
func (s socket) closed() bool { return s.state == stateFinWait1 || s.state == stateFinWait2 }

// diagnose opens the interface in a network namespace; nil when that is gone.
func diagnose(namespace string) (*netlink.Conn, error) {
	config := &netlink.Config{}
	if namespace != "" {
		file, err := os.Open(namespace)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer file.Close()
		config.NetNS = int(file.Fd())
	}
	return netlink.Dial(unix.NETLINK_SOCK_DIAG, config)
}

// sockets are the connected ones of a server.
func sockets(namespace string, server netip.AddrPort) ([]socket, error) {
	c, err := diagnose(namespace)
	if err != nil {
		return nil, fmt.Errorf("list sockets: %w", err)
	}
	if c == nil {
		return nil, nil
	}
	defer c.Close()
	var list []socket
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} { // IPv6 ones take IPv4 in, too
		id := make([]byte, diagIDSize)
		binary.BigEndian.PutUint16(id, server.Port())
		answers, err := c.Execute(diagRequest(diagByFamily, netlink.Dump, family, id))
		if err != nil {
			return nil, fmt.Errorf("list sockets: %w", err)
		}
		for _, a := range answers {
			if s, ok := parseSocket(a.Data); ok && s.local == server {
				list = append(list, s)
			}
		}
	}
	return list, nil
}

func diagRequest(kind netlink.HeaderType, flags netlink.HeaderFlags, family byte, id []byte) netlink.Message {
	body := binary.NativeEndian.AppendUint32([]byte{family, unix.IPPROTO_TCP, 1 << (diagInfo - 1), 0}, connected)
	return netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request | flags}, Data: append(body, id...)}
}

func parseSocket(b []byte) (s socket, ok bool) {
	if len(b) < diagMessageHead+diagIDSize {
		return s, false
	}
	s.family, s.state, s.id = b[0], b[1], b[diagMessageHead:diagMessageHead+diagIDSize]
	size := 4
	if s.family == unix.AF_INET6 {
		size = 16
	}
	local, _ := netip.AddrFromSlice(s.id[4 : 4+size])
	remote, _ := netip.AddrFromSlice(s.id[20 : 20+size])
	s.local = netip.AddrPortFrom(local.Unmap(), binary.BigEndian.Uint16(s.id))
	s.remote = netip.AddrPortFrom(remote.Unmap(), binary.BigEndian.Uint16(s.id[2:]))
	s.received = receivedOf(b)
	return s, true
}

// receivedOf is what the answer about a socket says of its bytes; 0 if it says nothing.
func receivedOf(b []byte) uint64 {
	if len(b) < diagMessageSize {
		return 0
	}
	attributes, err := netlink.UnmarshalAttributes(b[diagMessageSize:])
	if err != nil {
		return 0
	}
	const at = int(unsafe.Offsetof(unix.TCPInfo{}.Bytes_received))
	for _, a := range attributes {
		if a.Type == diagInfo && len(a.Data) >= at+8 {
			return binary.NativeEndian.Uint64(a.Data[at:])
		}
	}
	return 0
}

// destroy closes the servers' sockets of sessions: both sides are reset. Kernels without
// that (INET_DIAG_DESTROY) leave them to Options.End; clients are reset with their next packet.
func destroy(namespace string, sessions []Session) error {
	byServer := map[netip.AddrPort]map[netip.AddrPort]bool{}
	for _, s := range sessions {
		if byServer[s.Server] == nil {
			byServer[s.Server] = map[netip.AddrPort]bool{}
		}
		byServer[s.Server][s.Seen] = true
	}
	c, err := diagnose(namespace)
	if err != nil {
		return fmt.Errorf("end sockets: %w", err)
	}
	if c == nil {
		return nil
	}
	defer c.Close()
	for server, seen := range byServer {
		there, err := sockets(namespace, server)
		if err != nil {
			return fmt.Errorf("end sockets: %w", err)
		}
		for _, s := range there {
			if !seen[s.remote] || s.closed() { // a reset would be heard before the server's last words are read
				continue
			}
			// With its cookie: by addresses alone the kernel takes the listener, when the socket is gone.
			_, err := c.Execute(diagRequest(diagDestroy, netlink.Acknowledge, s.family, s.id))
			if err != nil && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ESTALE) && !errors.Is(err, syscall.EOPNOTSUPP) {
				return fmt.Errorf("end sockets: %w", err)
			}
		}
	}
	return nil
}
