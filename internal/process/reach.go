package process

import (
	"fmt"
	"os"
	"path/filepath"
)

// CheckReach returns an error unless every user may pass through the folder and those
// above it: when steward is root, servers run as users of their own.
func CheckReach(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return fmt.Errorf("folder %s: %w", at, err)
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("database servers run as users of their own and can't get to %s: use another folder, or allow it with `chmod o+x %s`", dir, at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}
