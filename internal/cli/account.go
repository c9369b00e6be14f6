package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/config"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/operator"
	"steward/internal/wait"
)

type accountCommands struct {
	Create  accountCreateCommand  `cmd:"" help:"Create an account."`
	List    accountListCommand    `cmd:"" help:"List the accounts and what they have."`
	View    accountViewCommand    `cmd:"" help:"Show one account, its quotas and what is used of them."`
	Update  accountUpdateCommand  `cmd:"" help:"Change an account's e-mail address or quotas."`
	Suspend accountSuspendCommand `cmd:"" help:"Refuse an account's requests, stop its databases and the checks of its services; all data stays."`
	Resume  accountResumeCommand  `cmd:"" help:"Serve a suspended account again, and start the databases that were stopped with it."`
	Delete  accountDeleteCommand  `cmd:"" help:"Delete an account with all its databases, backups, services and users."`
}

// accountFlags are embedded in all commands about accounts.
type accountFlags struct {
	storeFlags
	jsonFlag
	Config string `help:"The server's configuration file (YAML): default quotas and plans are in it." type:"existingfile"`

	quotas account.Quotas
}

func (f *accountFlags) open(ctx context.Context) (*operator.Accounts, error) {
	config, err := config.Load(f.Config)
	if err != nil {
		return nil, err
	}
	f.quotas = config.DefaultQuotas()
	return operator.OpenAccounts(ctx, f.Data, f.Store, config)
}

// noAccount says in an operator's words that there is none of the name.
func noAccount(err error, name string) error {
	if fault.IsKind(err, fault.NotFound) {
		return fmt.Errorf("there is no account %q: `steward account list` has all", name)
	}
	return err
}

// quotaFlag is a quota as it is typed: a number, unlimited, or default.
type quotaFlag struct {
	most  *int
	reset bool
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (q *quotaFlag) UnmarshalText(text []byte) error {
	switch word := string(text); word {
	case "unlimited":
		*q = quotaFlag{most: new(account.Unlimited)}
	case "default":
		*q = quotaFlag{reset: true}
	default:
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || n > account.MostQuota {
			return fmt.Errorf("must be 0-%d, unlimited or default", account.MostQuota)
		}
		*q = quotaFlag{most: &n}
	}
	return nil
}

// changeFlags are what an account is made of or changed to.
type changeFlags struct {
	Email        *string   `help:"Whom to write to about the account."`
	MaxDatabases quotaFlag `placeholder:"N" help:"Most databases: a number, unlimited, or default, which is quotas.databases of the configuration."`
	MaxNodes     quotaFlag `placeholder:"N" help:"Most nodes of all databases together."`
	MaxMemory    quotaFlag `placeholder:"GB" help:"Most memory of the plans of all nodes, in GB."`
	MaxDisk      quotaFlag `placeholder:"GB" help:"Most disk of the plans of all nodes, in GB."`
	MaxServices  quotaFlag `placeholder:"N" help:"Most monitored services."`
}

func (f changeFlags) change() control.AccountChange {
	return control.AccountChange{
		Email:  f.Email,
		Quotas: account.Quotas{Databases: f.MaxDatabases.most, Nodes: f.MaxNodes.most, MemoryGB: f.MaxMemory.most, DiskGB: f.MaxDisk.most, Services: f.MaxServices.most},
		Reset:  control.ResetQuotas{Databases: f.MaxDatabases.reset, Nodes: f.MaxNodes.reset, MemoryGB: f.MaxMemory.reset, DiskGB: f.MaxDisk.reset, Services: f.MaxServices.reset},
	}
}

type accountCreateCommand struct {
	accountFlags
	changeFlags
	Name string `arg:"" help:"Its name: 2-64 letters, digits, -, _ and .; it can't be changed."`
}

func (c *accountCreateCommand) Run(ctx context.Context, s *streams, accounts *operator.Accounts) error {
	if _, err := accounts.Create(ctx, c.Name, c.change(), nil, operator.OperatorDid("steward account create")); err != nil {
		return err
	}
	if c.JSON {
		return c.show(ctx, s, accounts, c.Name)
	}
	fmt.Fprintf(s.out, "Account %s is there. Next: steward user create NAME --account %s --email ADDRESS --data %s\n", c.Name, c.Name, c.Data)
	return nil
}

type accountListCommand struct{ accountFlags }

func (c *accountListCommand) Run(ctx context.Context, s *streams, accounts *operator.Accounts) error {
	all, err := accounts.List(ctx)
	if err != nil {
		return err
	}
	views, rows := make([]accountView, len(all)), make([][]string, len(all))
	for i, a := range all {
		v := showAccount(a)
		views[i] = v
		rows[i] = []string{
			v.Name, v.Status, strconv.Itoa(v.Users), strconv.Itoa(v.Used.Databases), strconv.Itoa(v.Used.Nodes),
			number(v.Used.MemoryGB), number(v.Used.DiskGB), strconv.Itoa(v.Used.Services),
		}
	}
	if c.JSON {
		return printJSON(s.out, views)
	}
	return printTable(s.out, []string{"name", "status", "users", "databases", "nodes", "memory_gb", "disk_gb", "services"}, rows)
}

type accountViewCommand struct {
	accountFlags
	Name string `arg:"" help:"The account's name."`
}

func (c *accountViewCommand) Run(ctx context.Context, s *streams, accounts *operator.Accounts) error {
	return c.show(ctx, s, accounts, c.Name)
}

// show prints an account.
func (f *accountFlags) show(ctx context.Context, s *streams, accounts *operator.Accounts, name string) error {
	a, err := accounts.View(ctx, name)
	if err != nil {
		return noAccount(err, name)
	}
	v := showAccount(a)
	if f.JSON {
		return printJSON(s.out, v)
	}
	fmt.Fprintf(s.out, "name     %s\nemail    %s\nstatus   %s\ncreated  %s\nusers    %d\n\n", v.Name, v.Email, v.Status, v.Created.Format(time.RFC3339), v.Users)
	own, usual := a.Quotas, f.quotas
	return printTable(s.out, []string{"quota", "used", "allowed"}, [][]string{
		{"databases", strconv.Itoa(v.Used.Databases), allowed(own.Databases, usual.Databases)},
		{"nodes", strconv.Itoa(v.Used.Nodes), allowed(own.Nodes, usual.Nodes)},
		{"memory_gb", number(v.Used.MemoryGB), allowed(own.MemoryGB, usual.MemoryGB)},
		{"disk_gb", number(v.Used.DiskGB), allowed(own.DiskGB, usual.DiskGB)},
		{"services", strconv.Itoa(v.Used.Services), allowed(own.Services, usual.Services)},
	})
}

// allowed is a quota of the account's own, or the operator's default.
func allowed(own, usual *int) string {
	switch {
	case own == nil && usual == nil:
		return "unlimited (default)"
	case own == nil:
		return strconv.Itoa(*usual) + " (default)"
	case *own == account.Unlimited:
		return "unlimited"
	}
	return strconv.Itoa(*own)
}

// accountView is an account, for --json. A quota is null where it is the operator's
// default, and -1 where there is no bound.
type accountView struct {
	Name    string         `json:"name"`
	Email   string         `json:"email"`
	Status  string         `json:"status"`
	Created time.Time      `json:"created"`
	Users   int            `json:"users"`
	Used    usedView       `json:"used"`
	Quotas  account.Quotas `json:"quotas"`
}

// usedView is what an account has of what quotas bound.
type usedView struct {
	Databases int     `json:"databases"`
	Nodes     int     `json:"nodes"`
	MemoryGB  float64 `json:"memory_gb"`
	DiskGB    float64 `json:"disk_gb"`
	Services  int     `json:"services"`
}

func showAccount(a control.AccountShown) accountView {
	const megabytes = 1024
	return accountView{
		a.Name, a.Email, string(a.Status), a.Created.UTC(), a.Users,
		usedView{a.Used.Databases, a.Used.Nodes, float64(a.Used.MemoryMB) / megabytes, float64(a.Used.DiskMB) / megabytes, a.Used.Services},
		a.Quotas,
	}
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

type accountUpdateCommand struct {
	accountFlags
	changeFlags
	Name string `arg:"" help:"The account's name."`
}

func (c *accountUpdateCommand) Run(ctx context.Context, s *streams) error {
	change := c.change()
	if change == (control.AccountChange{}) {
		return errors.New("nothing to change: give --email or a quota, such as --max-databases 10")
	}
	accounts, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer accounts.Close(ctx)
	if _, err := accounts.Update(ctx, c.Name, change, nil, operator.OperatorDid("steward account update")); err != nil {
		return noAccount(err, c.Name)
	}
	return c.show(ctx, s, accounts, c.Name)
}

// settleFlag is embedded in commands whose work the server does.
type settleFlag struct {
	Wait time.Duration `help:"How long to wait until the server has done it; 0 doesn't wait." default:"10m"`
}

// settle waits until the account's databases are as its status wants them, and
// reports whether they are.
func (f settleFlag) settle(ctx context.Context, s *streams, accounts *operator.Accounts, a account.Account) (bool, error) {
	if !accounts.Served() || f.Wait == 0 {
		left, err := accounts.Unsettled(ctx, a.ID)
		if err == nil && left > 0 && !accounts.Served() {
			fmt.Fprintf(s.err, "%d databases are still to be dealt with: that is done when the server is started.\n", left)
		}
		return left == 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.Wait)
	defer cancel()
	for said := -1; ; {
		left, err := accounts.Unsettled(ctx, a.ID)
		if err != nil || left == 0 {
			return err == nil, err
		}
		if left != said {
			said = left
			fmt.Fprintf(s.err, "%d databases are still to be dealt with …\n", left)
		}
		if wait.Sleep(ctx, 200*time.Millisecond) != nil {
			return false, fmt.Errorf("%d databases of %s are still to be dealt with; it goes on by itself while the server runs", left, a.Name)
		}
	}
}

type accountSuspendCommand struct {
	accountFlags
	settleFlag
	Name string `arg:"" help:"The account's name."`
}

func (c *accountSuspendCommand) Run(ctx context.Context, s *streams, accounts *operator.Accounts) error {
	a, err := accounts.Suspend(ctx, c.Name, operator.OperatorDid("steward account suspend"))
	if err != nil {
		return noAccount(err, c.Name)
	}
	if _, err := c.settle(ctx, s, accounts, a); err != nil {
		return err
	}
	return c.show(ctx, s, accounts, c.Name)
}

type accountResumeCommand struct {
	accountFlags
	settleFlag
	Name string `arg:"" help:"The account's name."`
}

func (c *accountResumeCommand) Run(ctx context.Context, s *streams, accounts *operator.Accounts) error {
	a, err := accounts.Resume(ctx, c.Name, operator.OperatorDid("steward account resume"))
	if err != nil {
		return noAccount(err, c.Name)
	}
	if _, err := c.settle(ctx, s, accounts, a); err != nil {
		return err
	}
	return c.show(ctx, s, accounts, c.Name)
}

type accountDeleteCommand struct {
	accountFlags
	settleFlag
	Name string `arg:"" help:"The account's name, whole."`
	Yes  bool   `help:"Don't ask: neither for its name nor for its databases."`
}

func (c *accountDeleteCommand) Run(ctx context.Context, s *streams, accounts *operator.Accounts) error {
	shown, err := accounts.View(ctx, c.Name)
	if err != nil {
		return noAccount(err, c.Name)
	}
	if !c.Yes && !confirmed(s, shown) {
		return errors.New("nothing was deleted")
	}
	a, err := accounts.Delete(ctx, c.Name, operator.OperatorDid("steward account delete"))
	if err != nil {
		return noAccount(err, c.Name)
	}
	settled, err := c.settle(ctx, s, accounts, a)
	if err != nil {
		return err
	}
	return c.tell(ctx, s, accounts, settled && accounts.Served() && c.Wait > 0)
}

// confirmed asks for the account's name and, where it has any, for the number of its
// databases: who types both knows what goes.
func confirmed(s *streams, a control.AccountShown) bool {
	answers := bufio.NewScanner(s.in)
	answer := func() string { answers.Scan(); return strings.TrimSpace(answers.Text()) }
	fmt.Fprintf(s.out, "Delete the account %s with %d users, %d databases, all their backups and %d services? There is no way back. Type its name: ",
		a.Name, a.Users, a.Used.Databases, a.Used.Services)
	if answer() != a.Name {
		return false
	}
	if a.Used.Databases == 0 {
		return true
	}
	fmt.Fprint(s.out, "How many databases go with it? Type the number: ")
	return answer() == strconv.Itoa(a.Used.Databases)
}

// tell says what has become of the account.
func (c *accountDeleteCommand) tell(ctx context.Context, s *streams, accounts *operator.Accounts, settled bool) error {
	status, text := "deleting", fmt.Sprintf("%s is being deleted: nobody is served any more, and the server removes what it had.", c.Name)
	if settled {
		kept, err := accounts.AwaitGone(ctx, c.Name)
		switch {
		case err != nil:
			return err
		case kept > 0:
			text = fmt.Sprintf("%s is deleted but for the backups of %d databases, which are kept as backups.keep_after_delete says. Its name is free when they have gone.", c.Name, kept)
		default:
			status, text = "deleted", c.Name+" is deleted."
		}
	}
	if c.JSON {
		return printJSON(s.out, map[string]string{"name": c.Name, "status": status})
	}
	fmt.Fprintln(s.out, text)
	return nil
}
