package cluster

import (
	"slices"
	"strings"
	"unicode/utf8"

	"steward/internal/fault"
)

// Offer is what Validate asks of the catalog and the platform: what exists
// here. It is an interface so that this package needs to know neither.
type Offer interface {
	// HasEngine reports whether "engine/series" can be run.
	HasEngine(engine Engine, series string) bool
	// EngineIDs are the ids of all series of an engine that can be run.
	EngineIDs(engine Engine) []string
	// HasType reports whether the plan exists and is offered for the engine and size.
	HasType(id string, engine Engine, size int) bool
	HasRegion(id string) bool
	// Lacks are the faults of asking the region, if it exists, for what its platform can't do: an engine
	// that others have, data files that are encrypted at rest, or anything while it is out of reach.
	Lacks(s Spec) fault.Faults
}

// MaxAutoSuspend is the longest that a database which may sleep waits for that, in minutes: a week.
const MaxAutoSuspend = 7 * 24 * 60

// Validate returns every fault of a new database's spec. Defaults must have
// been filled in by WithDefaults; the allow_list is checked when it is parsed.
func (s Spec) Validate(offer Offer) fault.Faults {
	var faults fault.Faults
	faults = append(faults, ValidateLabel(s.Label)...)
	if !offer.HasEngine(s.Engine, s.Series) {
		faults = append(faults, unknownEngine(offer.EngineIDs(s.Engine)))
	}
	if !offer.HasRegion(s.Region) {
		faults = append(faults, fault.NotValid("region"))
	}
	if s.Size != 1 && s.Size != 3 {
		faults.Add("cluster_size", "Must be one of 1, 3")
	}
	if !offer.HasType(s.Type, s.Engine, s.Size) {
		faults = append(faults, fault.NotValid("type"))
	}
	faults = append(faults, offer.Lacks(s)...)
	if s.Size == 1 || s.Size == 3 {
		faults = append(faults, s.validateReplication()...)
	}
	return append(faults, s.Updates.Validate()...)
}

// unknownEngine names what can be asked for instead.
func unknownEngine(offered []string) *fault.Fault {
	if len(offered) == 0 {
		return fault.NotValid("engine")
	}
	return fault.NewInvalid("engine", "engine is not valid; offered: %s", strings.Join(offered, ", "))
}

// ValidateLabel checks length and characters: 3..32, letters, digits, '-' and
// '_', starting with a letter or a digit (docs/rules.md, Databases).
func ValidateLabel(label string) fault.Faults {
	var faults fault.Faults
	if n := utf8.RuneCountInString(label); n < 3 || n > 32 {
		return fault.Faults{fault.Length("label", 3, 32)}
	}
	for i, r := range label {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if letter || i > 0 && (r == '-' || r == '_') {
			continue
		}
		faults.Add("label", "May only contain letters, digits, - and _, and must start with a letter or a digit")
		break
	}
	return faults
}

// LabelTaken is the fault of a label that another database of the account has.
func LabelTaken() *fault.Fault {
	return fault.NewInvalid("label", "Label must be unique among your databases")
}

// WithDefaults fills the replication settings that were left out, and takes
// away what the engine doesn't have.
func (s Spec) WithDefaults() Spec {
	if s.Replication == "" {
		switch {
		case s.Size == 1:
			s.Replication = ReplicationNone
		case s.Engine == MySQL:
			s.Replication = SemiSynch
		default:
			s.Replication = Asynch
		}
	}
	switch {
	case s.Engine != PostgreSQL:
		s.Commit = "" // the API has it for PostgreSQL only
	case s.Commit == "":
		s.Commit = CommitLocal
	}
	return s
}

// Nodes are how many a cluster has, and how they replicate.
type Nodes struct {
	Size        int         `json:"size"`
	Replication Replication `json:"replication"`
	Commit      Commit      `json:"commit,omitempty"`
}

// Nodes are those that are asked for.
func (s Spec) Nodes() Nodes { return Nodes{s.Size, s.Replication, s.Commit} }

// WithSize is the spec with another number of nodes. What isn't asked for of their
// replication is kept where it is possible with as many, or the default.
func (s Spec) WithSize(size int, replication *Replication, commit *Commit) (Spec, fault.Faults) {
	var faults fault.Faults
	if size != 1 && size != 3 {
		faults.Add("cluster_size", "Must be one of 1, 3")
		return s, faults
	}
	s.Size, s.Replication = size, ""
	if replication != nil {
		s.Replication = *replication
	}
	if commit != nil {
		s.Commit = *commit
	} else if size == 1 && (s.Commit == CommitRemoteWrite || s.Commit == CommitRemoteApply) {
		s.Commit = ""
	}
	s = s.WithDefaults()
	return s, s.validateReplication()
}

// validateReplication holds the row on replication of docs/rules.md, Databases.
func (s Spec) validateReplication() fault.Faults {
	var faults fault.Faults
	legal := []Replication{ReplicationNone}
	switch {
	case s.Size == 3 && s.Engine == MySQL:
		legal = []Replication{SemiSynch, Asynch}
	case s.Size == 3:
		legal = []Replication{Asynch}
	}
	if !slices.Contains(legal, s.Replication) {
		f := fault.OneOf("replication_type", legal...)
		f.Reason += " for this cluster_size"
		faults = append(faults, f)
	}
	if s.Engine != PostgreSQL {
		return faults
	}
	commits := []Commit{CommitLocal, CommitOn, CommitOff}
	if s.Size == 3 {
		commits = append(commits, CommitRemoteWrite, CommitRemoteApply)
	}
	if !slices.Contains(commits, s.Commit) {
		f := fault.OneOf("replication_commit_type", commits...)
		f.Reason += " for this cluster_size"
		faults = append(faults, f)
	}
	return faults
}
