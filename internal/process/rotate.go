package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
)

// Rotate keeps a server's output file from growing: once it is larger than
// most bytes its content moves to path.1, what was there to path.2, and so on,
// keep files in all. The server holds the file open in append mode and writes
// on at its new beginning; the few lines it writes in the middle of this may
// be lost, which for a server's chatter is better than stopping it.
func Rotate(path string, most int64, keep int) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() <= most {
		return nil
	}
	if err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	for i := keep - 1; i >= 1; i-- {
		err := os.Rename(path+"."+strconv.Itoa(i), path+"."+strconv.Itoa(i+1))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("rotate: %w", err)
		}
	}
	if err := copyTail(path, path+".1", most); err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	if err := os.Truncate(path, 0); err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	return nil
}

// copyTail copies the last bytes of a file: one that grew without bounds while
// nobody looked isn't copied whole.
func copyTail(from, to string, most int64) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	size, err := in.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := in.Seek(max(0, size-2*most), io.SeekStart); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
