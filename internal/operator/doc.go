// Package operator holds the operators' use cases: what the commands do that are given
// on the machine itself, on a data folder and its store, whether a server runs or not.
package operator
