package postgresql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"steward/internal/engine"
	"steward/internal/migration"
)

// mostSchema bounds what is read of a schema, which is held in memory.
const mostSchema = 64 << 20

// socketName is how PostgreSQL's programs call the socket of a server on port 5432.
const socketName = ".s.PGSQL.5432"

// dumpSchema is the database's schema as of the snapshot, in pg_dump's own format.
func (i *importing) dumpSchema(ctx context.Context) ([]byte, error) {
	dir := i.tools.Dir()
	out := &bounded{most: mostSchema}
	said, err := i.tools.Run(ctx, engine.Tool{
		Argv: i.program("pg_dump", "--format=custom", "--compress=0", "--schema-only", "--no-owner", "--no-privileges", "--no-subscriptions", "--no-publications",
			"--no-tablespaces", "--no-security-labels", "--exclude-schema=steward", "--encoding=UTF8", "--lock-wait-timeout=60s", "--snapshot="+i.snapshot),
		Env: []string{
			"PGHOST=" + dir, "PGPORT=5432", "PGUSER=" + i.s.Username, "PGDATABASE=" + i.d.From, "PGSSLMODE=disable", "PGGSSENCMODE=disable", "PGAPPNAME=steward import", "PGCONNECT_TIMEOUT=30", "HOME=" + dir, "LC_ALL=C.UTF-8",
		},
		Socket: socketName, Connect: i.loggedIn, Stdout: out,
	})
	switch {
	case errors.Is(out.err, errTooLarge):
		return nil, &engine.SourceError{Reason: fmt.Sprintf("The schema of the source's database is larger than %d MB.", mostSchema>>20)}
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("read the schema: %w", ctx.Err())
	case err != nil:
		return nil, &engine.SourceError{Reason: "The source's schema can't be read: " + lastLine(said, err)}
	}
	return out.Bytes(), nil
}

// lastLine is the last of what a program said, as people are shown it.
func lastLine(said []byte, err error) string {
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return shownText(last)
	}
	return shownText(err.Error())
}

var errTooLarge = errors.New("more than is read")

// bounded keeps what is written to it, up to a bound.
type bounded struct {
	bytes.Buffer
	most int
	err  error
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		b.err = errTooLarge
		return 0, errTooLarge
	}
	return b.Buffer.Write(p)
}

// loggedIn is a connection to the source for a program: we log in, by TLS where it is asked for, and the program, which reaches us by a
// socket, is told that it has. libpq itself refuses there a server that binds its password to TLS.
func (i *importing) loggedIn(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, waitForSource)
	defer cancel()
	conn, err := atSource(ctx, i.s, i.d.From)
	if err != nil {
		return nil, err
	}
	if err := conn.SyncConn(ctx); err != nil {
		return nil, errors.Join(err, conn.Conn().Close())
	}
	source, err := conn.Hijack()
	if err != nil {
		return nil, errors.Join(err, conn.Conn().Close())
	}
	programs, ours := net.Pipe()
	go proxy(ours, source)
	return programs, nil
}

// proxy passes on what a program and the source say, until one of them ends.
func proxy(program net.Conn, source *pgconn.HijackedConn) {
	defer program.Close()
	defer source.Conn.Close()
	if serveLogin(program, source) != nil {
		return // it has ended
	}
	done := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // either end may go at any time
		done <- struct{}{}
	}
	go pass(source.Conn, program)
	go pass(program, source.Conn)
	<-done
	_ = errors.Join(program.Close(), source.Conn.Close())
	<-done
}

// serveLogin says to a program what a server says to who has logged in.
func serveLogin(program net.Conn, source *pgconn.HijackedConn) error {
	b := pgproto3.NewBackend(program, program)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return fmt.Errorf("read what a program begins with: %w", err)
	}
	b.Send(&pgproto3.AuthenticationOk{})
	for name, value := range source.ParameterStatuses {
		b.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	b.Send(&pgproto3.BackendKeyData{ProcessID: source.PID, SecretKey: source.SecretKey})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: source.TxStatus})
	if err := b.Flush(); err != nil {
		return fmt.Errorf("serveLogin a program: %w", err)
	}
	return nil
}

// leftOut are the parts of a schema that databases here don't get: what only a superuser can make, or who makes an extension makes by it.
var leftOut = regexp.MustCompile(`^[0-9]+; [0-9]+ [0-9]+ (COMMENT - EXTENSION|COMMENT - EVENT TRIGGER|EVENT TRIGGER|PUBLICATION|SUBSCRIPTION|SECURITY LABEL|EXTENSION - plpgsql) `)

// apply makes a section of the schema in the target. It is the server that reads the statements, and no program of its: what psql would take for
// a command of its own is an error there.
func (i *importing) apply(ctx context.Context, schema []byte, section string) error {
	plain, err := i.script(ctx, schema, section, func([]byte) bool { return true })
	if err != nil {
		return err
	}
	if _, err := query(ctx, i.target, plain); err != nil {
		return targetFailed("take the source's schema", err)
	}
	return nil
}

// script is a section of the schema as SQL, of what takes keeps by its line in the schema's table of contents.
func (i *importing) script(ctx context.Context, schema []byte, section string, takes func(line []byte) bool) (string, error) {
	listing, err := i.restore(ctx, schema, nil, "--list")
	if err != nil {
		return "", err
	}
	var kept bytes.Buffer
	for line := range bytes.Lines(listing) {
		if !leftOut.Match(line) && takes(line) {
			kept.Write(line)
		}
	}
	script, err := i.restore(ctx, schema, kept.Bytes(), "--no-owner", "--no-privileges", "--section="+section, "--use-list="+path.Join(i.tools.Dir(), "list"), "--file=-")
	if err != nil {
		return "", err
	}
	plain, err := io.ReadAll(migration.Unrestricted(bytes.NewReader(script)))
	if err != nil {
		return "", fmt.Errorf("read the schema: %w", err)
	}
	return string(plain), nil
}

// restore has pg_restore, which asks no server, say something of a schema.
func (i *importing) restore(ctx context.Context, schema, list []byte, args ...string) ([]byte, error) {
	out := &bounded{most: 2 * mostSchema}
	said, err := i.tools.Run(ctx, engine.Tool{
		Argv: i.program("pg_restore", args...), Env: []string{"HOME=" + i.tools.Dir(), "LC_ALL=C.UTF-8"},
		Files: map[string][]byte{"list": list}, Stdin: bytes.NewReader(schema), Stdout: out,
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("read the schema: %w", ctx.Err())
	case err != nil:
		return nil, &engine.SourceError{Reason: "The source's schema can't be read: " + lastLine(said, err)}
	}
	return out.Bytes(), nil
}
