package monitor_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/fault"
	"steward/internal/monitor"
)

func texts(faults fault.Faults) []string {
	var all []string
	for _, f := range faults {
		all = append(all, f.Error())
	}
	return all
}

func TestChangeOfSSHSettings(t *testing.T) {
	t.Parallel()
	set := monitor.SSHSettings{Access: true, User: "ops", IP: "192.0.2.7", Port: 2222, HostKey: "ssh-ed25519 AAAA"}
	with := func(f func(*monitor.SSHSettings)) monitor.SSHSettings {
		s := set
		f(&s)
		return s
	}
	for _, test := range []struct {
		name   string
		change monitor.SSHChange
		want   monitor.SSHSettings
	}{
		{"nothing", monitor.SSHChange{}, set},
		{"access", monitor.SSHChange{Access: new(false)}, with(func(s *monitor.SSHSettings) { s.Access = false })},
		{"user", monitor.SSHChange{User: new("deploy")}, with(func(s *monitor.SSHSettings) { s.User = "deploy" })},
		{"root again", monitor.SSHChange{User: new("")}, with(func(s *monitor.SSHSettings) { s.User = "" })},
		{"another address", monitor.SSHChange{IP: new("2001:db8::7")}, with(func(s *monitor.SSHSettings) { s.IP, s.HostKey = "2001:db8::7", "" })},
		{"any address", monitor.SSHChange{IP: new("any")}, with(func(s *monitor.SSHSettings) { s.IP, s.HostKey = "any", "" })},
		{"the same address", monitor.SSHChange{IP: new("192.0.2.7"), Port: new(2222)}, set},
		{"the default port", monitor.SSHChange{Port: new(0)}, with(func(s *monitor.SSHSettings) { s.Port, s.HostKey = 0, "" })},
	} {
		got, faults := set.Change(test.change)
		if diff := cmp.Diff(test.want, got); diff != "" || len(faults) > 0 {
			t.Errorf("%s: %v -want +got\n%s", test.name, faults, diff)
		}
	}
	if s := (monitor.SSHSettings{Access: true}); s.Login() != "root" || s.DialPort() != 22 {
		t.Errorf("defaults: %+v", s)
	}
	if set.Login() != "ops" || set.DialPort() != 2222 {
		t.Error("what is set doesn't count")
	}
}

func TestFaultsOfSSHSettings(t *testing.T) {
	t.Parallel()
	const user = "ssh.user: May only contain letters, digits, _, -, . and @, and must start with a letter, a digit or _"
	const ip = "ssh.ip: Must be an IPv4 or IPv6 address, or any"
	for name, test := range map[string]struct {
		change monitor.SSHChange
		want   []string
	}{
		"all at once":     {monitor.SSHChange{User: new(strings.Repeat("u", 33)), IP: new("somewhere"), Port: new(65536)}, []string{"ssh.user: Length must be 1-32 characters", ip, "ssh.port: Must be 1-65535"}},
		"an option":       {monitor.SSHChange{User: new("-oProxyCommand")}, []string{user}},
		"white space":     {monitor.SSHChange{User: new("a b")}, []string{user}},
		"not ASCII":       {monitor.SSHChange{User: new("jürgen")}, []string{user}},
		"a line's end":    {monitor.SSHChange{User: new("root\n")}, []string{user}},
		"no address":      {monitor.SSHChange{IP: new("")}, []string{ip}},
		"every address":   {monitor.SSHChange{IP: new("0.0.0.0")}, []string{ip}},
		"a group":         {monitor.SSHChange{IP: new("ff02::1")}, []string{ip}},
		"a zone":          {monitor.SSHChange{IP: new("fe80::1%eth0")}, []string{ip}},
		"a network":       {monitor.SSHChange{IP: new("192.0.2.0/24")}, []string{ip}},
		"a negative port": {monitor.SSHChange{Port: new(-1)}, []string{"ssh.port: Must be 1-65535"}},
		"what is allowed": {monitor.SSHChange{User: new("_Svc.a-1@corp"), IP: new("::1"), Port: new(65535)}, nil},
		"the longest":     {monitor.SSHChange{User: new(strings.Repeat("u", 32))}, nil},
	} {
		_, faults := monitor.SSHSettings{Access: true, IP: monitor.AnyIP}.Change(test.change)
		if diff := cmp.Diff(test.want, texts(faults)); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func TestRegisteredMachines(t *testing.T) {
	t.Parallel()
	const source = "source: Must be the URL of a node_exporter, such as http://host:9100/metrics"
	for name, test := range map[string]struct {
		machine monitor.Machine
		want    []string
	}{
		"good":          {monitor.Machine{Label: "web-1", Group: "web", Source: "http://web-1.example.org:9100/metrics"}, nil},
		"IPv6":          {monitor.Machine{Label: "w", Source: "https://[2001:db8::1]:9100/metrics"}, nil},
		"all at once":   {monitor.Machine{Group: strings.Repeat("g", 51), Source: "web-1:9100"}, []string{"label: Length must be 1-64 characters", "group: Length must be at most 50 characters", source}},
		"another kind":  {monitor.Machine{Label: "w", Source: "file:///etc/passwd"}, []string{source}},
		"no host":       {monitor.Machine{Label: "w", Source: "http://:9100/metrics"}, []string{source}},
		"a password":    {monitor.Machine{Label: "w", Source: "http://u:p@h/metrics"}, []string{"source: Must have neither a user nor a fragment"}},
		"control codes": {monitor.Machine{Label: "w\n", Group: "\x1b[2J", Source: "http://h/"}, []string{"label: Must not contain control characters", "group: Must not contain control characters"}},
	} {
		if diff := cmp.Diff(test.want, texts(test.machine.ValidateRegistered())); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
	if host := (monitor.Machine{Source: "http://[2001:db8::1]:9100/metrics"}).SourceHost(); host != "2001:db8::1" {
		t.Errorf("host of a source: %q", host)
	}
}
