package cli

import (
	"context"
	"fmt"
	"strconv"

	"steward/internal/operator"
)

type operatorCommands struct {
	Add    operatorAddCommand    `cmd:"" help:"Let a user see and change all accounts, and see how the installation is, by the API and the console."`
	Remove operatorRemoveCommand `cmd:"" help:"Take that away again."`
	List   operatorListCommand   `cmd:"" help:"List who may."`
}

type operatorAddCommand struct {
	storeFlags
	accountFlag
	Name string `arg:"" help:"The user's name."`
}

func (c *operatorAddCommand) Run(ctx context.Context, s *streams, access *operator.Access) error {
	if err := access.AddOperator(ctx, c.Account, c.Name); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s is an operator of this installation.\n", c.Name)
	return nil
}

type operatorRemoveCommand struct {
	storeFlags
	accountFlag
	Name string `arg:"" help:"The user's name."`
}

func (c *operatorRemoveCommand) Run(ctx context.Context, s *streams, access *operator.Access) error {
	if err := access.RemoveOperator(ctx, c.Account, c.Name); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s is no operator any more.\n", c.Name)
	return nil
}

type operatorListCommand struct {
	storeFlags
	jsonFlag
}

// operatorView is an operator, for --json.
type operatorView struct {
	Account    string `json:"account"`
	Username   string `json:"username"`
	Email      string `json:"email"`
	Restricted bool   `json:"restricted"`
}

func (c *operatorListCommand) Run(ctx context.Context, s *streams, access *operator.Access) error {
	all, err := access.Operators(ctx)
	if err != nil {
		return err
	}
	views, rows := make([]operatorView, len(all)), make([][]string, len(all))
	for i, o := range all {
		views[i] = operatorView{o.AccountName, o.Username, o.Email, o.Restricted}
		rows[i] = []string{o.AccountName, o.Username, o.Email, strconv.FormatBool(!o.Restricted)}
	}
	if c.JSON {
		return printJSON(s.out, views)
	}
	return printTable(s.out, []string{"account", "user", "email", "in effect"}, rows)
}
