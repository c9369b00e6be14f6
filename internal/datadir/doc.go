// Package datadir opens what lies in a server's data folder, with the configuration
// that belongs to it, in the same way for the server and for operators' commands.
package datadir
