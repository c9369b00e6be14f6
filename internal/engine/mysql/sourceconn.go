package mysql

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

const (
	packetHeader = 4
	// capabilitySSL is the bit with which a server offers TLS and a client asks for it.
	capabilitySSL = 1 << 11
	// requestLen is how much of a client's answer comes before TLS: capabilities, largest packet, character set, and what is reserved.
	requestLen = 32
	// mostHandshake bounds a packet of the handshake.
	mostHandshake = 64 << 10

	authMore, authSwitch = 0x01, 0xfe
	// askClear asks for the password in the clear.
	askClear = 0x04
)

var errClear = errors.New("the source wants the password in the clear: have the connection encrypted")

// handshaken is a connection to a source for a program that doesn't encrypt, since it speaks through a socket. We do, in its place: the
// server's offer is taken away, and ours is put before the program's answer. Until the program has logged in packets have other
// numbers on each side.
type handshaken struct {
	net.Conn
	config *tls.Config
	// left is what the program hasn't read yet, asked what it has written of its answer.
	left, asked []byte
	// ready is closed when the answer was passed on: then, to is where the rest goes.
	ready  chan struct{}
	answer sync.Once
	to     net.Conn
	err    error
	// in reports whether the program has logged in.
	in atomic.Bool
}

// handshake begins a connection to a source.
func handshake(ctx context.Context, conn net.Conn, config *tls.Config) (*handshaken, error) {
	greeting, err := readHandshake(conn)
	if err != nil {
		return nil, fmt.Errorf("read the greeting: %w", err)
	}
	if greeting[packetHeader] != packetError {
		offered, err := withholdTLS(greeting)
		if err == nil && !offered && config != nil {
			err = errors.New("the source doesn't speak TLS")
		}
		if err != nil {
			return nil, err
		}
	}
	return &handshaken{Conn: conn, config: config, left: greeting, ready: make(chan struct{})}, ctx.Err()
}

// readHandshake reads one packet, header and all.
func readHandshake(r io.Reader) ([]byte, error) {
	var header [packetHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	size := packetSize(header[:])
	if size == 0 || size > mostHandshake {
		return nil, fmt.Errorf("a packet of %d bytes", size)
	}
	packet := append(header[:], make([]byte, size)...)
	_, err := io.ReadFull(r, packet[packetHeader:])
	return packet, err
}

func packetSize(header []byte) int { return int(header[0]) | int(header[1])<<8 | int(header[2])<<16 }

// withholdTLS takes the offer of TLS out of a greeting, if it has one: programs take it up through a socket, too. A greeting is protocol,
// version up to a zero, id, scramble, filler, capabilities.
func withholdTLS(greeting []byte) (offered bool, err error) {
	const fixed = 4 + 8 + 1
	version := bytes.IndexByte(greeting[packetHeader+1:], 0)
	at := packetHeader + 1 + version + 1 + fixed
	if version < 0 || len(greeting) < at+2 {
		return false, errors.New("the source's greeting is none")
	}
	capabilities := binary.LittleEndian.Uint16(greeting[at:])
	binary.LittleEndian.PutUint16(greeting[at:], capabilities&^capabilitySSL)
	return capabilities&capabilitySSL != 0, nil
}

// Write implements io.Writer: it is what the program says.
func (h *handshaken) Write(p []byte) (int, error) {
	select {
	case <-h.ready:
		if h.err != nil {
			return 0, h.err
		}
		return h.pass(p)
	default:
	}
	h.asked = append(h.asked, p...)
	if len(h.asked) < packetHeader || len(h.asked) < packetHeader+packetSize(h.asked) {
		if len(h.asked) > mostHandshake {
			return 0, errors.New("the answer has no end")
		}
		return len(p), nil
	}
	h.answered(h.passAnswer)
	return len(p), h.err
}

// answered ends the beginning, once: with where the rest goes, or an error.
func (h *handshaken) answered(by func() (net.Conn, error)) {
	h.answer.Do(func() {
		h.to, h.err = by()
		close(h.ready)
	})
}

// passAnswer passes the program's answer on, after a request for TLS.
func (h *handshaken) passAnswer() (net.Conn, error) {
	if h.config == nil {
		_, err := h.Conn.Write(h.asked)
		return h.Conn, err
	}
	if len(h.asked) < packetHeader+requestLen {
		return nil, errors.New("the answer is none")
	}
	capabilities := binary.LittleEndian.Uint16(h.asked[packetHeader:]) | capabilitySSL
	binary.LittleEndian.PutUint16(h.asked[packetHeader:], capabilities)
	request := append([]byte{requestLen, 0, 0, 1}, h.asked[packetHeader:packetHeader+requestLen]...)
	if _, err := h.Conn.Write(request); err != nil {
		return nil, err
	}
	secured := tls.Client(h.Conn, h.config)
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout) // whoever closes the connection ends it, too
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("speak TLS: %w", err)
	}
	h.asked[3]++
	_, err := secured.Write(h.asked)
	return secured, err
}

// pass passes on what the program says. While it logs in that is whole packets, which it writes one at a time.
func (h *handshaken) pass(p []byte) (int, error) {
	if h.in.Load() || h.config == nil || len(p) < packetHeader {
		return h.to.Write(p)
	}
	numbered := bytes.Clone(p)
	numbered[3]++
	return h.to.Write(numbered)
}

// Read implements io.Reader: it is what the server says.
func (h *handshaken) Read(p []byte) (int, error) {
	if len(h.left) == 0 {
		<-h.ready
		switch {
		case h.err != nil:
			return 0, h.err
		case h.in.Load():
			return h.to.Read(p)
		}
		if err := h.login(); err != nil {
			return 0, err
		}
	}
	n := copy(p, h.left)
	h.left = h.left[n:]
	return n, nil
}

// login takes a packet of the server's while the program logs in.
func (h *handshaken) login() error {
	packet, err := readHandshake(h.to)
	if err != nil {
		return err
	}
	said := packet[packetHeader:]
	clear := said[0] == authMore && len(said) == 2 && said[1] == askClear ||
		said[0] == authSwitch && (bytes.HasPrefix(said[1:], []byte("mysql_clear_password\x00")) || bytes.HasPrefix(said[1:], []byte("dialog\x00")))
	if clear && h.config == nil {
		return errClear
	}
	if h.config != nil {
		packet[3]--
	}
	h.in.Store(said[0] == packetOK || said[0] == packetError)
	h.left = packet
	return nil
}

// Close implements io.Closer.
func (h *handshaken) Close() error {
	err := h.Conn.Close() // first: whoever speaks TLS at this moment ends
	h.answered(func() (net.Conn, error) { return nil, net.ErrClosed })
	return err
}
