// Package plan lists what has to be done for a node. It is pure.
package plan

import "slices"

// Step is one thing to do for a node.
type Step string

// The steps, in the order in which they can occur.
const (
	Discard        Step = "discard"            // throw away data that nobody has written to
	Clone          Step = "clone"              // take a clone of the template
	PrepareReplica Step = "prepare replica"    // make the clone one that can follow the primary's
	Certificate    Step = "certificate"        // issue a certificate
	Stop           Step = "stop"               // stop the server cleanly
	Files          Step = "files"              // write configuration and key files
	Start          Step = "start"              // start the server
	Ready          Step = "ready"              // wait until it answers
	Reload         Step = "reload"             // have it read its files again
	Fence          Step = "fence"              // take from customers what an older steward let them have
	Limits         Step = "limits"             // raise the limits of the running server
	Bootstrap      Step = "bootstrap"          // give it its own passwords
	ResetRoot      Step = "reset root account" // repair the root account of another cluster's data
	Role           Step = "role"               // have it follow the primary, or be it
	Upgrade        Step = "upgrade"            // finish the move to a newer version
	Keyring        Step = "keyring"            // seal what the server's keyring holds
	ReadOnly       Step = "read only"          // turn the disk guard on or off
	Wake           Step = "wake"               // put on record that the cluster sleeps no more
	Route          Step = "route"              // open the gateway, or change who may pass
	Settle         Step = "settle"             // put on record that all is as wanted
)

// Status compares what was found of a node with what is wanted of it.
type Status struct {
	// Data reports whether a data folder is there, Bootstrapped whether customers may
	// have written to it.
	Data, Bootstrapped bool
	// Replicated reports whether the cluster has several nodes, Replica whether this one
	// follows the primary, RoleDue whether its role has to be set.
	Replicated, Replica, RoleDue bool
	// Streaming reports whether the replica follows the primary.
	Streaming bool
	// Rebooted reports whether the machine started anew since the data was cloned:
	// before Bootstrapped nobody knows what of it reached the disk.
	Rebooted bool
	Running  bool
	// Answers reports whether the running server answers.
	Answers bool
	// OtherBuild reports whether the wanted build isn't the one that runs, or the one
	// that the data was last run with.
	OtherBuild bool
	Upgrading  bool
	Encrypted  bool
	// CertificateDue reports whether a new certificate is needed, FilesDue whether the
	// running server has read other files than those wanted.
	CertificateDue, FilesDue bool
	// Restart reports whether what changed can't be done to the running server.
	Restart bool
	// LimitsDue reports whether the running server's limits differ.
	LimitsDue bool
	// FencesDue reports whether customers may have what an older steward let them have.
	FencesDue   bool
	ReadOnlyDue bool
	RouteDue    bool
	// Asleep reports whether it is on record that the cluster sleeps.
	Asleep bool
	// Settled reports whether the record says that all was done.
	Settled bool
}

// Steps lists what has to be done, in order.
func Steps(s Status) []Step {
	running := s.Running && !s.stops()
	var steps []Step
	add := func(do bool, more ...Step) {
		if do {
			steps = append(steps, more...)
		}
	}
	add(s.discards(), Discard)
	add(s.clones(), Clone)
	add(s.clones() && s.Replica, PrepareReplica)
	add(s.CertificateDue, Certificate)
	add(s.stops(), Stop)
	add(!running, Files, Start, Ready)
	add(running, s.updates()...)
	add(s.fresh(), Bootstrap)
	add(s.RoleDue || s.Replicated && (!running || !s.Answers || s.fresh()), Role) // one that doesn't answer yet may not know its role
	add(s.Upgrading || s.OtherBuild && !s.fresh(), Upgrade)
	add(s.Encrypted, Keyring)
	add(s.ReadOnlyDue && running, ReadOnly)
	add(s.Asleep && !s.Replica, Wake)                                                        // before anybody is led here: who finds it on record stops the server
	add(s.RouteDue || s.Asleep && !s.Replica || !running && !s.Replica && !s.fresh(), Route) // nobody is led to a server that doesn't run
	if s.Settled && (len(steps) == 0 || slices.Equal(steps, []Step{Keyring})) {
		return steps // the keyring is looked at each time, without a change to record
	}
	return append(steps, Settle)
}

// discards reports whether there is data that can't be gone on with: of a replica that
// didn't get as far as following, too, and of a server that ended while it began to encrypt, on which MySQL 9.7 doesn't always come up again.
func (s Status) discards() bool {
	return s.Data && !s.Bootstrapped && !s.Running && (s.Rebooted || s.Replica || s.Encrypted)
}

// clones reports whether the data begins with a clone of the template.
func (s Status) clones() bool { return !s.Data || s.discards() }

// fresh reports whether no customer has written to the data.
func (s Status) fresh() bool { return s.clones() || !s.Bootstrapped }

// stops reports whether the running server has to be stopped.
func (s Status) stops() bool { return s.Running && (s.OtherBuild || s.Restart) }

// updates are the steps for a server that goes on running.
func (s Status) updates() []Step {
	var steps []Step
	if s.FilesDue {
		steps = append(steps, Files)
	}
	if !s.Answers {
		steps = append(steps, Ready)
	}
	if s.FilesDue || s.CertificateDue {
		steps = append(steps, Reload) // which fences, too
	} else if s.FencesDue {
		steps = append(steps, Fence)
	}
	if s.LimitsDue {
		steps = append(steps, Limits)
	}
	return steps
}

// OnlyKeyring reports whether steps do nothing beyond sealing the keyring.
func OnlyKeyring(steps []Step) bool {
	return slices.Equal(steps, []Step{Keyring}) || slices.Equal(steps, []Step{Keyring, Settle})
}
