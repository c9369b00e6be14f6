package host

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"steward/internal/catalog"
	"steward/internal/engine"
	"steward/internal/platform/host/build"
	"steward/internal/platform/host/files"
)

// Engines implements platform.Driver.
func (d *Driver) Engines() []catalog.Engine { return slices.Clone(d.engines) }

// describeEngines lists each series once, as its newest installation is.
func (d *Driver) describeEngines() []catalog.Engine {
	var list []catalog.Engine
	for _, i := range d.Installations() {
		best, ok := build.Newest(d.Installations(), i.Family(), i.Series)
		if !ok || best.ID() != i.ID() || d.o.Engines[i.Family()] == nil {
			continue
		}
		list = append(list, catalog.Engine{
			Engine: i.Family(), Series: i.Series, Disk: sync.OnceValues(func() (total, used int64) { used = programSize(i); return used, used }),
			EncryptionMissing: d.o.Engines[i.Family()].EncryptionMissing(i), Upgrades: d.upgradesTo(i),
			Libraries: i.Libraries, Extensions: d.extensionsOf(i),
		})
	}
	slices.SortFunc(list, func(a, b catalog.Engine) int {
		return cmp.Or(cmp.Compare(a.Engine, b.Engine), engine.CompareVersions(a.Series, b.Series))
	})
	return slices.CompactFunc(list, func(a, b catalog.Engine) bool { return a.ID() == b.ID() })
}

// extensionsOf are the extensions that come with an installation.
func (d *Driver) extensionsOf(i engine.Installation) []catalog.Extension {
	eng, ok := d.o.Engines[i.Family()].(engine.Extensible)
	if !ok {
		return nil
	}
	all, err := eng.Catalog(i)
	if err != nil {
		d.log.Warn("look for the extensions of an engine", "installation", i.ID(), "error", err)
	}
	return all
}

// upgradesTo says of each build of an older series why its data can't be moved to an installation.
func (d *Driver) upgradesTo(to engine.Installation) map[string]string {
	all := map[string]string{}
	for _, from := range d.Installations() {
		if from.Family() == to.Family() && engine.CompareVersions(from.Series, to.Series) < 0 {
			all[from.ID()] = cmp.Or(d.o.Engines[to.Family()].UpgradeMissing(from, to), d.upgradesMissing())
		}
	}
	return all
}

// programSize is the disk that the installation's programs take: its whole
// prefix when that is its own, else the programs alone.
func programSize(i engine.Installation) int64 {
	if i.Home != "" && i.Home != "/" && i.Home != "/usr" && i.Home != "/usr/local" {
		return files.Size(i.Home)
	}
	var size int64
	for _, path := range i.Bin {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		if info, err := os.Stat(real); err == nil {
			size += info.Size()
		}
	}
	if i.Share != "" {
		size += files.Size(i.Share)
	}
	return size
}
