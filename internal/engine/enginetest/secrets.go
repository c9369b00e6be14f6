package enginetest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// noClearPasswords looks for every password the server has had in all the
// node's files and in what the process shows of itself. Text of a customer's is found
// there: else the search, and that of the case of encryption, would prove nothing.
func noClearPasswords(t *testing.T, s *Server) {
	passwords := []string{s.Node.AdminPassword, s.Node.RootPassword, s.Node.TemplatePassword}
	s.Node.RootPassword = "rotated-5Hd8Lq2Wx"
	passwords = append(passwords, s.Node.RootPassword)
	must(t, s.Bench.Driver.SetRootPassword(t.Context(), s.Node), "set root password")
	must(t, s.TryLogin(t, s.Login()), "login")
	wrong := s.Login()
	wrong.Password = "mistyped-" + s.Node.RootPassword
	if err := s.TryLogin(t, wrong); err == nil {
		t.Error("a wrong password is let in")
	}
	for _, pid := range append(descendants(s.cmd.Process.Pid), s.cmd.Process.Pid) {
		for _, name := range []string{"cmdline", "environ"} {
			content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
			if err == nil {
				wantNone(t, name+" of a process", content, passwords)
			}
		}
	}
	marker := s.mark(t)
	s.stopsBesideClient(t) // so that all is on disk
	marked := false
	for _, f := range FilesWith(t, s.base, append(passwords, marker)...) {
		if strings.Contains(f, marker) {
			marked = true
		} else {
			t.Error(f)
		}
	}
	if !marked {
		t.Error("the search finds nothing on a server without encryption")
	}
	s.Start(t)
	if got := s.Text(t, "SELECT count(*) FROM marked"); got != "2" {
		t.Errorf("%s rows after a clean stop, want 2", got)
	}
}

func wantNone(t *testing.T, where string, content []byte, passwords []string) {
	t.Helper()
	for i, p := range passwords {
		if bytes.Contains(content, []byte(p)) {
			t.Errorf("password %d is in %s", i, where)
		}
	}
}
