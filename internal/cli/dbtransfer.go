package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"

	"steward/client"
)

type dbExportCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	Logical string `name:"database" help:"Logical database; the first one when left out."`
	Output  string `short:"o" default:"-" help:"File to write, which must not be there; compressed when it ends in .gz or .zst. - is the standard output."`
	Custom  bool   `help:"Write PostgreSQL's custom format instead of SQL."`
}

// transferred is what an export or an import says of itself for programs.
type transferred struct {
	Database string  `json:"database"`
	Bytes    int64   `json:"bytes"`
	Seconds  float64 `json:"seconds"`
}

// tell prints what was done: where programs read it, or as a line for people.
func (t transferred) tell(w, people io.Writer, verb string, asJSON bool) error {
	if asJSON {
		return printJSON(w, t)
	}
	_, err := fmt.Fprintf(people, "%s of %s are %s in %.1f s.\n", megabytes(t.Bytes), t.Database, verb, t.Seconds)
	return err
}

func (f *dbExportCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) (err error) {
	e, err := openEnds(ctx, c, d, f.Logical)
	if err != nil {
		return err
	}
	defer e.close()
	if f.Custom && e.mysql {
		return errors.New("--custom is a format of PostgreSQL's")
	}
	out, said := s.out, s.err // a dump on the standard output leaves no room there
	if f.Output != "-" {
		file, err := os.OpenFile(f.Output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("write the dump: %w", err)
		}
		defer func() {
			if err = errors.Join(err, file.Close()); err != nil {
				err = errors.Join(err, os.Remove(f.Output)) // half a dump must not be taken for one
			}
		}()
		out, said = file, s.out
	}
	began := time.Now()
	packed, err := compressed(out, f.Output)
	if err != nil {
		return err
	}
	counter := &counter{}
	defer counter.report(s.err)()
	if err := e.dump(ctx, io.MultiWriter(counter, packed), s.err, f.Custom); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return fmt.Errorf("write the dump: %w", err)
	}
	return transferred{e.logical, counter.bytes.Load(), time.Since(began).Seconds()}.tell(said, s.err, "exported", f.JSON)
}

type dbImportCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	File    string `arg:"" help:"The dump, plain or compressed with gzip or zstd; PostgreSQL's may be in its custom format. - is the standard input."`
	Logical string `name:"database" help:"Logical database, which must be there; the first one when left out."`
}

func (f *dbImportCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	e, err := openEnds(ctx, c, d, f.Logical)
	if err != nil {
		return err
	}
	defer e.close()
	in := s.in
	if f.File != "-" {
		file, err := os.Open(f.File)
		if err != nil {
			return fmt.Errorf("read the dump: %w", err)
		}
		defer file.Close()
		in = file
	}
	began := time.Now()
	plain, done, err := decompressed(in)
	if err != nil {
		return err
	}
	defer done()
	counter := &counter{}
	defer counter.report(s.err)()
	if err := e.load(ctx, bufio.NewReader(io.TeeReader(plain, counter)), s.err); err != nil {
		return err
	}
	return transferred{e.logical, counter.bytes.Load(), time.Since(began).Seconds()}.tell(s.out, s.err, "imported", f.JSON)
}

// ends are what reaches one logical database, with the server's own programs.
type ends struct {
	mysql            bool
	mariadb          bool
	host             string
	port             int
	user, logical    string
	folder, ca, conf string
}

// openEnds writes what the programs are to read, the password among it, into a folder that only the caller can look into.
func openEnds(ctx context.Context, c *client.Client, d client.Database, logical string) (e *ends, err error) {
	credentials, err := c.Credentials(ctx, d)
	if err != nil {
		return nil, err
	}
	ca, err := c.Certificate(ctx, d)
	if err != nil {
		return nil, err
	}
	if d.Hosts.Primary == "" {
		return nil, fmt.Errorf("%s has no address to connect to now", d.Label)
	}
	e = &ends{
		mysql: strings.HasPrefix(d.Engine, "mysql"), mariadb: strings.HasPrefix(d.Version, "10.") || strings.HasPrefix(d.Version, "11."),
		host: d.Hosts.Primary, port: d.Port, user: credentials.Username, logical: cmp.Or(logical, d.DatabaseName),
	}
	if e.folder, err = os.MkdirTemp("", "steward-db-"); err != nil {
		return nil, fmt.Errorf("make a folder for the password: %w", err)
	}
	e.ca, e.conf = filepath.Join(e.folder, "ca.crt"), filepath.Join(e.folder, "login")
	err = errors.Join(os.WriteFile(e.ca, ca, 0o600), os.WriteFile(e.conf, []byte(e.login(credentials.Password)), 0o600))
	if err != nil {
		e.close()
		return nil, fmt.Errorf("write the password: %w", err)
	}
	return e, nil
}

func (e *ends) close() { _ = os.RemoveAll(e.folder) }

// login is the file that the programs have the password from.
func (e *ends) login(password string) string {
	if !e.mysql {
		escape := strings.NewReplacer(`\`, `\\`, `:`, `\:`)
		return fmt.Sprintf("*:*:*:%s:%s\n", escape.Replace(e.user), escape.Replace(password))
	}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	verify := "ssl-mode=VERIFY_IDENTITY"
	if e.mariadb {
		verify = "ssl-verify-server-cert"
	}
	return fmt.Sprintf("[client]\nhost=\"%s\"\nport=%d\nuser=\"%s\"\npassword=\"%s\"\nprotocol=tcp\nssl-ca=\"%s\"\n%s\n",
		e.host, e.port, escape.Replace(e.user), escape.Replace(password), escape.Replace(e.ca), verify)
}

// newKey is what nobody can guess.
func newKey() string { return rand.Text() }

// counter counts what passes.
type counter struct{ bytes atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes.Add(int64(len(p)))
	return len(p), nil
}

// report tells once a second how much has passed, until the function that it returns is called.
func (c *counter) report(w io.Writer) (end func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				fmt.Fprintf(w, "%s so far\n", megabytes(c.bytes.Load()))
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// nothingMore is a writer with nothing to do at its end.
type nothingMore struct{ io.Writer }

func (nothingMore) Close() error { return nil }

// compressed compresses as a file's name asks for.
func compressed(w io.Writer, name string) (io.WriteCloser, error) {
	switch filepath.Ext(name) {
	case ".gz":
		return gzip.NewWriter(w), nil
	case ".zst":
		return zstd.NewWriter(w)
	}
	return nothingMore{w}, nil
}

// decompressed reads what may be compressed, as its first bytes say.
func decompressed(r io.Reader) (plain io.Reader, done func(), err error) {
	in := bufio.NewReaderSize(r, 1<<20)
	head, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("read the dump: %w", err)
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, fmt.Errorf("read the dump: %w", err)
		}
		return z, func() { _ = z.Close() }, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in)
		if err != nil {
			return nil, nil, fmt.Errorf("read the dump: %w", err)
		}
		return z, z.Close, nil
	}
	return in, func() {}, nil
}
