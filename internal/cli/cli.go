// Package cli is steward's command line: a contract, since scripts rely on it.
// Operators' commands act on a data folder; customers' commands speak to the
// API through the client package.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"reflect"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"steward/client"
	"steward/internal/operator"
)

// Exit codes, as listed in the help text.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

type commands struct {
	Serve       serveCommand        `cmd:"" help:"Serve the API and run the databases."`
	Stop        stopCommand         `cmd:"" help:"Stop the server; with --all the databases and the gateway too."`
	Doctor      doctorCommand       `cmd:"" help:"Say what this machine offers, what is missing and how to get it."`
	Account     accountCommands     `cmd:"" help:"Accounts: whose databases and services there are, and how many they may have (operators)."`
	User        userCommands        `cmd:"" help:"Users of the API."`
	Operator    operatorCommands    `cmd:"" help:"Who may see and change all accounts by the API and the console (operators)."`
	Token       tokenCommands       `cmd:"" help:"Personal access tokens."`
	Audit       auditCommand        `cmd:"" help:"Who did what, from where, with which token (operators)."`
	Node        nodeCommands        `cmd:"" help:"The server processes behind the databases."`
	DB          dbCommands          `cmd:"" name:"db" help:"Databases, over the API (STEWARD_URL, STEWARD_TOKEN)."`
	Backup      backupCommands      `cmd:"" help:"Backups of databases, over the API."`
	Restore     restoreCommand      `cmd:"" help:"Undo a restore, or set today's password after one (operators)."`
	Recover     recoverCommand      `cmd:"" help:"Bring the databases of a lost server back from its backups and its seal key (operators)."`
	Service     serviceCommands     `cmd:"" help:"Services that are monitored, over the API."`
	Issue       issueCommands       `cmd:"" help:"Outages of services, over the API."`
	Ticket      ticketCommands      `cmd:"" help:"What is told and written about issues."`
	Alert       alertCommands       `cmd:"" help:"What is wrong with databases, by which rules, and who is told, over the API."`
	Contact     contactCommands     `cmd:"" help:"Whom issues are told to, over the API."`
	Credential  credentialCommands  `cmd:"" help:"User names and passwords in the service's care, over the API."`
	SSHKey      sshKeyCommand       `cmd:"" name:"ssh-key" help:"Print the public key that support staff log in with, over the API."`
	Compute     computeCommands     `cmd:"" help:"Machines: registering them (operators), how staff log in to them (over the API)."`
	StatusPage  statusPageCommands  `cmd:"" name:"status-page" help:"Status pages that everybody may read, over the API."`
	Notice      noticeCommands      `cmd:"" help:"What contacts are told of issues: list, retry, test (operators)."`
	Seal        sealCommands        `cmd:"" help:"The master key of all secrets (operators)."`
	Maintenance maintenanceCommands `cmd:"" help:"What will be done in databases' maintenance windows, over the API."`
	Event       eventCommands       `cmd:"" help:"Events of the account, over the API."`
	Usage       usageCommand        `cmd:"" help:"What databases were and cost, by day, over the API."`
	Stats       statsCommand        `cmd:"" help:"Plot the load of all machines together, over the API."`
	Version     versionCommand      `cmd:"" help:"Print the version."`
}

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// Run carries out one command line and returns the process's exit code.
func Run(args []string, in io.Reader, out, errOut io.Writer) int {
	exited, code := false, 0
	parser, err := kong.New(grammar(args),
		kong.Name("steward"),
		kong.Description("Your own managed databases and managed monitoring, behind one JSON API.\n\nExit codes: 0 done, 1 failed, 2 wrong usage."),
		kong.Writers(out, errOut),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(func(c int) { exited, code = true, c }),
	)
	if err != nil {
		fmt.Fprintln(errOut, "steward:", err)
		return exitError
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if exited {
		return code
	}
	if err != nil {
		fmt.Fprintf(errOut, "steward: %s\n`steward --help` lists the commands.\n", err)
		return exitUsage
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	parsed.BindTo(ctx, (*context.Context)(nil))
	done := func(context.Context) {}
	err = provide(parsed, &done)
	if err == nil {
		err = parsed.Run(&streams{in, out, errOut})
	}
	done(ctx)
	if err != nil {
		if !errors.Is(err, errSaid) {
			fmt.Fprintln(errOut, "steward:", printableLines(err.Error()))
		}
		return exitError
	}
	return exitOK
}

// grammar is what the arguments can be of: the one command that they begin with, or all of them. To read the
// tags of two hundred commands takes longer than what most of them do.
func grammar(args []string) any {
	all := reflect.TypeFor[commands]()
	for field := range all.Fields() {
		if len(args) > 0 && args[0] == cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name)) {
			return reflect.New(reflect.StructOf([]reflect.StructField{field})).Interface()
		}
	}
	return new(commands)
}

// provide lets Run methods have as parameters what their commands' flags and arguments
// name: the store, or the client first and then what it finds, since a parameter may need
// those before it. done is set to what closes what was opened.
func provide(parsed *kong.Context, done *func(context.Context)) error {
	command := parsed.Selected().Target.Addr().Interface()
	var providers []any
	if of, ok := command.(interface {
		open(context.Context) (*operator.Access, error)
	}); ok {
		providers = append(providers, closed(of.open, done))
	}
	if of, ok := command.(interface {
		open(context.Context) (*operator.Accounts, error)
	}); ok {
		providers = append(providers, closed(of.open, done))
	}
	if of, ok := command.(interface {
		client() (*client.Client, error)
	}); ok {
		providers = append(providers, of.client)
	}
	if of, ok := command.(interface {
		findDatabase(context.Context, *client.Client) (client.Database, error)
	}); ok {
		providers = append(providers, of.findDatabase)
	}
	if of, ok := command.(interface {
		findBackup(context.Context, *client.Client, client.Database) (client.Backup, error)
	}); ok {
		providers = append(providers, of.findBackup)
	}
	if of, ok := command.(interface {
		findContact(context.Context, *client.Client) (client.Contact, error)
	}); ok {
		providers = append(providers, of.findContact)
	}
	if of, ok := command.(interface {
		findCredential(context.Context, *client.Client) (client.ManagedCredential, error)
	}); ok {
		providers = append(providers, of.findCredential)
	}
	if of, ok := command.(interface {
		findService(context.Context, *client.Client) (client.Service, error)
	}); ok {
		providers = append(providers, of.findService)
	}
	if of, ok := command.(interface {
		findStatusPage(context.Context, *client.Client) (client.StatusPage, error)
	}); ok {
		providers = append(providers, of.findStatusPage)
	}
	for _, provider := range providers {
		if err := parsed.BindSingletonProvider(provider); err != nil {
			return err
		}
	}
	return nil
}

// closed opens something and has done close it.
func closed[T interface{ Close(context.Context) }](open func(context.Context) (T, error), done *func(context.Context)) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		opened, err := open(ctx)
		if err == nil {
			*done = opened.Close
		}
		return opened, err
	}
}

// errSaid ends a command with exit code 1 when the reason was printed already.
var errSaid = errors.New("said")
