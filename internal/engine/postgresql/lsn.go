package postgresql

import (
	"fmt"
	"strconv"
	"strings"
)

// lsn is a place in the WAL, counted in bytes.
type lsn uint64

func (l lsn) String() string { return fmt.Sprintf("%X/%X", uint64(l)>>32, uint32(l)) }

// parseLSN reads "16/B374D848". Nothing, as of a replica that has received
// nothing yet, is 0.
func parseLSN(s string) (lsn, error) {
	if s == "" {
		return 0, nil
	}
	high, low, ok := strings.Cut(s, "/")
	h, err := strconv.ParseUint(high, 16, 32)
	if err != nil || !ok {
		return 0, fmt.Errorf("no place in the WAL: %q", s)
	}
	l, err := strconv.ParseUint(low, 16, 32)
	if err != nil {
		return 0, fmt.Errorf("no place in the WAL: %q", s)
	}
	return lsn(h<<32 | l), nil
}
