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

func (f passwordFlags) read(s *streams) ([]byte, error) {
	if f.PasswordFile != "" {
		return os.ReadFile(f.PasswordFile)
	}
	if file, ok := s.in.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		fmt.Fprint(s.err, "Password: ")
		defer fmt.Fprintln(s.err)
		return term.ReadPassword(int(file.Fd()))
	}
	text, err := io.ReadAll(io.LimitReader(s.in, maxPassword+1))
	if len(text) > maxPassword {
		return nil, errors.New("it is too long")
	}
	return text, err
}
