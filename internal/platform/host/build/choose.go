// Package build chooses between the server builds on this machine. It is pure.
package build

import (
	"fmt"
	"slices"
	"strings"

	"steward/internal/cluster"
	"steward/internal/engine"
)

// Newest returns the installation that new clusters of a series get.
func Newest(all []engine.Installation, family cluster.Engine, series string) (engine.Installation, bool) {
	return best(all, func(i engine.Installation) bool { return i.Family() == family && i.Series == series })
}

// sibling is the newest of the same series and builder: where a patch may go.
func sibling(all []engine.Installation, of engine.Installation) (engine.Installation, bool) {
	return best(all, func(i engine.Installation) bool {
		return i.Flavour == of.Flavour && i.Series == of.Series && i.Builder == of.Builder
	})
}

func best(all []engine.Installation, fits func(engine.Installation) bool) (engine.Installation, bool) {
	var found engine.Installation
	ok := false
	for _, i := range all {
		if !fits(i) {
			continue
		}
		c := engine.CompareVersions(i.Version, found.Version)
		// The distribution's own build before others of the same version.
		if !ok || c > 0 || c == 0 && strings.Compare(i.Builder, found.Builder) < 0 {
			found, ok = i, true
		}
	}
	return found, ok
}

// Parse takes an installation's id apart; the series isn't in it.
func Parse(id string) (flavour engine.Flavour, version, builder string, ok bool) {
	f, rest, ok1 := strings.Cut(id, "-")
	version, builder, ok2 := strings.Cut(rest, "-")
	return engine.Flavour(f), version, builder, ok1 && ok2
}

// Choose finds the installation for a cluster's data. Data stays with its
// build; a build that an upgrade of the distribution has replaced is followed
// by the newer one of the same series and builder, since there is no other way
// to run the data. Problems are for operators.
func Choose(all []engine.Installation, family cluster.Engine, series, current string, patch bool) (engine.Installation, string) {
	if current == "" {
		i, ok := Newest(all, family, series)
		if !ok {
			return i, fmt.Sprintf("no installation of %s/%s was found on this machine", family, series)
		}
		return i, ""
	}
	at := slices.IndexFunc(all, func(i engine.Installation) bool { return i.ID() == current })
	if at >= 0 && !patch {
		return all[at], ""
	}
	flavour, version, builder, ok := Parse(current)
	if !ok {
		return engine.Installation{}, fmt.Sprintf("%q names no installation", current)
	}
	if own := cluster.SeriesOf(current); own != "" { // data from before an upgrade is of another series than the cluster
		series = own
	}
	next, ok := sibling(all, engine.Installation{Flavour: flavour, Series: series, Builder: builder})
	if !ok || engine.CompareVersions(next.Version, version) < 0 {
		return next, fmt.Sprintf("%s isn't installed any more, and no later version of the same build is: install it again", current)
	}
	return next, ""
}
