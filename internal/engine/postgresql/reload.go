package postgresql

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
	"steward/internal/wait"
)

// Reload makes the server read its files again and looks at what came of it,
// since PostgreSQL itself answers nothing and goes on with the old values.
func (Driver) Reload(ctx context.Context, n engine.Node) (restart bool, err error) {
	before, release, err := session(ctx, n)
	if err != nil {
		return false, fmt.Errorf("reload: %w", err)
	}
	conn, err := reload(ctx, before, release, func() (*pgconn.PgConn, error) { return asOurs(ctx, n) })
	if err != nil {
		return false, fmt.Errorf("reload: %w", err)
	}
	defer closeSoon(ctx, conn)
	// A setting that waits for a restart counts as an error in the file, too.
	row, err := queryOne(ctx, conn, `SELECT
		(SELECT count(*) FROM pg_catalog.pg_settings WHERE pending_restart),
		(SELECT pg_catalog.string_agg(name || ': ' || error, '; ') FROM pg_catalog.pg_file_settings
			WHERE error IS NOT NULL AND NOT coalesce(name IN (SELECT name FROM pg_catalog.pg_settings WHERE pending_restart), false)),
		(SELECT pg_catalog.string_agg('line ' || line_number || ': ' || error, '; ') FROM pg_catalog.pg_hba_file_rules
			WHERE error IS NOT NULL)`)
	if err != nil {
		return false, fmt.Errorf("reload: %w", err)
	}
	if row[1] != "" || row[2] != "" {
		return false, fmt.Errorf("reload: the server refuses its files: %s %s", row[1], row[2])
	}
	if err := checkCertificate(ctx, n); err != nil {
		return false, fmt.Errorf("reload: %w", err)
	}
	return row[0] != "0", nil
}

// reload signals the server and waits until it is done. The postmaster does
// one thing at a time: a connection that it accepted after it read the file
// comes after everything else it does in a reload. It read it after the signal
// if that was at a later time by the server's own clock, and at another one than
// before: the clock may have been set back.
//
// The signal is sent in a session that is released then, and what is returned is
// one that has begun since: we never take two of the server's.
func reload(ctx context.Context, before *pgconn.PgConn, release func(), begin func() (*pgconn.PgConn, error)) (*pgconn.PgConn, error) {
	row, err := queryOne(ctx, before, "SELECT pg_catalog.pg_conf_load_time(), pg_catalog.clock_timestamp(), pg_catalog.pg_reload_conf()")
	release()
	if err != nil {
		return nil, err
	}
	isDone := fmt.Sprintf("SELECT pg_catalog.pg_conf_load_time() > '%s' AND pg_catalog.pg_conf_load_time() <> '%s'", row[1], row[0])
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		since, err := begin()
		if err != nil {
			return nil, err
		}
		row, err := queryOne(ctx, since, isDone)
		if err == nil && row[0] == "t" {
			return since, nil
		}
		closeSoon(ctx, since)
		if err != nil {
			return nil, err
		}
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("the server doesn't read its files: %w", err)
		}
	}
}

// pause is the step of every loop that polls the server.
func pause(ctx context.Context) error { return wait.Sleep(ctx, 3*time.Millisecond) }

// checkCertificate compares the certificate that the server shows with the one
// on disk: it keeps the old one, with a line in its log, when it can't use the new.
func checkCertificate(ctx context.Context, n engine.Node) error {
	if n.Remote != nil {
		return nil // every connection of ours demands the right one
	}
	content, err := os.ReadFile(filepath.Join(n.TLS, engine.TLSCert))
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	want, _ := pem.Decode(content)
	if want == nil {
		return errors.New("no certificate in " + engine.TLSCert)
	}
	shown, err := shownCertificate(ctx, n.Listen.String())
	if err != nil {
		return fmt.Errorf("look at the server's certificate: %w", err)
	}
	if !bytes.Equal(shown, want.Bytes) {
		return errors.New("the server doesn't take its new certificate")
	}
	return nil
}

// shownCertificate is the DER form of what a server at the address presents.
func shownCertificate(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	// The protocol's request for TLS, answered by one letter.
	if _, err := conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil {
		return nil, err
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return nil, err
	}
	if answer[0] != 'S' {
		return nil, errors.New("the server offers no TLS")
	}
	// Only its bytes are of interest here, not whether it can be trusted.
	session := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
	if err := session.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	shown := session.ConnectionState().PeerCertificates[0].Raw
	// A hard close would leave a complaint in the server's log.
	if err := session.CloseWrite(); err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, session); err != nil {
		return nil, err
	}
	return shown, nil
}
