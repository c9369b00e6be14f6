package enginetest

import (
	"bytes"
	"context"
	"io"
)

// Sink is an archive in memory.
type Sink struct {
	// Puts are the files' archive IDs and names, in the order in which they came.
	Puts []string
	// Files are what they hold.
	Files map[string][]byte
	// Gaps counts the gaps that were reported.
	Gaps int
	// Refuse is what Put returns, without taking anything.
	Refuse error
	// Forgets has it keep the names alone.
	Forgets bool

	// incoming is where a file grows: to grow a new buffer each time takes the race detector a second for every hundred megabytes.
	incoming bytes.Buffer
}

// Put implements engine.ArchiveSink.
func (s *Sink) Put(_ context.Context, archiveID, name string, r io.Reader) error {
	if s.Refuse != nil {
		return s.Refuse
	}
	file := archiveID + " " + name
	s.Puts = append(s.Puts, file)
	if s.Forgets {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	s.incoming.Reset()
	_, err := s.incoming.ReadFrom(r)
	if s.Files == nil {
		s.Files = map[string][]byte{}
	}
	s.Files[file] = bytes.Clone(s.incoming.Bytes())
	return err
}

// ReportGap implements engine.ArchiveSink.
func (s *Sink) ReportGap(context.Context) error {
	s.Gaps++
	return nil
}
