package mysql

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"

	"steward/internal/engine"
)

// The server gives its binary logs to whoever asks as a replica does, decrypted
// where they are encrypted. We ask for one log that it has ended already.
const (
	commandDump  = 0x12 // COM_BINLOG_DUMP
	dumpNoWait   = 1    // flag: end where the logs do
	packetMost   = 1<<24 - 1
	packetOK     = 0x00
	packetError  = 0xff
	packetEnd    = 0xfe
	packetEndLen = 9
)

// dump is a binary log on its way from the server.
type dump struct {
	s      *session
	raw    net.Conn
	in     *bufio.Reader
	cancel func() bool
	// left is of the last event.
	left  []byte
	began bool
	err   error
}

// dump reads a log of the server as a file that isn't encrypted. Close it.
func (d *Driver) dump(ctx context.Context, n engine.Node, log string) (*dump, error) {
	var raw net.Conn
	s, err := d.adminWith(ctx, n, n.AdminPassword, func(cfg *mysql.Config) {
		cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			raw = c
			return c, err
		}
	})
	if err != nil {
		return nil, err
	}
	p := &dump{s: s, raw: raw, in: bufio.NewReaderSize(raw, 256<<10)}
	if err := p.ask(ctx, log); err != nil {
		s.close()
		return nil, fmt.Errorf("ask for %s: %w", log, err)
	}
	p.cancel = context.AfterFunc(ctx, func() { raw.Close() })
	return p, nil
}

// ask says, in both flavours' words, that checksums and GTIDs are understood. From
// then on the connection is the replica protocol's.
func (p *dump) ask(ctx context.Context, log string) error {
	if err := p.s.exec(ctx, "SET @master_binlog_checksum = @@GLOBAL.binlog_checksum, "+
		"@source_binlog_checksum = @@GLOBAL.binlog_checksum, @mariadb_slave_capability = 4"); err != nil {
		return err
	}
	command := []byte{commandDump}
	command = binary.LittleEndian.AppendUint32(command, uint32(len(binlogMagic)))
	command = binary.LittleEndian.AppendUint16(command, dumpNoWait)
	command = binary.LittleEndian.AppendUint32(command, 0) // no replica's id
	command = append(command, log...)
	packet := binary.LittleEndian.AppendUint32(nil, uint32(len(command)))
	_, err := p.raw.Write(append(packet, command...))
	return err
}

// Close implements io.Closer.
func (p *dump) Close() error {
	p.cancel()
	err := p.raw.Close()
	p.s.close()
	return err
}

// Read implements io.Reader.
func (p *dump) Read(b []byte) (int, error) {
	for len(p.left) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		p.err = p.event()
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

// event takes the next one; io.EOF where the log ends.
func (p *dump) event() error {
	packet, err := p.packet()
	if err != nil {
		return fmt.Errorf("read binary log from the server: %w", err)
	}
	if len(packet) == 0 {
		return errors.New("read binary log from the server: an empty packet")
	}
	switch {
	case packet[0] == packetError:
		return fmt.Errorf("read binary log from the server: %s", packet[min(3, len(packet)):])
	case packet[0] == packetEnd && len(packet) < packetEndLen:
		return p.end()
	case packet[0] != packetOK:
		return fmt.Errorf("read binary log from the server: a packet that begins with %#x", packet[0])
	}
	e := logEvent(packet[1:])
	size, err := checkEvent(e)
	if err != nil || size != len(e) {
		return errors.Join(err, fmt.Errorf("read binary log from the server: an event of %d bytes in %d", size, len(e)))
	}
	switch e.kind() {
	case eventRotate: // one names the log before it begins, the next the one after it
		if p.began {
			return p.end()
		}
		return nil
	case eventHeartbeat, eventHeartbeatLong, eventEncrypted:
		return nil
	case eventFormat:
		if !p.began {
			e = append(logEvent(binlogMagic), e...)
		}
		p.began = true
	}
	p.left = e
	return nil
}

func (p *dump) end() error {
	if !p.began {
		return errors.New("read binary log from the server: nothing in it")
	}
	return io.EOF
}

// packet joins what the protocol has cut.
func (p *dump) packet() ([]byte, error) {
	var whole []byte
	for {
		var header [packetHeader]byte
		if _, err := io.ReadFull(p.in, header[:]); err != nil {
			return nil, err
		}
		size := packetSize(header[:])
		var err error
		if whole, err = readMore(p.in, whole, size); err != nil {
			return nil, err
		}
		if size < packetMost {
			return whole, nil
		}
	}
}

// readMore appends the next size bytes to what has been read. It sets aside no more than as much again, and 64 KiB, before those have come:
// the size is what a server says, which may be any.
func readMore(in io.Reader, whole []byte, size int) ([]byte, error) {
	for size > 0 {
		n := min(size, max(len(whole), 64<<10))
		whole = slices.Grow(whole, n)
		got, err := io.ReadFull(in, whole[len(whole):len(whole)+n])
		whole = whole[:len(whole)+got]
		if err != nil {
			return whole, err
		}
		size -= n
	}
	return whole, nil
}
