package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"steward/client"
	"steward/internal/config"
	"steward/internal/monitor"
	"steward/internal/operator"
)

type credentialCommands struct {
	List        credentialListCommand        `cmd:"" help:"List the credentials."`
	Create      credentialCreateCommand      `cmd:"" help:"Give a user name and a password into the service's care."`
	Update      credentialUpdateCommand      `cmd:"" help:"Change the label."`
	SetPassword credentialSetPasswordCommand `cmd:"" help:"Replace the password, and the user name if there is a new one."`
	Delete      credentialDeleteCommand      `cmd:"" help:"Delete a credential; services that name it lose it."`
	Reveal      credentialRevealCommand      `cmd:"" help:"Print a credential in clear; who did and what for is recorded (operators)."`
	Reveals     credentialRevealsCommand     `cmd:"" help:"List who read which credential (operators)."`
}

type credentialArg struct {
	Credential string `arg:"" help:"Id or label."`
}

func (a credentialArg) findCredential(ctx context.Context, c *client.Client) (client.ManagedCredential, error) {
	return c.FindCredential(ctx, a.Credential)
}

func printCredentials(s *streams, all []client.ManagedCredential, asJSON bool) error {
	return printList(s.out, all, asJSON, []string{"id", "label", "last decrypted"}, func(c client.ManagedCredential) []string {
		return []string{fmt.Sprint(c.ID), c.Label, cmp.Or(c.LastDecrypted, "-")}
	})
}

type credentialListCommand struct {
	apiFlags
	jsonFlag
}

func (f *credentialListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.ManagedCredentials(ctx)
	if err != nil {
		return err
	}
	return printCredentials(s, all, f.JSON)
}

type credentialCreateCommand struct {
	apiFlags
	jsonFlag
	passwordFlags
	Label    string `arg:"" help:"What it is called: 2-75 characters."`
	Username string `help:"The user's name, if there is one."`
}

func (f *credentialCreateCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	password, err := f.password(s)
	if err != nil {
		return err
	}
	made, err := c.CreateCredential(ctx, client.CreateCredential{Label: f.Label, Username: f.Username, Password: password})
	if err != nil {
		return err
	}
	return printOne(s, made, f.JSON, printCredentials)
}

type credentialUpdateCommand struct {
	apiFlags
	jsonFlag
	credentialArg
	Label string `required:"" help:"New label."`
}

func (f *credentialUpdateCommand) Run(ctx context.Context, s *streams, c *client.Client, found client.ManagedCredential) error {
	changed, err := c.RelabelCredential(ctx, found, f.Label)
	if err != nil {
		return err
	}
	return printOne(s, changed, f.JSON, printCredentials)
}

type credentialSetPasswordCommand struct {
	apiFlags
	credentialArg
	passwordFlags
	Username *string `help:"New user name; '' for none. Left out, it stays."`
}

func (f *credentialSetPasswordCommand) Run(ctx context.Context, s *streams, c *client.Client, found client.ManagedCredential) error {
	password, err := f.password(s)
	if err != nil {
		return err
	}
	if err := c.SetLogin(ctx, found, client.SetLogin{Username: f.Username, Password: password}); err != nil {
		return err
	}
	fmt.Fprintln(s.out, found.Label, "has a new password.")
	return nil
}

type credentialDeleteCommand struct {
	apiFlags
	credentialArg
}

func (f *credentialDeleteCommand) Run(ctx context.Context, s *streams, c *client.Client, found client.ManagedCredential) error {
	if err := c.DeleteCredential(ctx, found); err != nil {
		return err
	}
	fmt.Fprintln(s.out, found.Label, "is deleted.")
	return nil
}

// credentialRevealCommand is for staff with access to the server itself: no
// token opens a credential.
type credentialRevealCommand struct {
	dataFlag
	jsonFlag
	ID      int64  `arg:"" help:"The credential's id."`
	Purpose string `required:"" help:"What it is read for; the customer sees it."`
	staffFlag
	Store  string `help:"PostgreSQL URL of the store, when it isn't steward's own."`
	Config string `help:"Configuration file (YAML)." type:"existingfile"`
}

func (f *credentialRevealCommand) Run(ctx context.Context, s *streams) error {
	staff, err := f.staff()
	if err != nil {
		return err
	}
	config, err := config.Load(f.Config)
	if err != nil {
		return err
	}
	login, err := operator.RevealCredential(ctx, operator.RevealOptions{
		Data: f.Data, Store: f.Store, Config: config, Credential: monitor.CredentialID(f.ID), Staff: staff, Purpose: f.Purpose,
	})
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, map[string]string{"username": login.Username.Reveal(), "password": login.Password.Reveal()})
	}
	fmt.Fprintf(s.out, "username  %s\npassword  %s\n", login.Username.Reveal(), login.Password.Reveal())
	return nil
}

type credentialRevealsCommand struct {
	storeFlags
	jsonFlag
}

// revealView is a reading of a credential as --json shows it.
type revealView struct {
	Read       time.Time `json:"read"`
	Account    int64     `json:"account"`
	Credential int64     `json:"credential"`
	Label      string    `json:"label"`
	Staff      string    `json:"staff"`
	Purpose    string    `json:"purpose"`
}

func (f *credentialRevealsCommand) Run(ctx context.Context, s *streams, access *operator.Access) error {
	all, err := access.Reveals(ctx)
	if err != nil {
		return err
	}
	views, rows := make([]revealView, len(all)), make([][]string, len(all))
	for i, r := range all {
		v := revealView{r.Created.UTC(), int64(r.Account), int64(r.Credential), r.Label, r.Staff, r.Purpose}
		views[i] = v
		rows[i] = []string{v.Read.Format(time.RFC3339), fmt.Sprint(v.Account), fmt.Sprint(v.Credential), v.Label, v.Staff, v.Purpose}
	}
	if f.JSON {
		return printJSON(s.out, views)
	}
	return printTable(s.out, []string{"read", "account", "credential", "label", "by", "purpose"}, rows)
}
