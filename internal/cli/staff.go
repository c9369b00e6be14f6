package cli

import (
	"fmt"
	"os/user"
)

// staffFlag is embedded in commands of staff that leave a trace.
type staffFlag struct {
	Staff string `help:"Who you are; the name of the system's user by default."`
}

func (f staffFlag) staff() (string, error) {
	if f.Staff != "" {
		return f.Staff, nil
	}
	who, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("find out who you are (--staff): %w", err)
	}
	return who.Username, nil
}
