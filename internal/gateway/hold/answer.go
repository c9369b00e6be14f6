package hold

import (
	"encoding/binary"
	"io"
	"net"
	"time"

	"steward/internal/cluster"
)

// tell says why in the protocol of the engine and closes the connection.
func tell(c *net.TCPConn, engine cluster.Engine, why string) {
	_ = c.SetDeadline(time.Now().Add(time.Second))
	var words []byte
	switch engine {
	case cluster.PostgreSQL:
		words = postgresError(why)
	case cluster.MySQL:
		words = mysqlError(why)
	}
	if _, err := c.Write(words); err != nil {
		return
	}
	// Closed with something unread, the connection would be reset, and the words lost.
	if err := c.CloseWrite(); err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<20))
	}
}

// postgresError is what a server of PostgreSQL says that is starting up, which drivers
// know as a reason to try again (cannot_connect_now).
func postgresError(why string) []byte {
	fields := "SFATAL\x00VFATAL\x00C57P03\x00M" + why + "\x00\x00"
	return append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(4+len(fields))), fields...)
}

// shutdownInProgress is MySQL's ER_SERVER_SHUTDOWN, after which clients try again.
const shutdownInProgress = 1053

// mysqlError is the packet that stands in the place of the server's greeting. It has no
// SQLSTATE: that comes with abilities, which both sides tell only after it.
func mysqlError(why string) []byte {
	body := append(binary.LittleEndian.AppendUint16([]byte{0xff}, shutdownInProgress), why...)
	return append([]byte{byte(len(body)), byte(len(body) >> 8), 0, 0}, body...)
}
