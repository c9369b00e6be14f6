package host

// step is one thing to do for a node.
type step string

// The steps, in the order in which they can occur.
const (
	stepDiscard        step = "discard"            // throw away data that nobody has written to
	stepClone          step = "clone"              // take a clone of the template
	stepPrepareReplica step = "prepare replica"    // make the clone one that can follow the primary's
	stepCertificate    step = "certificate"        // issue a certificate
	stepStop           step = "stop"               // stop the server cleanly
	stepFiles          step = "files"              // write configuration and key files
	stepStart          step = "start"              // start the server
	stepReady          step = "ready"              // wait until it answers
	stepReload         step = "reload"             // have it read its files again
	stepFence          step = "fence"              // take from customers what an older steward let them have
	stepLimits         step = "limits"             // raise the limits of the running server
	stepBootstrap      step = "bootstrap"          // give it its own passwords
	stepResetRoot      step = "reset root account" // repair the root account of another cluster's data
	stepRole           step = "role"               // have it follow the primary, or be it
	stepUpgrade        step = "upgrade"            // finish the move to a newer version
	stepKeyring        step = "keyring"            // seal what the server's keyring holds
	stepReadOnly       step = "read only"          // turn the disk guard on or off
	stepRoute          step = "route"              // open the gateway, or change who may pass
	stepSettle         step = "settle"             // put on record that all is as wanted
)

// nodeStatus compares what was found of a node with what is wanted of it.
type nodeStatus struct {
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
	// Settled reports whether the record says that all was done.
	Settled bool
}

// plan lists what has to be done, in order. It is pure.
func plan(s nodeStatus) []step {
	var steps []step
	add := func(do bool, more ...step) {
		if do {
			steps = append(steps, more...)
		}
	}
	running := s.Running
	// A replica that didn't get as far as following is made anew, too.
	discard := s.Data && !s.Bootstrapped && !running && (s.Rebooted || s.Replica)
	clone := !s.Data || discard
	add(discard, stepDiscard)
	add(clone, stepClone)
	add(clone && s.Replica, stepPrepareReplica)
	add(s.CertificateDue, stepCertificate)
	if running && (s.OtherBuild || s.Restart) {
		add(true, stepStop)
		running = false
	}
	if !running {
		add(true, stepFiles, stepStart, stepReady)
	} else {
		add(s.FilesDue, stepFiles)
		add(!s.Answers, stepReady)
		reload := s.FilesDue || s.CertificateDue // which fences, too
		add(reload, stepReload)
		add(s.FencesDue && !reload, stepFence)
		add(s.LimitsDue, stepLimits)
	}
	fresh := clone || !s.Bootstrapped
	add(fresh, stepBootstrap)
	add(s.RoleDue || s.Replicated && (!s.Running || !running || fresh), stepRole)
	add(s.Upgrading || s.OtherBuild && !fresh, stepUpgrade)
	add(s.Encrypted, stepKeyring)
	add(s.ReadOnlyDue && running, stepReadOnly)
	add(s.RouteDue, stepRoute)
	add(len(steps) > 0 || !s.Settled, stepSettle)
	if onlyKeyring(steps) && s.Settled {
		return []step{stepKeyring} // looked at each time, without a change to record
	}
	return steps
}

func onlyKeyring(steps []step) bool {
	return len(steps) == 2 && steps[0] == stepKeyring && steps[1] == stepSettle
}
