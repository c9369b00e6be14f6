package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"steward/client"
	"steward/internal/wait"
)

type dbMigrationCommands struct {
	Check   dbMigrationCheckCommand   `cmd:"" help:"Say whether logical databases could be brought over."`
	Create  dbMigrationCreateCommand  `cmd:"" help:"Bring logical databases over."`
	List    dbMigrationListCommand    `cmd:"" help:"List the migrations, newest first."`
	View    dbMigrationViewCommand    `cmd:"" help:"Show how far a migration is, table by table."`
	Cutover dbMigrationCutoverCommand `cmd:"" help:"End following the source, whose writers were stopped: the databases here take its place."`
	Cancel  dbMigrationCancelCommand  `cmd:"" help:"Cancel a migration and remove what isn't complete, or forget one that has ended."`
}

// sourceFlags name a server elsewhere and what is on it.
type sourceFlags struct {
	Host         string   `required:"" help:"The source's name or address."`
	Port         int      `help:"Its port; 5432 or 3306 when left out."`
	Username     string   `required:"" help:"A user who can read all of the databases."`
	PasswordFile string   `name:"password-file" default:"-" help:"File whose first line is the user's password; - reads it from the standard input."`
	TLS          string   `name:"tls" enum:"verify,require,off" default:"verify" help:"verify, require (any certificate) or off."`
	CA           string   `name:"ca" type:"existingfile" help:"File with certificates of the authorities for --tls=verify; the system's when left out."`
	Databases    []string `name:"database" required:"" help:"Logical database, as NAME or NAME=NEW-NAME; may be repeated."`
}

// request is what the flags ask for.
func (f sourceFlags) request(s *streams, d client.Database) (client.CreateMigration, error) {
	port := f.Port
	if port == 0 {
		port = 5432
		if strings.HasPrefix(d.Engine, "mysql") {
			port = 3306
		}
	}
	asked := client.CreateMigration{Source: client.MigrationSource{Host: f.Host, Port: port, Username: f.Username, TLS: f.TLS}}
	for _, text := range f.Databases {
		name, as, _ := strings.Cut(text, "=")
		asked.Databases = append(asked.Databases, client.MigratedDatabase{Name: name, As: as})
	}
	if f.CA != "" {
		ca, err := os.ReadFile(f.CA)
		if err != nil {
			return asked, fmt.Errorf("read the authorities: %w", err)
		}
		asked.Source.CA = string(ca)
	}
	var err error
	asked.Source.Password, err = f.password(s)
	return asked, err
}

func (f sourceFlags) password(s *streams) (string, error) {
	in := s.in
	if f.PasswordFile != "-" {
		file, err := os.Open(f.PasswordFile)
		if err != nil {
			return "", fmt.Errorf("read the password: %w", err)
		}
		defer file.Close()
		in = file
	} else {
		fmt.Fprintf(s.err, "Password of %s at %s: ", f.Username, f.Host)
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

type dbMigrationCheckCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	sourceFlags
}

func (f *dbMigrationCheckCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	asked, err := f.request(s, d)
	if err != nil {
		return err
	}
	found, err := c.CheckMigration(ctx, d, asked)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, found)
	}
	fmt.Fprintf(s.out, "The source is version %s; its databases take %s.\n", printable(found.Version), megabytes(found.TotalBytes))
	printMigrationProblems(s.out, found.Problems)
	if !found.Possible {
		return errors.New("they can't be brought over as they are")
	}
	fmt.Fprintln(s.out, "They can be brought over.")
	return nil
}

func printMigrationProblems(w io.Writer, all []client.MigrationProblem) {
	for _, p := range all {
		kind := "Note"
		if p.Blocking {
			kind = "Problem"
		}
		if p.Database != "" {
			kind += " with " + printable(p.Database)
		}
		fmt.Fprintf(w, "%s: %s.\n", kind, printable(p.Message))
	}
}

type dbMigrationCreateCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	sourceFlags
	Mode string        `enum:"dump,replicate" default:"dump" help:"dump copies once; replicate goes on with what is written, until steward db migration cutover."`
	Wait time.Duration `help:"How long to wait until it is done, or follows its source; 0 doesn't wait." default:"12h"`
}

func (f *dbMigrationCreateCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	asked, err := f.request(s, d)
	if err != nil {
		return err
	}
	asked.Mode = f.Mode
	m, err := c.CreateMigration(ctx, d, asked)
	if err != nil {
		return err
	}
	if f.Wait > 0 {
		if m, err = awaitMigration(ctx, s, c, d, m, f.Wait, func(m client.Migration) bool { return m.Ended() || m.Phase == "following" }); err != nil {
			return err
		}
	}
	if err := printMigration(s, m, f.JSON); err != nil {
		return err
	}
	if m.Ended() && m.Status != "finished" {
		return errSaid
	}
	if m.Phase == "following" && !f.JSON {
		fmt.Fprintf(s.out, "It follows its source. Stop writing there, then: steward db migration cutover %s %d\n", d.Label, m.ID)
	}
	return nil
}

// awaitMigration waits until a migration is as it is to be and tells how far it is.
func awaitMigration(ctx context.Context, s *streams, c *client.Client, d client.Database, m client.Migration, long time.Duration, is func(client.Migration) bool) (client.Migration, error) {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	for said := ""; ; {
		now, err := c.Migration(ctx, d, m.ID)
		if err != nil {
			return m, err
		}
		if m = now; is(m) {
			return m, nil
		}
		line := fmt.Sprintf("%s: %s, %d of %d tables", orDash(m.Phase), megabytes(m.Bytes), m.TablesDone, m.TablesAll)
		if m.LagSeconds != nil {
			line += ", " + behindOf(m) + " behind"
		}
		if m.Problem != "" {
			line += ". " + m.Problem
		}
		if line != said {
			said = line
			fmt.Fprintln(s.err, line)
		}
		if err := wait.Sleep(ctx, 500*time.Millisecond); err != nil {
			return m, fmt.Errorf("it goes on; see steward db migration view %s %d: %w", d.Label, m.ID, err)
		}
	}
}

type dbMigrationListCommand struct {
	apiFlags
	jsonFlag
	databaseArg
}

func (f *dbMigrationListCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	all, err := c.Migrations(ctx, d)
	if err != nil {
		return err
	}
	return printMigrations(s, all, f.JSON)
}

func printMigrations(s *streams, all []client.Migration, asJSON bool) error {
	return printList(s.out, all, asJSON, []string{"id", "source", "databases", "mode", "status", "phase", "received", "tables", "lag"}, func(m client.Migration) []string {
		names := make([]string, len(m.Databases))
		for n, database := range m.Databases {
			names[n] = database.As
		}
		return []string{strconv.FormatInt(m.ID, 10), m.Source.Host, strings.Join(names, ","), m.Mode, m.Status, orDash(m.Phase), megabytes(m.Bytes), fmt.Sprintf("%d/%d", m.TablesDone, m.TablesAll), behindOf(m)}
	})
}

// behindOf is how far behind its source a migration is.
func behindOf(m client.Migration) string {
	if m.LagSeconds == nil || m.LagBytes == nil {
		return "-"
	}
	return fmt.Sprintf("%ds, %s", *m.LagSeconds, megabytes(*m.LagBytes))
}

// printMigration prints one with its problems.
func printMigration(s *streams, m client.Migration, asJSON bool) error {
	if asJSON {
		return printJSON(s.out, m)
	}
	if err := printMigrations(s, []client.Migration{m}, false); err != nil {
		return err
	}
	printMigrationProblems(s.out, m.Problems)
	if m.Problem != "" {
		fmt.Fprintln(s.out, printableLines(m.Problem))
	}
	return nil
}

// migrationArg names a migration.
type migrationArg struct {
	Migration int64 `arg:"" help:"The migration's id."`
}

type dbMigrationViewCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	migrationArg
}

func (f *dbMigrationViewCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	m, err := c.Migration(ctx, d, f.Migration)
	if err != nil {
		return err
	}
	if err := printMigration(s, m, f.JSON); err != nil || f.JSON || len(m.Tables) == 0 {
		return err
	}
	rows := make([][]string, len(m.Tables))
	for i, t := range m.Tables {
		done := "no"
		if t.Done {
			done = "yes"
		}
		rows[i] = []string{t.Database, t.Name, megabytes(t.Bytes), megabytes(t.TotalBytes), done}
	}
	fmt.Fprintln(s.out)
	return printTable(s.out, []string{"database", "table", "received", "at the source", "done"}, rows)
}

type dbMigrationCutoverCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	migrationArg
	Wait time.Duration `help:"How long to wait until the databases here can be written to; 0 doesn't wait." default:"10m"`
}

func (f *dbMigrationCutoverCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	m, err := c.CutOverMigration(ctx, d, f.Migration)
	if err != nil {
		return err
	}
	if f.Wait > 0 {
		open := func(m client.Migration) bool { return m.Ended() || m.Phase == "validating" }
		if m, err = awaitMigration(ctx, s, c, d, m, f.Wait, open); err != nil {
			return err
		}
	}
	if err := printMigration(s, m, f.JSON); err != nil {
		return err
	}
	if m.Ended() && m.Status != "finished" {
		return errSaid
	}
	return nil
}

type dbMigrationCancelCommand struct {
	apiFlags
	databaseArg
	migrationArg
}

func (f *dbMigrationCancelCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if err := c.DeleteMigration(ctx, d, f.Migration); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "It is canceled, or forgotten if it had ended.")
	return nil
}
