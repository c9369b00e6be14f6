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
}

// Put implements engine.ArchiveSink.
func (s *Sink) Put(_ context.Context, archiveID, name string, r io.Reader) error {
	if s.Refuse != nil {
		return s.Refuse
	}
	var content bytes.Buffer // io.ReadAll copies large files more often
	_, err := content.ReadFrom(r)
	if s.Files == nil {
		s.Files = map[string][]byte{}
	}
	file := archiveID + " " + name
	s.Puts, s.Files[file] = append(s.Puts, file), content.Bytes()
	return err
}

// ReportGap implements engine.ArchiveSink.
func (s *Sink) ReportGap(context.Context) error {
	s.Gaps++
	return nil
}
