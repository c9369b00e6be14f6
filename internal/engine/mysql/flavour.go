package mysql

import (
	"context"
	"io"

	"steward/internal/engine"
)

// flavour is what differs between MariaDB and MySQL beyond words, which are in its
// dialect.
type flavour interface {
	dialect() *dialect

	// initialise makes a template's data folder, running the SQL at its end.
	initialise(ctx context.Context, inst engine.Installation, dir, accounts string, run engine.Runner) error
	// verifier is the clause of CREATE and ALTER USER that stands for a password.
	verifier(password string) (string, error)
	// settings are those beyond the common ones.
	settings(n engine.Node, size tuning) []setting

	// encryption are the settings and files of an encrypted node.
	encryption(n engine.Node) ([]setting, []engine.File)
	// encrypt encrypts what the template brought, and returns when it is.
	encrypt(ctx context.Context, s *session) error
	// encryptionMissing is engine.Driver's.
	encryptionMissing(inst engine.Installation) string
	// keyring is the file that the server keeps its keys in and writes itself, "" for
	// none.
	keyring(n engine.Node) string

	// replicationSettings are those of a node in a cluster with several, beyond the
	// common ones.
	replicationSettings(n engine.Node) []setting
	// changeSource is the statement that makes n.Source the source.
	changeSource(n engine.Node) string
	// abandon ends an applier that waits for the rest of a transaction whose source
	// is gone; nothing to do where stopAll does.
	abandon(ctx context.Context, s *session) error
	// progress is how far a server is in its history.
	progress(ctx context.Context, s *session, st status) (progress, error)
	// compatible is engine.ErrDiverged when own can't follow source, whose status st is.
	compatible(ctx context.Context, own, source *session, st status) error
	// setPosition tells a replica that applies nothing where to go on.
	setPosition(ctx context.Context, s *session, n engine.Node) error
	// baseBackup copies the running server's data to dir.
	baseBackup(ctx context.Context, d *Driver, n engine.Node, dir string, run engine.Runner) error

	// backup writes a copy of the running server; work is a folder of the node's
	// user that is removed afterwards.
	backup(ctx context.Context, d *Driver, n engine.Node, w io.Writer, work string, run engine.Piper) error
	// unpack makes a data folder of it, whose server follows nobody and has an archive
	// ID of its own.
	unpack(ctx context.Context, n engine.Node, archive *engine.ArchiveReader, dir string, run engine.Piper) error
	// unpackToRecover makes one that goes on where the copy ended, and startNewArchive
	// gives one that has gone on an archive ID of its own.
	unpackToRecover(ctx context.Context, n engine.Node, archive *engine.ArchiveReader, dir string, run engine.Piper) error
	startNewArchive(ctx context.Context, n engine.Node, dir string, run engine.Piper) error

	// archiveID names the history of the server's data.
	archiveID(ctx context.Context, s *session) (string, error)
	// begins is how many transactions came before a log; next is that of the log
	// after it, or of where the server is now.
	begins(ctx context.Context, s *session, log string, next uint64) (uint64, error)
	// position is how far the server has got.
	position(ctx context.Context, s *session) (position, error)
	// readTransaction reads the event that begins a transaction.
	readTransaction(e logEvent) (transaction, error)
}

// dialect is the words of a flavour.
type dialect struct {
	// server is the server program's name.
	server string
	// scripts are the installation's own SQL that makes the system tables, in order.
	scripts []string
	// accounts is the SQL that makes our account and dbadmin, with gaps.
	accounts string
	// root are the statements that give dbadmin its privileges, each repeatable.
	root []string
	// guarded are privileges that keep the replicas' account from others.
	guarded string
	// reloadTLS makes the server read its certificate again.
	reloadTLS string
	// upgrade are the scripts that bring the system tables up to a newly
	// started version, where the server doesn't do so itself.
	upgrade []string

	// source and replica begin the names of the variables of semi-sync.
	source, replica string
	// plugins are what replication needs loaded, on servers that are alone, too: other
	// nodes may join them while they run. None for what is built in.
	plugins []setting
	// asyncFlush reports whether replicas don't sync each commit.
	asyncFlush bool
	// status answers a row for a replica, none for other servers.
	status string
	// startAll, stopAll, stopReceiver and reset act on the replica's threads; reset
	// makes it forget its source.
	startAll, startApplier, stopAll, stopReceiver, reset string
	// tuned is done to a stopped replica before it starts.
	tuned []string
	// forked are the numbers of the errors that threads stop at when the source
	// has another history.
	forked []string

	// applies is the right to write what a log has, and afterFormat what is said after it was told how logs begin.
	applies     string
	afterFormat []string

	// replay are the statements that apply archived logs.
	replay replayStatements
	// recovery are the settings of a server that recovers, beyond the common ones.
	recovery []setting
}

// replayStatements have gaps for the names of the channel and of its first log.
type replayStatements struct {
	// change makes the server a replica that has received the log already.
	change string
	// start, stop and reset act on its threads.
	start, stop, reset string
}

func flavourOf(f engine.Flavour) flavour {
	if f == engine.FlavourMariaDB {
		return mariaDB{}
	}
	return mySQL{}
}
