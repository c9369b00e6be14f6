package app

import (
	"io"
	"runtime/debug"
	"strings"

	"steward/internal/config"
)

// Options are what one steward is started with.
type Options struct {
	// Data is the folder with all state.
	Data string
	// Listen is the API's address; port 0 picks a free one.
	Listen string
	// Store is a PostgreSQL URL; "" for a store of steward's own below Data.
	Store string
	// Archive is the folder or URL that backups are kept in; "" for backups.url's.
	Archive string
	// Demo makes a small database on an empty store.
	Demo  bool
	Debug bool
	config.Config
	// Out gets the few lines for people, Log the structured log.
	Out, Log io.Writer
}

// Version is the module's version and the commit it was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	var version strings.Builder
	version.WriteString(info.Main.Version)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			version.WriteString(" (" + s.Value[:12] + ")")
		}
	}
	return version.String()
}
