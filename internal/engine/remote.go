package engine

import (
	"context"
	"net/netip"
	"time"

	"steward/internal/insight"
)

// Remote says how a node is reached that doesn't run on this machine: by TCP, with TLS, and with our own
// account's password. There are none of the node's folders then.
type Remote struct {
	Address netip.AddrPort
	// CA is the certificate that the server's was issued with, and Name one that the server's is for.
	CA   []byte
	Name string
	// Session is one that questions share; nil has each begin its own, which takes TLS and a log-in.
	Session Session
}

// Session is an open session of a driver's own kind. It is for one goroutine at a time.
type Session interface{ Close() }

// Hosted is implemented by drivers whose servers something else can set up, configure and start, such as an operator of
// Kubernetes.
type Hosted interface {
	// Share opens a session, and returns the node with it: questions about that share it, as long as it lasts. It is the caller's to close.
	Share(ctx context.Context, n Node) (Node, error)
	// KeepSessions ends those of customers that come from elsewhere than the networks, whatever they have open.
	KeepSessions(ctx context.Context, n Node, from []netip.Prefix) error
	// UsedBytes is what the server's data takes on its disk.
	UsedBytes(ctx context.Context, n Node) (int64, error)
}

// Told is a Hosted whose servers are told by SQL, at their birth, what they are, by settings how to be, and by rules whom to let in.
type Told interface {
	Hosted
	// Birth is what a pristine server has to be told once, before anybody uses it, so that it is what a server is that
	// was made of a Template and bootstrapped. The role dbadmin may be there already. Its passwords are verifiers, so that no
	// two births are the same.
	Birth(n Node) (Birth, error)
	// Settings are the node's, by name, whatever of them is somebody else's to decide. Pure.
	Settings(n Node) (map[string]string, error)
	// FirstDatabase is the name of the database that a customer begins with, and Root that of its owner.
	FirstDatabase() (name, owner string)
	// Access are the rules of who may log in, in order, each a line. Ours come from the networks. Pure.
	Access(n Node, ours []netip.Prefix) []string
	// Mark is a setting and a rule that are put beside the others, so that Marked can tell which of them a server has
	// read. Pure.
	Mark(mark string) (setting, value, rule string)
	// Marked reports whether the server has read settings and rules with the mark, and none of them waits for a restart.
	Marked(ctx context.Context, n Node, mark string) (bool, error)
	// Seal commits a change that means nothing, and has the primary end the file of WAL that it is in, which is returned: once that is archived, all
	// is that was committed before.
	Seal(ctx context.Context, n Node) (segment string, err error)
	// LogEntry is what is shown of a record of the server's log. Pure.
	LogEntry(r LogRecord) insight.LogLine
}

// Placed is a Hosted whose servers read files of ours, and are given our account by whoever set them up.
type Placed interface {
	Hosted
	// Place are the files to be put into the server's folder n.Conf, by their names, MainFile among them. A server that was started with another
	// restart has to be started again; the rest Reload has it take over. Pure.
	Place(n Node) (files map[string][]byte, restart string, err error)
	// Admit makes a pristine server what one is that was made of a Template and bootstrapped, with its superuser's password. Afterwards our account
	// works, and the superuser is whose it was. Cut short, it begins anew.
	Admit(ctx context.Context, n Node, password string) error
	// TakeOver gives a server that began with a copy of one of ours the passwords of today: n's, and its superuser's. Our account has n.AdminPassword, or
	// n.TemplatePassword where that is set. Cut short, it begins anew.
	TakeOver(ctx context.Context, n Node, password string) error
}

// MainFile is the one that names the others, or needs none.
const MainFile = "my.cnf"

// LogRecord is an entry of a server's log whose parts came each by itself.
type LogRecord struct {
	Time time.Time
	// User and Database are those of the session that it is about; "" for none.
	User, Database string
	// Severity is the server's word, Message what it says, and Cut reports whether there is more of that.
	Severity, Message string
	Cut               bool
}

// Birth is SQL by where it is run, in this order. Statements end with ";".
type Birth struct {
	// Administration is for the database of the server's superuser, Template for the one that databases are made
	// of, and First for the customer's first, after it was made of that.
	Administration, Template, First string
}
