package postgresql

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// RegenerateIdentity gives a clone a system identifier of its own. The identifier
// is what keeps WAL, replicas and backups of one cluster from being taken for
// another's, and a plain copy shares the template's.
//
// It is written to the first page of the WAL and to pg_control.
func (Driver) RegenerateIdentity(_ context.Context, dir string) error {
	control, err := readPristine(dir)
	if err != nil {
		return fmt.Errorf("regenerate identity of %s: %w", dir, err)
	}
	return freshIdentity().put(dir, control)
}

func freshIdentity() identity {
	fresh := identity{}
	rand.Read(fresh.id[:])
	rand.Read(fresh.secret[:])
	fresh.id[7] &= 0x7f // SQL shows it as a signed number
	return fresh
}

// PrepareReplica gives the clone at dir the identity of the server at primary. Nothing
// else tells the two apart: a cleanly stopped template can go on with the WAL of
// any clone of it.
func (Driver) PrepareReplica(ctx context.Context, primary, dir string) error {
	control, err := readPristine(dir)
	if err != nil {
		return fmt.Errorf("prepare replica %s: %w", dir, err)
	}
	source, err := readLiveControl(ctx, primary)
	if err != nil {
		return fmt.Errorf("prepare replica of %s: %w", primary, err)
	}
	if source.crcAt != control.crcAt {
		return fmt.Errorf("prepare replica of %s: it is of another version", primary)
	}
	return source.identity().put(dir, control)
}

// readPristine reads the control file of data on which no server has run since
// it was stopped cleanly.
func readPristine(dir string) (*controlFile, error) {
	if _, err := os.Stat(filepath.Join(dir, "postmaster.pid")); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("a server runs there or crashed there")
	}
	control, err := readControl(controlPath(dir))
	if err != nil {
		return nil, err
	}
	if control.state() != shutDown {
		return nil, errors.New("the data was not shut down cleanly")
	}
	return control, nil
}

// readLiveControl reads the control file of a server that may be writing it,
// in which case the checksum doesn't fit for a moment.
func readLiveControl(ctx context.Context, dir string) (*controlFile, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for {
		control, err := readControl(controlPath(dir))
		if err == nil || errors.Is(err, fs.ErrNotExist) || pause(ctx) != nil {
			return control, err
		}
	}
}

// ControlFile implements engine.Driver.
func (Driver) ControlFile() string { return "global/pg_control" }

func controlPath(dir string) string { return filepath.Join(dir, Driver{}.ControlFile()) }

// identity is what sets a cluster's data apart from that of any other clone:
// the system identifier, and the secret from which the server invents salts for
// roles that don't exist.
type identity struct {
	id     [8]byte
	secret [32]byte
}

// put writes the WAL first: a clone with only one of the two changed doesn't
// start, and calling again mends it.
func (i identity) put(dir string, control *controlFile) error {
	if err := stampWAL(filepath.Join(dir, "pg_wal"), i.id); err != nil {
		return err
	}
	control.stamp(i)
	return control.write()
}

// shutDown is DB_SHUTDOWNED of PostgreSQL's pg_control.h.
const shutDown = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// controlFile is pg_control: the identifier first, the cluster's state at byte
// 16, and a CRC-32C over all that comes before it.
type controlFile struct {
	path    string
	content []byte
	crcAt   int
}

func readControl(path string) (*controlFile, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read control file: %w", err)
	}
	// The structure grows from version to version; its end is where the
	// checksum fits. All known ones lie between these bounds.
	const least, most = 200, 508
	if len(content) < most+4 {
		return nil, fmt.Errorf("control file %s is too short", path)
	}
	for at := least; at <= most; at += 4 {
		if crc32.Checksum(content[:at], castagnoli) == binary.LittleEndian.Uint32(content[at:]) {
			return &controlFile{path: path, content: content, crcAt: at}, nil
		}
	}
	return nil, fmt.Errorf("control file %s has no valid checksum", path)
}

func (c *controlFile) state() uint32 { return binary.LittleEndian.Uint32(c.content[16:]) }

// identity reads the secret as ending at the checksum. There may be up to three
// bytes of padding between, the same in all clones.
func (c *controlFile) identity() identity {
	return identity{id: [8]byte(c.content), secret: [32]byte(c.content[c.crcAt-32:])}
}

func (c *controlFile) stamp(i identity) {
	copy(c.content, i.id[:])
	copy(c.content[c.crcAt-32:c.crcAt], i.secret[:])
	binary.LittleEndian.PutUint32(c.content[c.crcAt:], crc32.Checksum(c.content[:c.crcAt], castagnoli))
}

func (c *controlFile) write() error {
	f, err := os.OpenFile(c.path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open control file: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteAt(c.content[:512], 0); err != nil {
		return fmt.Errorf("write control file: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write control file: %w", err)
	}
	return nil
}

// stampWAL writes the identifier into every segment's first page.
func stampWAL(dir string, id [8]byte) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list WAL: %w", err)
	}
	segment := regexp.MustCompile(`^[0-9A-F]{24}$`)
	stamped := 0
	for _, e := range entries {
		if !segment.MatchString(e.Name()) {
			continue
		}
		done, err := stampSegment(filepath.Join(dir, e.Name()), id)
		if err != nil {
			return err
		}
		if done {
			stamped++
		}
	}
	if stamped == 0 {
		return fmt.Errorf("no WAL segment in %s", dir)
	}
	return nil
}

// stampSegment leaves segments alone that have no header: they were made ahead
// of use. In a header, bit 1 of byte 2 marks the long form, with the
// identifier at byte 24.
func stampSegment(path string, id [8]byte) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, fmt.Errorf("open WAL segment: %w", err)
	}
	defer f.Close()
	var head [40]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return false, fmt.Errorf("read WAL segment: %w", err)
	}
	if head[2]&2 == 0 {
		return false, nil
	}
	if _, err := f.WriteAt(id[:], 24); err != nil {
		return false, fmt.Errorf("write WAL segment: %w", err)
	}
	return true, nil
}
