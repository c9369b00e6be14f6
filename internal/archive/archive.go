// Package archive keeps backups in an object store: compressed, encrypted with
// a key per database, checksummed, and streamed both ways.
package archive
