package control

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"steward/internal/account"
	"steward/internal/monitor"
	"steward/internal/sshlogin"
	"steward/internal/store"
)

// Check is a try to log in to a machine as staff do.
type Check struct {
	// Host is the name of the host that the try is made from.
	Host string
	// NewHostKey takes another host key than the known one: the machine was set up anew.
	NewHostKey bool
}

// settingsStep comes before those of sshlogin: what the machine's settings say.
const settingsStep = "settings"

// Check tries a machine's SSH settings with its account's key: an operator's
// doing. The host key of the first log-in that succeeds is what later ones must find.
func (s *Machines) Check(ctx context.Context, c monitor.Machine, by Check) (sshlogin.Report, error) {
	host, problem := loginHost(c, by.Host)
	if problem != "" {
		return sshlogin.Report{Steps: []sshlogin.Step{{Name: settingsStep, Detail: problem}}}, nil
	}
	// Without a key the machine can't know it; one is made to be put there.
	keys := &SSHKeys{s.Deps}
	if _, err := keys.View(ctx, account.Principal{Account: c.Account}); err != nil {
		return sshlogin.Report{}, err
	}
	key, err := s.Store.SSHKey(ctx, c.Account)
	if err != nil {
		return sshlogin.Report{}, err
	}
	to := sshlogin.Target{
		Address: net.JoinHostPort(host, strconv.Itoa(c.SSH.DialPort())), User: c.SSH.Login(), Key: key.Private, HostKey: c.SSH.HostKey,
	}
	if by.NewHostKey {
		to.HostKey = ""
	}
	report, err := sshlogin.Try(ctx, to)
	if err != nil || !report.OK() || report.HostKey == c.SSH.HostKey {
		return report, err
	}
	return report, s.pin(ctx, c, report.HostKey)
}

// loginHost is where to log in to a machine, or why that isn't known. host is
// the one that the try is made from.
func loginHost(c monitor.Machine, host string) (address, problem string) {
	switch {
	case !c.SSH.Access:
		return "", "the account doesn't let staff log in (access is false)"
	case c.SSH.IP != monitor.AnyIP:
		return c.SSH.IP, ""
	case c.Source != "":
		return c.SourceHost(), ""
	case c.Label == host:
		return "127.0.0.1", ""
	}
	return "", fmt.Sprintf("%s is the host of another server: check it from there, or have its ip set", c.Label)
}

// pin keeps a machine's host key, unless its address was changed meanwhile.
func (s *Machines) pin(ctx context.Context, c monitor.Machine, hostKey string) error {
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		now, err := tx.LockMachine(ctx, c.Account, c.ID)
		if err != nil || now.SSH.IP != c.SSH.IP || now.SSH.Port != c.SSH.Port {
			return err
		}
		now.SSH.HostKey = hostKey
		return tx.UpdateSSH(ctx, now)
	})
}
