package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// passwordFlags are embedded in commands that take a password: never as an
// argument, which other users of the machine could see.
type passwordFlags struct {
	PasswordFile string `help:"File with the password; by default it is asked for, or read from the standard input." type:"existingfile"`
}

// maxPassword is more than any password may be long.
const maxPassword = 64 << 10

// password reads it, without the newline that a file or a line ends with.
func (f passwordFlags) password(s *streams) (string, error) {
	text, err := f.read(s)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if password == "" {
		return "", errors.New("the password is empty")
	}
	return password, nil
}

// newPassword reads one that is to be set: twice at a terminal, where nobody sees
// what is typed.
func newPassword(s *streams) (string, error) {
	password, err := passwordFlags{}.password(s)
	if err != nil || !atTerminal(s) {
		return password, err
	}
	again, err := passwordFlags{}.password(s)
	if err == nil && password != again {
		return "", errors.New("the two passwords differ")
	}
	return password, err
}

func atTerminal(s *streams) bool {
	file, ok := s.in.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func (f passwordFlags) read(s *streams) ([]byte, error) {
	if f.PasswordFile != "" {
		return os.ReadFile(f.PasswordFile)
	}
	if atTerminal(s) {
		fmt.Fprint(s.err, "Password: ")
		defer fmt.Fprintln(s.err)
		return term.ReadPassword(int(s.in.(*os.File).Fd()))
	}
	text, err := io.ReadAll(io.LimitReader(s.in, maxPassword+1))
	if len(text) > maxPassword {
		return nil, errors.New("it is too long")
	}
	return text, err
}
