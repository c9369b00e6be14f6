package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/wait"
)

// apiFlags are embedded in the customers' commands.
type apiFlags struct {
	URL   string `help:"Address of the API." env:"STEWARD_URL" default:"http://127.0.0.1:8080"`
	Token string `help:"Token to use." env:"STEWARD_TOKEN"`
}

func (f apiFlags) client() (*client.Client, error) {
	if f.Token == "" {
		return nil, errors.New("no token: set STEWARD_TOKEN (the first one is in DATA/admin.token)")
	}
	return client.New(f.URL, f.Token), nil
}

type dbCommands struct {
	List         dbListCommand         `cmd:"" help:"List the databases."`
	View         dbViewCommand         `cmd:"" help:"Show one database."`
	Create       dbCreateCommand       `cmd:"" help:"Create a database."`
	Update       dbUpdateCommand       `cmd:"" help:"Change label, type, number of nodes, allow list, when it sleeps or whether it can be deleted."`
	Delete       dbDeleteCommand       `cmd:"" help:"Delete a database and all its data."`
	Credentials  dbCredentialsCommand  `cmd:"" help:"Show the root user's name and password; with --reset make a new one."`
	Config       dbConfigCommands      `cmd:"" help:"The server's settings: what can be chosen, what is."`
	Metrics      dbMetricsCommand      `cmd:"" help:"Plot what was measured of a database: the last hour, unless told otherwise."`
	Patch        dbPatchCommand        `cmd:"" help:"Do now what waits for the maintenance window: the newest installed version of the series, certificates, restarts."`
	Upgrade      dbUpgradeCommand      `cmd:"" help:"Move the database to a newer version; says beforehand for how long nobody can write."`
	UpgradeCheck dbUpgradeCheckCommand `cmd:"" help:"Try a newer version on a copy of the data: what stands in the way, and how long it takes."`
	Restart      dbRestartCommand      `cmd:"" help:"Start the database's servers anew; three one after the other, with a pause of a moment."`
	Switchover   dbSwitchoverCommand   `cmd:"" help:"Have another of three nodes become the primary, with a pause of a moment."`
	Suspend      dbSuspendCommand      `cmd:"" help:"Stop the database; its data and addresses stay."`
	Resume       dbResumeCommand       `cmd:"" help:"Start a suspended database again."`
	Nodes        dbNodesCommand        `cmd:"" help:"Show the servers behind a database: role, health, lag; with --history the changes of the primary."`
	Database     dbLogicalCommands     `cmd:"" help:"The logical databases of a database."`
	User         dbUserCommands        `cmd:"" help:"The users that log in to a database."`
	Pool         dbPoolCommands        `cmd:"" help:"Connection pools of a PostgreSQL database."`
	Extension    dbExtensionCommands   `cmd:"" help:"Extensions of a PostgreSQL database."`
	Queries      dbQueriesCommands     `cmd:"" help:"What sessions of a database are doing, what statements have cost, how one would be carried out."`
	Top          dbTopCommand          `cmd:"" help:"Watch nodes, sessions and statements of a database."`
	Logs         dbLogsCommand         `cmd:"" help:"Show what the database's servers have logged."`
	Migration    dbMigrationCommands   `cmd:"" help:"Bring logical databases over from a server elsewhere."`
	Export       dbExportCommand       `cmd:"" help:"Write a logical database as a dump, with the server's own programs on this machine."`
	Import       dbImportCommand       `cmd:"" help:"Read a dump into a logical database, with the server's own programs on this machine."`
	Connect      dbConnectCommand      `cmd:"" help:"Print the psql or mysql line that reaches the database; writes the CA certificate beside it."`
}

type databaseArg struct {
	Database string `arg:"" help:"Id or label."`
}

func (a databaseArg) findDatabase(ctx context.Context, c *client.Client) (client.Database, error) {
	return c.Find(ctx, a.Database)
}

type dbListCommand struct {
	apiFlags
	jsonFlag
}

func (f *dbListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.Databases(ctx)
	if err != nil {
		return err
	}
	return printDatabases(s, all, f.JSON)
}

func printDatabases(s *streams, all []client.Database, asJSON bool) error {
	if asJSON {
		return printJSON(s.out, all)
	}
	rows := make([][]string, len(all))
	for i, d := range all {
		address := "-"
		if d.Hosts.Primary != "" {
			address = fmt.Sprintf("%s:%d", d.Hosts.Primary, d.Port)
		}
		rows[i] = []string{fmt.Sprint(d.ID), d.Label, d.Engine + "/" + d.Version, d.Type, shownStatus(d), address}
	}
	return printTable(s.out, []string{"id", "label", "engine", "type", "status", "address"}, rows)
}

// shownStatus is a database's status, and that it sleeps.
func shownStatus(d client.Database) string {
	if d.Sleeping {
		return d.Status + " (asleep)"
	}
	return d.Status
}

type dbViewCommand struct {
	apiFlags
	jsonFlag
	databaseArg
}

func (f *dbViewCommand) Run(_ context.Context, s *streams, _ *client.Client, d client.Database) error {
	if f.JSON {
		return printJSON(s.out, d)
	}
	if err := printDatabases(s, []client.Database{d}, false); err != nil {
		return err
	}
	printDatabaseName(s.out, d)
	printAllowed(s.out, d)
	printPending(s.out, d)
	return nil
}

// printDatabaseName says what to connect to.
func printDatabaseName(w io.Writer, d client.Database) {
	fmt.Fprintf(w, "\nIts database to connect to is %s.\n", d.DatabaseName)
}

// printAllowed says from where one may connect.
func printAllowed(w io.Writer, d client.Database) {
	if len(d.AllowList) == 0 {
		fmt.Fprintln(w, "Nobody may connect: its allow list is empty.")
		return
	}
	fmt.Fprintln(w, "These may connect:")
	for _, item := range d.AllowList {
		fmt.Fprintln(w, strings.TrimRight("  "+item+"  "+printable(d.AllowListNotes[item]), " "))
	}
}

// waitFlag is embedded in commands that start something that takes time.
type waitFlag struct {
	Wait time.Duration `help:"How long to wait until it is done; 0 doesn't wait." default:"10m"`
}

// settle waits until the database is active.
func (f waitFlag) settle(ctx context.Context, c *client.Client, d client.Database, s *streams) (client.Database, error) {
	return f.become(ctx, c, d, s, "active")
}

// carryOut asks for a change, and waits until it is done.
func (f waitFlag) carryOut(ctx context.Context, c *client.Client, d client.Database, s *streams, ask func(context.Context, client.Database) error) (client.Database, error) {
	if err := ask(ctx, d); err != nil {
		return d, err
	}
	return f.settle(ctx, c, d, s)
}

// become waits until the database is in none of the transient statuses, which
// should end in the one that was asked for.
func (f waitFlag) become(ctx context.Context, c *client.Client, d client.Database, s *streams, goal string) (client.Database, error) {
	if f.Wait == 0 {
		return d, nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.Wait)
	defer cancel()
	for said := ""; ; {
		fresh, err := c.Database(ctx, d)
		if err != nil {
			return d, err
		}
		switch fresh.Status {
		case goal:
			return fresh, nil
		case "active", "failed", "degraded", "suspended":
			return fresh, fmt.Errorf("%s is %s; `steward event list` says why", fresh.Label, fresh.Status)
		}
		if fresh.Status != said {
			said = fresh.Status
			fmt.Fprintf(s.err, "%s is %s …\n", fresh.Label, fresh.Status)
		}
		if wait.Sleep(ctx, 100*time.Millisecond) != nil {
			return fresh, fmt.Errorf("%s is still %s", fresh.Label, fresh.Status)
		}
	}
}

type dbCreateCommand struct {
	apiFlags
	jsonFlag
	waitFlag
	Label       string            `arg:"" help:"Its name: 3-32 letters, digits, - and _."`
	Engine      string            `required:"" help:"Engine and series, such as postgresql/15 or mysql/10.11."`
	Type        string            `default:"g6-nanode-1" help:"Plan."`
	Region      string            `default:"local" help:"Region."`
	Nodes       int               `default:"1" help:"1, or 3: a primary and two replicas."`
	Allow       []string          `help:"Addresses and ranges that may connect."`
	AllowNote   map[string]string `placeholder:"ADDRESS=TEXT" mapsep:"none" help:"What an address of --allow is for."`
	Encrypted   bool              `help:"Encrypt the data at rest."`
	Fork        int64             `placeholder:"ID" help:"Take the data of this database's newest backup."`
	At          string            `placeholder:"TIME" help:"With --fork: of this moment, such as 2026-01-31T18:04:05; without continuous backups, of the newest one before it."`
	Config      []string          `placeholder:"NAME=VALUE" help:"Settings of the server; 'steward db config list' names them." sep:"none"`
	AutoSuspend *int              `placeholder:"MINUTES" help:"Put it to sleep after so many minutes without a session, until somebody connects; 0 for never."`
	Protect     bool              `help:"Refuse to delete it until 'steward db update --no-protect'."`
	NoTLS       bool              `name:"no-tls-required" help:"Let clients connect without TLS too."`
}

func (f *dbCreateCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	if f.At != "" && f.Fork == 0 {
		return errors.New("--at says which moment of another database: it needs --fork")
	}
	config, err := parseConfig(f.Config)
	if err != nil {
		return err
	}
	required := !f.NoTLS
	asked := client.CreateDatabase{
		Label: f.Label, Engine: f.Engine, Type: f.Type, Region: f.Region, ClusterSize: f.Nodes,
		AllowList: append([]string{}, f.Allow...), AllowListNotes: f.AllowNote, Encrypted: f.Encrypted, SSLConnection: &required, EngineConfig: config, AutoSuspend: autoSuspend(f.AutoSuspend),
		DeletionProtection: f.Protect,
	}
	if f.Fork != 0 {
		asked.Fork = &client.Fork{Source: f.Fork, RestoreTime: f.At}
	}
	d, err := c.CreateDatabase(ctx, asked)
	if err != nil {
		return err
	}
	d, err = f.settle(ctx, c, d, s)
	if err != nil {
		return err
	}
	return printOne(s, d, f.JSON, printDatabases)
}

type dbUpdateCommand struct {
	apiFlags
	jsonFlag
	waitFlag
	databaseArg
	Label       *string           `help:"New label."`
	Type        *string           `help:"Another plan; a smaller one only when the data has room in it."`
	Nodes       *int              `help:"1, or 3: with a replica that takes over." enum:"1,3"`
	Allow       *[]string         `help:"The whole new list; an empty one blocks everybody."`
	AllowNote   map[string]string `placeholder:"ADDRESS=TEXT" mapsep:"none" help:"What an address that may connect is for; an empty text takes a note away."`
	AutoSuspend *int              `placeholder:"MINUTES" help:"Put it to sleep after so many minutes without a session, until somebody connects; 0 for never."`
	Protect     *bool             `negatable:"" help:"Refuse to delete it, or no longer."`
	Autoscale   *bool             `negatable:"" help:"Move to the next type when the disk fills, or no longer."`
	AtPercent   *int              `name:"autoscale-at" placeholder:"PERCENT" help:"How full the disk is then: 50 to 90."`
	MaxType     string            `name:"autoscale-max" placeholder:"TYPE" help:"The type beyond which it doesn't grow."`
}

// autoSuspend is what is asked for by a flag; nil for nothing.
func autoSuspend(minutes *int) *client.AutoSuspend {
	if minutes == nil {
		return nil
	}
	return &client.AutoSuspend{IdleMinutes: *minutes}
}

// autoscale is what is asked for by the flags; nil for nothing.
func (f *dbUpdateCommand) autoscale() *client.Autoscale {
	if f.Autoscale == nil && f.AtPercent == nil && f.MaxType == "" {
		return nil
	}
	return &client.Autoscale{Enabled: f.Autoscale, Percent: f.AtPercent, Max: f.MaxType}
}

// notes are those that the database has with the changed ones among them; nil where none is changed.
func (f *dbUpdateCommand) notes(d client.Database) *map[string]string {
	if len(f.AllowNote) == 0 {
		return nil
	}
	notes := map[string]string{}
	for item, note := range d.AllowListNotes {
		if f.Allow == nil || slices.Contains(*f.Allow, item) {
			notes[item] = note
		}
	}
	maps.Copy(notes, f.AllowNote)
	return &notes
}

func (f *dbUpdateCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	d, err := c.UpdateDatabase(ctx, d, client.UpdateDatabase{
		AllowListNotes: f.notes(d), Label: f.Label, Type: f.Type, AllowList: f.Allow, ClusterSize: f.Nodes, AutoSuspend: autoSuspend(f.AutoSuspend), DeletionProtection: f.Protect, Autoscale: f.autoscale(),
	})
	if err != nil {
		return err
	}
	d, err = f.settle(ctx, c, d, s)
	if err != nil {
		return err
	}
	return printDatabases(s, []client.Database{d}, f.JSON)
}

type dbDeleteCommand struct {
	apiFlags
	databaseArg
	FinalBackup bool `negatable:"" help:"Take a last backup first, which is kept for a while: see steward backup finals."`
	Yes         bool `help:"Don't ask."`
}

func (f *dbDeleteCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if !f.Yes {
		what := "all its data"
		if !f.FinalBackup {
			what += ", without a last backup"
		}
		fmt.Fprintf(s.out, "Delete %s (%s) and %s? Type its label: ", d.Label, d.Engine, what)
		var answer string
		if _, err := fmt.Fscanln(s.in, &answer); err != nil || answer != d.Label {
			return errors.New("nothing was deleted")
		}
	}
	remove := c.DeleteDatabase
	if f.FinalBackup {
		remove = c.DeleteDatabaseAfterBackup
	}
	if err := remove(ctx, d); err != nil {
		return err
	}
	fmt.Fprintln(s.out, d.Label, "is deleted.")
	return nil
}

type dbCredentialsCommand struct {
	apiFlags
	jsonFlag
	waitFlag
	databaseArg
	Reset bool `help:"Make a new password first."`
}

func (f *dbCredentialsCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if f.Reset {
		if err := c.ResetCredentials(ctx, d); err != nil {
			return err
		}
		if _, err := f.settle(ctx, c, d, s); err != nil {
			return err
		}
	}
	credentials, err := c.Credentials(ctx, d)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, credentials)
	}
	fmt.Fprintf(s.out, "username  %s\npassword  %s\n", credentials.Username, credentials.Password)
	return nil
}

type dbPatchCommand struct {
	apiFlags
	waitFlag
	databaseArg
}

func (f *dbPatchCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	d, err := f.carryOut(ctx, c, d, s, c.PatchDatabase)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s runs %s.\n", d.Label, d.ServerVersion)
	return nil
}

type dbRestartCommand struct {
	apiFlags
	waitFlag
	databaseArg
}

func (f *dbRestartCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	d, err := f.carryOut(ctx, c, d, s, c.RestartDatabase)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s is %s.\n", d.Label, d.Status)
	return nil
}

type dbSwitchoverCommand struct {
	apiFlags
	waitFlag
	databaseArg
}

func (f *dbSwitchoverCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	d, err := f.carryOut(ctx, c, d, s, c.SwitchoverDatabase)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s is %s; 'steward db nodes %[1]s' shows its primary.\n", d.Label, d.Status)
	return nil
}

type dbSuspendCommand struct {
	apiFlags
	waitFlag
	databaseArg
}

func (f *dbSuspendCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if err := c.SuspendDatabase(ctx, d); err != nil {
		return err
	}
	d, err := f.become(ctx, c, d, s, "suspended")
	if err != nil {
		return err
	}
	return printDatabases(s, []client.Database{d}, false)
}

type dbResumeCommand struct {
	apiFlags
	waitFlag
	databaseArg
}

func (f *dbResumeCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if err := c.ResumeDatabase(ctx, d); err != nil {
		return err
	}
	return settleAndPrint(ctx, s, c, d, f.waitFlag)
}

type dbConnectCommand struct {
	apiFlags
	databaseArg
	User  string `help:"Log in as this user, whose password stays for you to fill in; the root user when left out."`
	Name  string `name:"database" help:"Logical database; the first one when left out."`
	CADir string `name:"ca-dir" default:"." type:"path" help:"Folder to write LABEL-ca.crt to."`
}

func (f *dbConnectCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	credentials := client.Credentials{Username: f.User, Password: "PASSWORD"}
	if f.User == "" {
		var err error
		if credentials, err = c.Credentials(ctx, d); err != nil {
			return err
		}
	}
	if f.Name != "" {
		d.DatabaseName = f.Name
	}
	ca, err := c.Certificate(ctx, d)
	if err != nil {
		return err
	}
	path := filepath.Join(f.CADir, d.Label+"-ca.crt")
	if err := os.WriteFile(path, ca, 0o644); err != nil {
		return fmt.Errorf("write the CA certificate: %w", err)
	}
	fmt.Fprintln(s.out, connectLine(d, credentials, path))
	return nil
}

// connectLine is what a person types to get a prompt.
func connectLine(d client.Database, c client.Credentials, ca string) string {
	if strings.HasPrefix(d.Engine, "mysql") {
		return fmt.Sprintf("MYSQL_PWD=%s mysql -h %s -P %d -u %s --ssl-ca=%s --ssl-verify-server-cert %s",
			c.Password, d.Hosts.Primary, d.Port, shellWord(c.Username), ca, shellWord(d.DatabaseName))
	}
	return fmt.Sprintf("PGPASSWORD=%s psql %s", c.Password, shellQuote(fmt.Sprintf("host=%s port=%d user=%s dbname=%s sslmode=verify-full sslrootcert=%s",
		d.Hosts.Primary, d.Port, parameterWord(c.Username), parameterWord(d.DatabaseName), ca)))
}

// plainWord has nothing that a shell or a connection string gives a meaning.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// shellWord is text as one word of a shell, shellQuote the same in quotes always.
func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return shellQuote(text)
}

func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// parameterWord is a value of a connection string of PostgreSQL's.
func parameterWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
