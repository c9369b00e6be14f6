package engine

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"time"
)

// Copied is a backup as it leaves steward's hands.
type Copied struct {
	// Flavour, Series and Version are those of the server that wrote the data.
	Flavour         Flavour
	Series, Version string
	// Bytes is how long the stream is that Backup wrote.
	Bytes int64
	Taken time.Time
	// Encrypted reports whether the data is so at rest; AtRestKey and Keyring open it.
	Encrypted          bool
	AtRestKey, Keyring []byte
}

// Exporter is the part of a Driver for people who restore without steward, with
// the engine's own programs alone.
type Exporter interface {
	// Export writes what Backup wrote as files of a tar archive, beside those that
	// a server of the data needs. It reads r to its end, and is nil only when that
	// was whole.
	Export(c Copied, r io.Reader, w *tar.Writer) error
	// Instructions are what to type where the archive was unpacked, to have a
	// server run on the data. Lines to be typed are indented. Pure.
	Instructions(c Copied) string
}

// ContentBytes is how much of a stream of n bytes is the archive itself.
func ContentBytes(n int64) int64 { return n - int64(trailerSize) }

// AddFile writes one small file into a tar archive.
func AddFile(w *tar.Writer, c Copied, name string, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: c.Taken, Format: tar.FormatPAX}); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := w.Write(content); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Retar copies the files of a backup that is a tar archive itself to below a
// folder of another, but for those to be left out, and reads r to its end.
func Retar(r io.Reader, w *tar.Writer, c Copied, folder string, leaveOut func(name string) bool) error {
	in := NewArchiveReader(r)
	if err := w.WriteHeader(&tar.Header{Name: folder + "/", Typeflag: tar.TypeDir, Mode: 0o700, ModTime: c.Taken}); err != nil {
		return fmt.Errorf("write %s: %w", folder, err)
	}
	files := tar.NewReader(in)
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return in.Finish()
		}
		if err == nil {
			err = retarOne(files, h, w, folder, leaveOut)
		}
		if err != nil {
			return fmt.Errorf("copy the archive: %w", errors.Join(in.Err(), err))
		}
	}
}

func retarOne(from io.Reader, h *tar.Header, w *tar.Writer, folder string, leaveOut func(name string) bool) error {
	name := path.Clean(h.Name)
	if !filepath.IsLocal(name) || h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeReg {
		return fmt.Errorf("%s is no file of a data folder", h.Name)
	}
	if name == "." || leaveOut(name) {
		return nil
	}
	out := &tar.Header{Name: path.Join(folder, name), Typeflag: h.Typeflag, Mode: 0o600, Size: h.Size, ModTime: h.ModTime, Format: tar.FormatPAX}
	if h.Typeflag == tar.TypeDir {
		out.Name, out.Mode = out.Name+"/", 0o700
	}
	if err := w.WriteHeader(out); err != nil {
		return err
	}
	_, err := io.Copy(w, from)
	return err
}
