package cli

import (
	"cmp"
	"context"
	"fmt"

	"steward/client"
)

type contactCommands struct {
	List   contactListCommand   `cmd:"" help:"List the contacts."`
	View   contactViewCommand   `cmd:"" help:"Show one contact."`
	Create contactCreateCommand `cmd:"" help:"Add a contact."`
	Update contactUpdateCommand `cmd:"" help:"Change a contact; what isn't named stays."`
	Delete contactDeleteCommand `cmd:"" help:"Remove a contact."`
}

type contactArg struct {
	Contact string `arg:"" help:"Id, e-mail address or name."`
}

func (a contactArg) findContact(ctx context.Context, c *client.Client) (client.Contact, error) {
	return c.FindContact(ctx, a.Contact)
}

// contactFlags are what can be said of a contact beside name and address.
type contactFlags struct {
	Group  *string `help:"Group that services name; '' for none."`
	Phone  *string `help:"Telephone number; '' for none."`
	Phone2 *string `name:"phone2" help:"Second number; '' for none."`
}

func printContacts(s *streams, all []client.Contact, asJSON bool) error {
	return printList(s.out, all, asJSON, []string{"id", "name", "email", "group", "phone", "second phone"}, func(c client.Contact) []string {
		return []string{
			fmt.Sprint(c.ID), c.Name, c.Email, cmp.Or(c.Group, "-"), cmp.Or(c.Phone.Primary, "-"), cmp.Or(c.Phone.Secondary, "-"),
		}
	})
}

type contactListCommand struct {
	apiFlags
	jsonFlag
}

func (f *contactListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.Contacts(ctx)
	if err != nil {
		return err
	}
	return printContacts(s, all, f.JSON)
}

type contactViewCommand struct {
	apiFlags
	jsonFlag
	contactArg
}

func (f *contactViewCommand) Run(_ context.Context, s *streams, _ *client.Client, found client.Contact) error {
	return printOne(s, found, f.JSON, printContacts)
}

type contactCreateCommand struct {
	apiFlags
	jsonFlag
	contactFlags
	Name  string `arg:"" help:"The person's name."`
	Email string `required:"" help:"Address that is told of issues."`
}

func (f *contactCreateCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	made, err := c.CreateContact(ctx, client.ContactChange{
		Name: &f.Name, Email: &f.Email, Group: f.Group, Primary: f.Phone, Secondary: f.Phone2,
	})
	if err != nil {
		return err
	}
	return printOne(s, made, f.JSON, printContacts)
}

type contactUpdateCommand struct {
	apiFlags
	jsonFlag
	contactArg
	contactFlags
	Name  *string `help:"New name."`
	Email *string `help:"New address."`
}

func (f *contactUpdateCommand) Run(ctx context.Context, s *streams, c *client.Client, found client.Contact) error {
	changed, err := c.UpdateContact(ctx, found, client.ContactChange{
		Name: f.Name, Email: f.Email, Group: f.Group, Primary: f.Phone, Secondary: f.Phone2,
	})
	if err != nil {
		return err
	}
	return printOne(s, changed, f.JSON, printContacts)
}

type contactDeleteCommand struct {
	apiFlags
	contactArg
}

func (f *contactDeleteCommand) Run(ctx context.Context, s *streams, c *client.Client, found client.Contact) error {
	if err := c.DeleteContact(ctx, found); err != nil {
		return err
	}
	fmt.Fprintln(s.out, found.Name, "is deleted.")
	return nil
}
