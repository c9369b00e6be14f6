package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"steward/client"
	"steward/internal/alert"
)

type alertCommands struct {
	List     alertListCommand    `cmd:"" help:"List what is wrong with databases now."`
	Rules    alertRuleCommands   `cmd:"" help:"What is judged: the system's rules and your own."`
	Channels alertChannelCommand `cmd:"" help:"Where alerts are told."`
}

type alertListCommand struct {
	apiFlags
	jsonFlag
}

func (f *alertListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.Issues(ctx)
	if err != nil {
		return err
	}
	open := []client.Issue{}
	rows := [][]string{}
	for _, v := range all {
		if v.Closed == "" && len(v.Services) == 0 {
			open = append(open, v)
			rows = append(rows, []string{fmt.Sprint(v.ID), v.Created, numberOrNone(v.Database), fmt.Sprint(v.Entity.ID), v.Entity.Label})
		}
	}
	if f.JSON {
		return printJSON(s.out, open)
	}
	return printTable(s.out, []string{"id", "began", "database", "ticket", "summary"}, rows)
}

// numberOrNone leaves what is 0 out.
func numberOrNone(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

type alertRuleCommands struct {
	List    alertRuleListCommand    `cmd:"" help:"List the rules."`
	View    alertRuleViewCommand    `cmd:"" help:"Show one rule."`
	Create  alertRuleCreateCommand  `cmd:"" help:"Add a rule of your own."`
	Set     alertRuleSetCommand     `cmd:"" help:"Change a rule; what isn't named stays."`
	Enable  alertRuleEnableCommand  `cmd:"" help:"Switch a rule on."`
	Disable alertRuleDisableCommand `cmd:"" help:"Switch a rule off; what it opened is closed."`
	Delete  alertRuleDeleteCommand  `cmd:"" help:"Remove a rule of your own."`
}

type alertRuleArg struct {
	Rule string `arg:"" help:"Id or label."`
}

// condition is a criterion in words: "avg cpu_usage > 90".
func condition(r client.AlertRule) string {
	sign := map[string]string{"gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "eq": "="}[r.Operator]
	return fmt.Sprintf("%s %s %s %s", r.Aggregate, r.Metric, sign, strconv.FormatFloat(r.Threshold, 'f', -1, 64))
}

func printRules(s *streams, all []client.AlertDefinition, asJSON bool) error {
	return printList(s.out, all, asJSON, []string{"id", "label", "severity", "type", "status", "when", "for", "told"}, func(d client.AlertDefinition) []string {
		var conditions, channels []string
		for _, r := range d.RuleCriteria.Rules {
			conditions = append(conditions, condition(r))
		}
		for _, c := range d.AlertChannels {
			channels = append(channels, c.Label)
		}
		held := fmt.Sprintf("%ds × %d", d.Trigger.Polling, d.Trigger.Occurrences)
		return []string{fmt.Sprint(d.ID), d.Label, alert.Severity(d.Severity).String(), d.Type, d.Status, strings.Join(conditions, " and "), held, strings.Join(channels, ", ")}
	})
}

type alertRuleListCommand struct {
	apiFlags
	jsonFlag
}

func (f *alertRuleListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.AlertDefinitions(ctx)
	if err != nil {
		return err
	}
	return printRules(s, all, f.JSON)
}

type alertRuleViewCommand struct {
	apiFlags
	jsonFlag
	alertRuleArg
}

func (f *alertRuleViewCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	d, err := c.FindAlertDefinition(ctx, f.Rule)
	if err != nil {
		return err
	}
	return printRules(s, []client.AlertDefinition{d}, f.JSON)
}

// alertRuleFlags are what a rule is made of.
type alertRuleFlags struct {
	Description *string   `help:"What to do; it is told with the alert."`
	Severity    *string   `enum:"severe,medium,low,info" help:"severe, medium, low or info."`
	When        []string  `placeholder:"CONDITION" help:"What must hold, such as 'avg cpu_usage > 90'; several must all hold."`
	Period      *int      `placeholder:"SECONDS" help:"Of how long the values are that are looked at together."`
	Polling     *int      `placeholder:"SECONDS" help:"How far looks are apart."`
	Occurrences *int      `help:"How many looks in a row must find it."`
	Channel     *[]string `help:"Id or label of a channel to tell; may be repeated. '' for none."`
	Database    *[]string `help:"Id or label of a database that it is for; may be repeated."`
	Region      *[]string `help:"Region whose databases it is for; may be repeated."`
	All         bool      `help:"For all databases of the account."`
}

// change is what the flags ask for; before is the rule as it is.
func (f alertRuleFlags) change(ctx context.Context, c *client.Client, before client.AlertDefinition) (in client.AlertChange, err error) {
	in.Description = f.Description
	if f.Severity != nil {
		in.Severity = new(map[string]int{"severe": 0, "medium": 1, "low": 2, "info": 3}[*f.Severity])
	}
	if len(f.When) > 0 {
		in.Criteria = &client.AlertCriteria{}
		for _, text := range f.When {
			r, err := parseCondition(text)
			if err != nil {
				return in, err
			}
			in.Criteria.Rules = append(in.Criteria.Rules, r)
		}
	}
	if f.Period != nil || f.Polling != nil || f.Occurrences != nil {
		t := before.Trigger
		t.Condition = "ALL"
		for _, set := range []struct {
			from *int
			to   *int
		}{{f.Period, &t.Period}, {f.Polling, &t.Polling}, {f.Occurrences, &t.Occurrences}} {
			if set.from != nil {
				*set.to = *set.from
			}
		}
		in.Trigger = &t
	}
	if in.ChannelIDs, err = channelIDs(ctx, c, f.Channel); err != nil {
		return in, err
	}
	return f.scope(ctx, c, in)
}

func (f alertRuleFlags) scope(ctx context.Context, c *client.Client, in client.AlertChange) (client.AlertChange, error) {
	asked := 0
	if f.All {
		asked++
		in.Scope, in.EntityIDs, in.Regions = new("account"), &[]string{}, &[]string{}
	}
	if f.Region != nil {
		asked++
		in.Scope, in.EntityIDs, in.Regions = new("region"), &[]string{}, f.Region
	}
	if f.Database != nil {
		asked++
		ids := []string{}
		for _, text := range *f.Database {
			d, err := c.Find(ctx, text)
			if err != nil {
				return in, err
			}
			ids = append(ids, fmt.Sprint(d.ID))
		}
		in.Scope, in.EntityIDs, in.Regions = new("entity"), &ids, &[]string{}
	}
	if asked > 1 {
		return in, errors.New("--all, --database and --region don't go together")
	}
	return in, nil
}

func channelIDs(ctx context.Context, c *client.Client, asked *[]string) (*[]int64, error) {
	if asked == nil {
		return nil, nil //nolint:nilnil // it stays as it is
	}
	ids := []int64{}
	for _, text := range *asked {
		if text == "" {
			continue
		}
		one, err := c.FindAlertChannel(ctx, text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, one.ID)
	}
	return &ids, nil
}

var errCondition = errors.New("a condition is an aggregate (avg, max, min, sum), a metric, a sign (> >= < <= =) and a number, such as 'avg cpu_usage > 90'")

// parseCondition reads what condition writes.
func parseCondition(text string) (client.AlertRule, error) {
	parts := strings.Fields(text)
	if len(parts) != 4 {
		return client.AlertRule{}, errCondition
	}
	operator := map[string]string{">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "=": "eq"}[parts[2]]
	threshold, err := strconv.ParseFloat(parts[3], 64)
	if operator == "" || err != nil {
		return client.AlertRule{}, errCondition
	}
	return client.AlertRule{Aggregate: parts[0], Metric: parts[1], Operator: operator, Threshold: threshold}, nil
}

type alertRuleCreateCommand struct {
	apiFlags
	jsonFlag
	alertRuleFlags
	Label string `arg:"" help:"What it is called; it begins what is told."`
}

func (f *alertRuleCreateCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	usual := client.AlertDefinition{Trigger: client.AlertTrigger{Condition: "ALL", Period: 300, Polling: 60, Occurrences: 1}}
	in, err := f.change(ctx, c, usual)
	if err != nil {
		return err
	}
	in.Label = &f.Label
	if in.Severity == nil {
		in.Severity = new(1)
	}
	if in.Trigger == nil {
		in.Trigger = &usual.Trigger
	}
	if in.ChannelIDs == nil {
		in.ChannelIDs = &[]int64{int64(alert.Contacts)}
	}
	if in.Scope == nil {
		in.Scope = new("account")
	}
	made, err := c.CreateAlertDefinition(ctx, in)
	if err != nil {
		return err
	}
	return printRules(s, []client.AlertDefinition{made}, f.JSON)
}

type alertRuleSetCommand struct {
	apiFlags
	jsonFlag
	alertRuleArg
	alertRuleFlags
	Label *string `help:"New label."`
}

func (f *alertRuleSetCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	before, err := c.FindAlertDefinition(ctx, f.Rule)
	if err != nil {
		return err
	}
	in, err := f.change(ctx, c, before)
	if err != nil {
		return err
	}
	in.Label = f.Label
	changed, err := c.UpdateAlertDefinition(ctx, before, in)
	if err != nil {
		return err
	}
	return printRules(s, []client.AlertDefinition{changed}, f.JSON)
}

// switchRule switches a rule on or off.
func switchRule(ctx context.Context, s *streams, c *client.Client, rule, status string) error {
	d, err := c.FindAlertDefinition(ctx, rule)
	if err != nil {
		return err
	}
	if _, err := c.UpdateAlertDefinition(ctx, d, client.AlertChange{Status: &status}); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s is %s.\n", d.Label, status)
	return nil
}

type alertRuleEnableCommand struct {
	apiFlags
	alertRuleArg
}

func (f *alertRuleEnableCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	return switchRule(ctx, s, c, f.Rule, "enabled")
}

type alertRuleDisableCommand struct {
	apiFlags
	alertRuleArg
}

func (f *alertRuleDisableCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	return switchRule(ctx, s, c, f.Rule, "disabled")
}

type alertRuleDeleteCommand struct {
	apiFlags
	alertRuleArg
}

func (f *alertRuleDeleteCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	d, err := c.FindAlertDefinition(ctx, f.Rule)
	if err != nil {
		return err
	}
	if err := c.DeleteAlertDefinition(ctx, d); err != nil {
		return err
	}
	fmt.Fprintln(s.out, d.Label, "is deleted.")
	return nil
}

type alertChannelCommand struct {
	List   alertChannelListCommand   `cmd:"" help:"List the channels."`
	Create alertChannelCreateCommand `cmd:"" help:"Add a channel."`
	Test   alertChannelTestCommand   `cmd:"" help:"Send a test to a channel."`
	Delete alertChannelDeleteCommand `cmd:"" help:"Remove a channel, also from the rules that name it."`
}

func printChannels(s *streams, all []client.AlertChannel, asJSON bool) error {
	return printList(s.out, all, asJSON, []string{"id", "label", "kind", "type", "to"}, func(c client.AlertChannel) []string {
		to := ""
		switch d := c.Details; {
		case d.Email != nil:
			to = strings.Join(d.Email.Addresses, ", ")
		case d.Webhook != nil:
			to = d.Webhook.URL
		case d.Slack != nil:
			to = d.Slack.URL
		}
		return []string{fmt.Sprint(c.ID), c.Label, c.Kind, c.Type, to}
	})
}

type alertChannelListCommand struct {
	apiFlags
	jsonFlag
}

func (f *alertChannelListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.AlertChannels(ctx)
	if err != nil {
		return err
	}
	return printChannels(s, all, f.JSON)
}

type alertChannelCreateCommand struct {
	apiFlags
	jsonFlag
	Label  string   `arg:"" help:"What it is called."`
	Email  []string `xor:"to" required:"" help:"Address to mail to; may be repeated."`
	Kind   *string  `xor:"to" required:"" enum:"webhook,slack" help:"webhook or slack (whatever takes a text at a URL, as chats do). The URL is read from standard input, since it may be secret."`
	Region string   `help:"Region whose private networks the URL may lead to."`
}

func (f *alertChannelCreateCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	kind, to := "email", client.AlertChannelTarget{}
	switch {
	case f.Kind != nil:
		line, err := bufio.NewReader(s.in).ReadString('\n')
		if err != nil && line == "" {
			return fmt.Errorf("read the URL from standard input: %w", err)
		}
		kind = *f.Kind
		target := &client.AlertHook{URL: strings.TrimSpace(line), Region: f.Region}
		if kind == "slack" {
			to.Slack = target
		} else {
			to.Webhook = target
		}
	default:
		to.Email = &client.AlertMail{Addresses: f.Email}
	}
	made, err := c.CreateAlertChannel(ctx, f.Label, kind, to)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, made)
	}
	if err := printChannels(s, []client.AlertChannel{made}, false); err != nil {
		return err
	}
	if made.Secret != "" {
		fmt.Fprintf(s.out, "Requests are signed with this secret, which isn't shown again: %s\n", made.Secret)
	}
	return nil
}

type alertChannelArg struct {
	Channel string `arg:"" help:"Id or label."`
}

type alertChannelTestCommand struct {
	apiFlags
	alertChannelArg
}

func (f *alertChannelTestCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	one, err := c.FindAlertChannel(ctx, f.Channel)
	if err != nil {
		return err
	}
	problem, err := c.TryAlertChannel(ctx, one)
	if err != nil {
		return err
	}
	if problem != "" {
		return fmt.Errorf("%s wasn't told: %s", one.Label, problem)
	}
	fmt.Fprintln(s.out, one.Label, "took the test.")
	return nil
}

type alertChannelDeleteCommand struct {
	apiFlags
	alertChannelArg
}

func (f *alertChannelDeleteCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	one, err := c.FindAlertChannel(ctx, f.Channel)
	if err != nil {
		return err
	}
	if err := c.DeleteAlertChannel(ctx, one); err != nil {
		return err
	}
	fmt.Fprintln(s.out, one.Label, "is deleted.")
	return nil
}
